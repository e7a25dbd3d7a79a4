"""The executor that evaluates programs as they stand, by TVM's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from relayvm.base.diagnostics import RelayError
from relayvm.compiler.analysis.variables import check_variables
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.passes import run_passes
from relayvm.ir.expr import Expr, Function, GlobalVar
from relayvm.ir.module import Module
from relayvm.relay.backend.entry import Entry, entry_of
from relayvm.relay.backend.per_types import PerTypes
from relayvm.relay.expr import bind
from relayvm.relay.lazy import absent
from relayvm.relay.module import unwrap
from relayvm.relay.node import as_expr
from relayvm.relay.values import ConstructorValue, RefValue, to_argument, to_relay

Runner = Callable[..., Any]

__all__ = ["ConstructorValue", "Executor", "Interpreter", "RefValue"]


class Executor:
    """Runs functions and expressions of a module: what `create_executor` returns."""

    def __init__(self, mod: Any = None, device: Any = None, target: Any = None) -> None:
        self.mod = mod
        self.device = device
        self.target = target

    def evaluate(self, expr: Expr | None = None, binds: Mapping[Any, Any] | None = None) -> Any:
        """Return the value of an expression, or a Python function for one that is a function.

        Without `expr`, `main` is meant. `binds` are values of free variables or parameters.
        """
        if binds:
            expr = bind(as_expr(expr, "an executor"), binds)
        entry = entry_of(self._module(), None if expr is None else as_expr(expr, "an executor"))
        run = self._runner(entry)
        if expr is None or isinstance(expr, (Function, GlobalVar)):
            return run
        return run()

    def _module(self) -> Module:
        return Module() if self.mod is None else unwrap(self.mod)

    def _runner(self, entry: Entry) -> Runner:
        raise TypeError("`create_executor` makes an executor of a kind")


class Interpreter(Executor):
    """Evaluates with numpy, one operator at a time: for debugging, and the meaning of programs."""

    def _runner(self, entry: Entry) -> Runner:
        evaluators = PerTypes(entry, _evaluator, _evaluator_for_all)

        def run(*args: Any, **kwargs: Any) -> Any:
            values = entry.bound(args, kwargs)
            evaluator, name = evaluators.get(values)
            result = evaluator.call(name, [to_argument(v, evaluator.module) for v in values])
            return to_relay(result, evaluator.module)

        return run


def _evaluator(entry: Entry) -> tuple[Evaluator, str]:
    """Return an evaluator of a typed module, and the name of the entry."""
    check_variables(entry.module)
    return Evaluator(run_passes(entry.module, ["infer_types"])), entry.name


def _evaluator_for_all(entry: Entry) -> tuple[Evaluator, str] | None:
    """Return an evaluator that runs an open entry for any types; None where its own types are not
    found without those of arguments.
    """
    try:
        return _evaluator(entry)
    except RelayError as failure:
        if failure.code != "cannot-infer":
            raise
        return None


__getattr__ = absent("relayvm.relay.backend.interpreter")
