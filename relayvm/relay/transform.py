"""`relay.transform`: the passes of the table as callables that make passes, and the user's own
function passes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import PASSES, run_passes
from relayvm.compiler.pipeline import is_typed
from relayvm.ir.expr import Expr, Function
from relayvm.ir.module import Module
from relayvm.relay.binders import with_one_binder_each
from relayvm.relay.build_module import build_config
from relayvm.relay.expr_passes import FoldConstantExpr, ToANormalFormExpr, recast
from relayvm.relay.lazy import absent
from relayvm.relay.module import IRModule, unwrap, wrap
from relayvm.relay.namespace.transform import (
    ApplyPassToFunction,
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    PrintIR,
    Sequential,
    decorated,
    module_pass,
    with_functions,
)
from relayvm.relay.pass_adapters import (
    BatchingOps,
    Defunctionalization,
    FirstOrderGradient,
    gradient,
    to_cps,
    un_cps,
)
from relayvm.relay.pass_table import ROWS, PassRow

__all__ = [
    "ApplyPassToFunction",
    "BatchingOps",
    "Defunctionalization",
    "FirstOrderGradient",
    "FoldConstantExpr",
    "FunctionPass",
    "InferTypeLocal",
    "ToCPS",
    "build_config",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassInfo",
    "PrintIR",
    "Sequential",
    "ToANormalFormExpr",
    "function_pass",
    "module_pass",
    "recast",
    "gradient",
    "to_cps",
    "un_cps",
]

SKIPPED = frozenset({"SkipOptimization", "Compiler", "Extern"})


class FunctionPass(Pass):
    """A pass over one function at a time; made by `function_pass`."""

    def __init__(self, pass_func: Callable[..., Function], pass_info: PassInfo) -> None:
        super().__init__(pass_info)
        self.pass_func = pass_func

    def run(self, mod: IRModule, context: PassContext) -> IRModule:
        """Return the module with what the function of the pass gives for each function.

        Functions that other compilers own, or that ask to be left alone, are skipped. Types are
        inferred behind it.
        """
        new: dict[str, Expr] = {}
        for variable, function in mod.functions_items():
            if SKIPPED & function.attrs.keys():
                continue
            result = self.pass_func(function, mod, context)
            if not isinstance(result, Function):
                kind = type(result).__name__
                message = f"pass `{self.info.name}` returned a `{kind}`, no function"
                raise error("wrong-argument", message)
            new[variable.name] = with_one_binder_each(result)
        return wrap(infer_types(unwrap(with_functions(mod, new))), mod)


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    *,
    traceable: bool = False,
) -> Any:
    """Return a pass made of a function `(function, module, context) -> function`, or of a class
    with a method `transform_function`; without either, a decorator.
    """
    if opt_level is None:
        raise ValueError("Please provide opt_level for the function pass.")
    info = PassInfo(opt_level, name or "", required, traceable)
    return decorated(pass_func, info, FunctionPass, "transform_function")


class _TablePass(Pass):
    """A pass of the table with its parameters."""

    def __init__(self, row: PassRow, parameters: dict[str, Any]) -> None:
        Pass.__init__(self, PassInfo(row.opt_level, row.name))
        self.row = row
        self.parameters = parameters

    def run(self, mod: IRModule, context: PassContext) -> IRModule:
        """Return the module after the pass, with types."""
        before = unwrap(mod)
        after = _run(self.row, before, self.parameters)
        return mod if after is before else wrap(after, mod)


class _TableFunctionPass(_TablePass, FunctionPass):
    """One that works on functions one at a time."""

    run = _TablePass.run


class _TableModulePass(_TablePass, ModulePass):
    """One that needs the whole module."""

    run = _TablePass.run


def _run(row: PassRow, module: Module, parameters: dict[str, Any]) -> Module:
    if ":" not in row.runs:
        return _typed(run_passes(module, [(row.runs, _options(row, parameters))]))
    if row.wants_types and not is_typed(module):
        module = infer_types(module)
    home, name = row.runs.split(":")
    result: Module = getattr(import_module(home), name)(module, **parameters)
    return _typed(result)


def _typed(module: Module) -> Module:
    return module if is_typed(module) else infer_types(module)


def _options(row: PassRow, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that the compiler's pass has as options.

    Raises RelayError `bad-option` if one that it has not is given.
    """
    known = dict(PASSES[row.runs].options)
    for name, parameter in _signature(row.parameters).parameters.items():
        if name not in known and parameters[name] != parameter.default:
            raise error("bad-option", f"`{row.name}` knows {name}={parameter.default!r} only")
    return {name: value for name, value in parameters.items() if name in known}


def _maker(row: PassRow) -> Callable[..., Pass]:
    """Return the function that makes a pass of the table, with the parameters of the row."""
    signature = _signature(row.parameters)
    kind = _TableFunctionPass if row.is_function_pass else _TableModulePass

    def make(*args: Any, **named: Any) -> Pass:
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        return kind(row, dict(bound.arguments))

    make.__name__ = make.__qualname__ = row.name
    make.__doc__ = row.doc
    make.__module__ = __name__
    make.__signature__ = signature  # type: ignore[attr-defined]
    return make


def _signature(parameters: str) -> inspect.Signature:
    # The text is a constant of the table.
    made: Callable[..., Any] = eval(f"lambda {parameters}: None")
    return inspect.signature(made)


def table_pass(row: PassRow, *args: Any, **named: Any) -> Pass:
    """Return a pass that a row describes, with parameters."""
    return _maker(row)(*args, **named)


def ToCPS(expr: Function, mod: IRModule | None = None) -> Function:
    """Return a function that passes its results to continuations; the old name of `to_cps`."""
    return to_cps(expr, mod)


def InferTypeLocal(expr: Expr) -> Any:
    """Return the type of an expression whose parts have theirs."""
    from relayvm.compiler.infer_types import type_of

    return type_of(expr)


for _row in ROWS:
    if ":" in _row.runs or _row.runs in PASSES:
        setattr(sys.modules[__name__], _row.name, _maker(_row))
        __all__ += [_row.name]  # noqa: PLE0604 - the names are strings

__getattr__ = absent("relayvm.relay.transform")
