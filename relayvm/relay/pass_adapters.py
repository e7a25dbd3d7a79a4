"""Passes whose parameters in TVM differ from those of ours."""

from __future__ import annotations

from collections.abc import Iterable

from relayvm.base.diagnostics import error
from relayvm.ir.module import Module
from relayvm.ir.visit import global_vars


def remove_unused_functions(module: Module, *, entry_functions: Iterable[str] | None) -> Module:
    """Return the module without the functions that no entry reaches; by default that is `main`."""
    waiting = list(dict.fromkeys(["main"] if entry_functions is None else entry_functions))
    for name in waiting:
        if name not in module.functions:
            raise error("unknown-function", f"the module has no function `@{name}`")
    reached = set(waiting)
    while waiting:
        for name in global_vars(module.functions[waiting.pop()]):
            if name in module.functions and name not in reached:
                reached.add(name)
                waiting.append(name)
    return module.with_functions({n: f for n, f in module.functions.items() if n in reached})
