"""Programs as Python, by TVM's names."""

from __future__ import annotations

import ast
from typing import Any

from relayvm.compiler import to_python as python
from relayvm.ir.expr import Expr, Function, GlobalVar
from relayvm.ir.module import Module
from relayvm.relay.backend.entry import Entry, entry_of
from relayvm.relay.lazy import absent
from relayvm.relay.module import unwrap
from relayvm.relay.namespace.target import Target
from relayvm.relay.node import as_expr
from relayvm.relay.values import to_argument, to_relay

DEFAULT_TARGET = Target("llvm")


def to_python(expr: Any, mod: Any = None, target: Any = DEFAULT_TARGET) -> ast.Module:
    """Return Python that computes an expression: `ast.unparse` gives its text, in which `main` is
    a function that takes its parameters, or none. It runs anywhere: `target` is not used.
    """
    return ast.parse(python.to_python(_entry(expr, mod).module))


def run_as_python(expr: Any, mod: Any = None, target: Any = DEFAULT_TARGET) -> Any:
    """Return the value of an expression, computed by its Python; a Python function for one that is
    a function.
    """
    entry = _entry(expr, mod)
    program = python.PythonProgram(entry.module)

    def run(*args: Any, **kwargs: Any) -> Any:
        values = [to_argument(value, program.module) for value in entry.bound(args, kwargs)]
        return to_relay(program.call(entry.name, values), program.module)

    return run if isinstance(expr, (Function, GlobalVar)) else run()


def _entry(expr: Any, mod: Any) -> Entry:
    root: Expr = as_expr(expr, "`to_python`")
    return entry_of(Module() if mod is None else unwrap(mod), root)


__getattr__ = absent("relayvm.relay.testing.py_converter")
