"""The native engine: compiles the bytecode of a whole executable to one image of machine code.

Same results, traps, stack traces and steps as the interpreter; which instructions are lowered in
place, and which by a call of their C body, makes no difference but speed.
"""

from __future__ import annotations

import importlib.util
import threading
from typing import TYPE_CHECKING

from relayvm.base.abi import Image
from relayvm.base.diagnostics import error
from relayvm.base.link import link_object
from relayvm.vm.jit.host import Host, this_host
from relayvm.vm.jit.module import enter_name, margin_bytes, module_text
from relayvm.vm.library import ffi, lib

if TYPE_CHECKING:
    from relayvm.vm.executable import Executable
    from relayvm.vm.program import Program

_lock = threading.Lock()


def make_native(executable: Executable, inline: bool = True) -> None:
    """Give an executable the code that the engine `jit` runs, unless it has it.

    Without `inline` all but control is done by C bodies (a test mode). Raises RelayError
    `bad-option` where this host cannot compile or run such code.
    """
    with _lock:
        if not lib.rvm_program_is_native(executable.handle):
            program = executable.program()
            _attach(executable, program, program_image(program, inline))


def program_image(program: Program, inline: bool = True, host: Host | None = None) -> Image:
    """Return the code of all functions of a program for a host, by default this one."""
    host = host or this_host()
    if importlib.util.find_spec("llvmlite") is None:
        raise error(
            "bad-option",
            "the engine `jit` needs llvmlite, which is not installed",
            help="the engine `interpreter` runs everywhere",
        )
    from relayvm.vm.jit.llvm import compile_object

    text = module_text(program, host, inline)
    data = compile_object(text, host.triple, host.cpu, host.features)
    entries = {
        "functions": tuple(f"f{i}" for i in range(len(program.functions))),
        "enter": tuple(map(enter_name, program.functions)),
    }
    return link_object(data, host.triple, (), entries)


def _attach(executable: Executable, program: Program, image: Image) -> None:
    from relayvm.vm.executable import map_image

    base = map_image(executable.handle, image)
    functions = ffi.new("uint32_t[]", image.entries["functions"])
    enter = ffi.new("uint32_t[]", image.entries["enter"])
    margin = margin_bytes(program)
    if lib.rvm_program_set_native(executable.handle, base, functions, enter, margin) != 0:
        raise error("out-of-memory", "there is no memory for the native code")
