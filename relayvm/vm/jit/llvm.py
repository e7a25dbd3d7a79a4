"""LLVM IR of a whole program to an object file."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm

from relayvm.base.process import llvm_lock

# Registers become values first; what is left is small and mostly straight.
_PASSES = ("sroa", "instruction_combine", "simplify_cfg", "new_gvn", "dead_store_elimination")
_LAST = ("instruction_combine", "simplify_cfg")


@functools.lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


# What a function saves of its caller's registers is not saved before it is clear that it will call:
# by LLVM's usual estimate of the cost it was saved at once, also where recursions end, which made a
# call of fib take twice as long. The switch is one for the whole process.
_LATE_SAVES = "-regalloc-csr-first-time-cost={}"
_COST, _USUAL_COSTS = 60_000, {"x86_64": 0, "aarch64": 5}
# What kernels are given before they are inlined: nests are explicit.
_KERNELS = ("sroa", "simplify_cfg", "loop_rotate", "instruction_combine", "simplify_cfg")


def compile_object(
    text: str, triple: str, cpu: str, features: str, effort: int = 2, kernels: str = ""
) -> bytes:
    """Return the object file of a module's text, and of the kernels that it calls, which are
    inlined; `effort` is that of making machine code.
    """
    with llvm_lock:
        return bytes(_compiled(text, triple, cpu, features, effort, bytes, kernels))


def compile_assembly(
    text: str, triple: str, cpu: str, features: str, effort: int = 2, kernels: str = ""
) -> str:
    """Return the assembly that `compile_object` encodes."""
    with llvm_lock:
        return str(_compiled(text, triple, cpu, features, effort, str, kernels))


def _compiled(
    text: str, triple: str, cpu: str, features: str, effort: int, kind: type, kernels: str
) -> Any:
    _initialize()
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=effort, reloc="pic", codemodel="small"
    )
    module = _parsed(text)
    if kernels:
        small = _parsed(kernels)
        _run(small, machine, _KERNELS)
        module.link_in(small)
        _run(module, machine, ("always_inliner", "global_dead_code_eliminate"))
    _run(module, machine, (*_PASSES, *_LAST))
    llvm.set_option("relayvm", _LATE_SAVES.format(_COST))
    try:
        return machine.emit_object(module) if kind is bytes else machine.emit_assembly(module)
    finally:
        llvm.set_option("relayvm", _LATE_SAVES.format(_USUAL_COSTS[triple.partition("-")[0]]))


def _parsed(text: str) -> Any:
    module = llvm.parse_assembly(text)
    module.verify()
    return module


def _run(module: Any, machine: Any, passes: tuple[str, ...]) -> None:
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
    manager = llvm.create_new_module_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)
