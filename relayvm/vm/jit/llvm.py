"""LLVM IR of a whole program to an object file."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm

# Registers become values first; what is left is small and mostly straight.
_PASSES = ("sroa", "instruction_combine", "simplify_cfg", "new_gvn", "dead_store_elimination")
_LAST = ("instruction_combine", "simplify_cfg")


@functools.lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def compile_object(text: str, triple: str, cpu: str, features: str, effort: int = 2) -> bytes:
    """Return the object file of a module's text; `effort` is that of making machine code."""
    return bytes(_compiled(text, triple, cpu, features, effort, bytes))


def compile_assembly(text: str, triple: str, cpu: str, features: str, effort: int = 2) -> str:
    """Return the assembly that `compile_object` encodes."""
    return str(_compiled(text, triple, cpu, features, effort, str))


def _compiled(text: str, triple: str, cpu: str, features: str, effort: int, kind: type) -> Any:
    _initialize()
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=effort, reloc="pic", codemodel="small"
    )
    module = llvm.parse_assembly(text)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
    manager = llvm.create_new_module_pass_manager()
    for name in (*_PASSES, *_LAST):
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)
    return machine.emit_object(module) if kind is bytes else machine.emit_assembly(module)
