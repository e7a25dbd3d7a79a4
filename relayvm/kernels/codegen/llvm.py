"""LLVM IR text to machine code: optimises a module and returns its object file or assembly."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm

from relayvm.base.native.cpu import Cpu
from relayvm.base.process import llvm_lock


@functools.lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def version() -> tuple[int, int, int]:
    """Return the version of LLVM."""
    major, minor, patch = llvm.llvm_version_info
    return major, minor, patch


def _target_machine(cpu: Cpu, speed: int) -> Any:
    _initialize()
    return llvm.Target.from_triple(cpu.triple).create_target_machine(
        cpu=cpu.name,
        features=",".join(cpu.llvm_features),
        opt=speed,
        reloc="pic",
        codemodel="small",
    )


def module_text(functions: str, cpu: Cpu) -> str:
    """Return a whole module around the text of functions, with the attributes they name."""
    attributes = ["nounwind"]
    if cpu.vector_bits:
        attributes.append(f'"prefer-vector-width"="{cpu.vector_bits}"')
    head = f'target triple = "{cpu.triple}"\n\n'
    return head + functions + f"\nattributes #0 = {{ {' '.join(attributes)} }}\n"


# Nests are explicit in vectors and unrolling, and the emitter leaves out what is computed already
# and moves what loops do not change out of them, so little is left to do: LLVM's own pipeline took
# 6 times as long for code of the same speed.
_PASSES = ("sroa", "simplify_cfg")
# Combining makes chains of arithmetic up to a fifth faster, which are short loops over memory; so
# does LLVM's reduction of what loops step through. Where loops are many, as for each size of a
# tile, they take up to half of all time, and the loops are as fast without.
_SHORT_LINES = 1000
_SHORT_PASSES = (*_PASSES, "instruction_combine")


def _optimised(text: str, machine: Any, is_short: bool) -> Any:
    module = llvm.parse_assembly(text)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
    manager = llvm.create_new_module_pass_manager()
    for name in _SHORT_PASSES if is_short else _PASSES:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)
    return module


def _emitted(text: str, cpu: Cpu, speed: int, emit: str) -> Any:
    machine = _target_machine(cpu, speed)
    is_short = text.count("\n") <= _SHORT_LINES
    module = _optimised(text, machine, is_short)
    if is_short:
        return getattr(machine, emit)(module)
    llvm.set_option("relayvm", "-disable-lsr=1")  # for the whole process
    try:
        return getattr(machine, emit)(module)
    finally:
        llvm.set_option("relayvm", "-disable-lsr=0")


def compile_object(text: str, cpu: Cpu, speed: int = 2) -> bytes:
    """Return the object file of a module's text."""
    with llvm_lock:
        return bytes(_emitted(text, cpu, speed, "emit_object"))


def compile_assembly(text: str, cpu: Cpu, speed: int = 2) -> str:
    """Return the assembly that `compile_object` encodes."""
    with llvm_lock:
        return str(_emitted(text, cpu, speed, "emit_assembly"))
