"""What users call: text to module and back, module to executable."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.base.native.cpu import target_cpu
from relayvm.base.process import paused_collection
from relayvm.base.source import Source
from relayvm.base.target import Target
from relayvm.compiler.entries import bind_params
from relayvm.compiler.lower.program import lower_module
from relayvm.compiler.optimize import optimize
from relayvm.compiler.program_text import parse_every_error
from relayvm.ir.metadata import Section, write_tensors
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module
from relayvm.ops import OPS
from relayvm.ops.custom import check_custom_operators
from relayvm.ops.operator import Operator
from relayvm.vm.executable import Executable, can_run, load_parts
from relayvm.vm.file.codec import encoded_parts
from relayvm.vm.jit import host_of, stored_code
from relayvm.vm.program import Program

MAX_OPT_LEVEL = 4


def parse(
    text_or_path: str | os.PathLike[str], operators: Iterable[Operator] = (), name: str = "<string>"
) -> Module:
    """Return the module that Relay text describes, with what it uses of the prelude.

    A `Path`, or a string of one line that ends in `.relay` or `.rly`, names a file. `operators`
    are rows besides the table's. Raises RelayError with every independent error of the text.
    """
    rows = {row.name: row for row in check_custom_operators(operators)}
    with paused_collection():
        return parse_every_error(_source(text_or_path, name), {**OPS, **rows})


def _source(text_or_path: str | os.PathLike[str], name: str) -> Source:
    if not isinstance(text_or_path, (str, os.PathLike)):
        message = f"a program is text or a path, not a `{type(text_or_path).__name__}`"
        raise error("bad-option", message)
    is_path = not isinstance(text_or_path, str) or (
        "\n" not in text_or_path and text_or_path.endswith((".relay", ".rly"))
    )
    if not is_path:
        return Source(name, str(text_or_path))
    path = Path(text_or_path)
    try:
        return Source(str(path), path.read_text(encoding="utf-8"), path.parent)
    except OSError as reason:
        raise error("unreadable-file", f"`{path}` cannot be read: {reason.strerror}") from None
    except UnicodeDecodeError as reason:
        byte = reason.object[reason.start]
        message = f"`{path}` is not UTF-8 text: byte {reason.start} is 0x{byte:02x}"
        raise error("unreadable-file", message) from None


def save_text(
    module: Module,
    path: str | os.PathLike[str],
    constants: str = "inline",
    *,
    show_types: bool = False,
) -> None:
    """Write a module as text that `parse(path)` reads back as an equal program with the same bits.

    Constants without a literal stand in the text itself (`"inline"`), or in a safetensors file of
    the same name beside it (`"file"`). Raises RelayError `bad-option` or `unwritable-file`.
    """
    if constants not in ("inline", "file"):
        raise error("bad-option", f"`constants` is {constants!r}; it must be `inline` or `file`")
    path = Path(path)
    beside = path.with_name(f"{path.stem}.safetensors")
    section = Section(beside.name if constants == "file" else "")
    text = print_module(module, show_types=show_types, section=section)
    try:
        if section.file and section.constants:
            write_tensors(beside, section.tensors())
        path.write_text(text, encoding="utf-8")
    except OSError as reason:
        message = f"`{reason.filename}` cannot be written: {reason.strerror}"
        raise error("unwritable-file", message) from None


def compile(
    module: Module,
    target: str | Target = "cpu",
    params: Mapping[str, Any] | None = None,
    opt_level: int = 3,
    entries: Iterable[str] | None = None,
    jit: bool = False,
) -> Executable:
    """Return the executable of a module.

    `params` are arrays that take the place of parameters of `main`, by name. `entries` are the
    functions that can be called, `"length[int32]"` for one with type parameters; by default every
    monomorphic function that the program itself defines. With `jit` the executable holds machine
    code of its functions too, not of kernels alone: whoever loads it with `native=True`, from C or
    where llvmlite is missing, runs that and interprets nothing. An executable for another CPU than
    the host's can be saved and looked at, not run. Raises RelayError with every independent error.
    """
    if type(opt_level) is not int or not 0 <= opt_level <= MAX_OPT_LEVEL:
        message = f"`opt_level` is {opt_level!r}; it must be from 0 to {MAX_OPT_LEVEL}"
        raise error("bad-option", message)
    with paused_collection():
        return _compiled(module, Target.parse(target), params, opt_level, entries, jit)


def _compiled(
    module: Module,
    chosen: Target,
    params: Mapping[str, Any] | None,
    opt_level: int,
    entries: Iterable[str] | None,
    jit: bool,
) -> Executable:
    module = bind_params(module, {} if params is None else params)
    lowered = optimize(module, opt_level=opt_level, entries=entries, target=chosen)
    program = lower_module(
        lowered.module,
        lowered.entries,
        lowered.declared,
        chosen,
        opt_level=opt_level,
        uniform=lowered.uniform,
    )
    if jit:
        cpu = target_cpu(chosen)
        code = stored_code(program, host_of(cpu.triple, cpu.name))
        program = dataclasses.replace(program, native=code)
    return load_parts(encoded_parts(program), _runs_here(program), program.kernels)


def _runs_here(program: Program) -> bool:
    """Tell whether this host can run the code just made, which may be for another CPU."""
    return all(
        kernel.image is not None and can_run(kernel.image.triple, kernel.image.features)
        for kernel in program.kernels
    )
