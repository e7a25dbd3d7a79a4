"""LLVM IR text to machine code: optimises a module and returns its object file or assembly."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm

from relayvm.kernels.codegen.cpu import Cpu


@functools.lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


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


# Nests are explicit in vectors, unrolling and common subexpressions, so little is left to do:
# LLVM's own pipeline took 6 times as long for code of the same speed.
_PASSES = ("sroa", "simplify_cfg", "loop_rotate", "instruction_combine", "simplify_cfg")


def _optimised(text: str, machine: Any) -> Any:
    module = llvm.parse_assembly(text)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
    manager = llvm.create_new_module_pass_manager()
    for name in _PASSES:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)
    return module


def compile_object(text: str, cpu: Cpu, speed: int = 2) -> bytes:
    """Return the object file of a module's text."""
    machine = _target_machine(cpu, speed)
    return bytes(machine.emit_object(_optimised(text, machine)))


def compile_assembly(text: str, cpu: Cpu, speed: int = 2) -> str:
    """Return the assembly that `compile_object` encodes."""
    machine = _target_machine(cpu, speed)
    return str(machine.emit_assembly(_optimised(text, machine)))
