"""Transformations that TVM has as functions over one expression, and passes written like those of
users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.ir.expr import Attrs, Call, Expr, Function, Op, Tuple, Var
from relayvm.ir.module import Module
from relayvm.ir.parser import parse_module
from relayvm.ir.printer import print_module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ir.visit import free_vars, post_order, rewrite
from relayvm.ops import OPS
from relayvm.relay.module import IRModule, unwrap, wrap
from relayvm.relay.node import as_dim, as_dtype

RECAST_BY_DEFAULT = ("nn.conv2d",)


def annotate_spans(module: Module) -> Module:
    """Return the module as its own text describes it: every node has a span in that text."""
    text = print_module(module, library=True)
    parsed = parse_module(text, OPS)
    return Module(parsed.functions, parsed.types, module.library, module.attrs)


def change_batch(module: Module, *, data: Mapping[Var, int], batch_size: int) -> Module:
    """Return the module with another size of the batch; `data` maps parameters to the axis that
    holds it. Types that follow from them are inferred anew.
    """
    renewed: dict[Expr, Var] = {}
    for variable, axis in data.items():
        old = variable.type_annotation or variable.checked_type
        if isinstance(old, TensorType):
            shape = [*old.shape]
            shape[axis] = as_dim(batch_size)
            new = TensorType(tuple(shape), old.dtype)
            renewed[variable] = Var(variable.name, new, span=variable.span)
    functions = {name: _rebatched(f, renewed) for name, f in module.functions.items()}
    return module.with_functions(functions)


def _rebatched(function: Function, renewed: Mapping[Expr, Var]) -> Function:
    if not any(param in renewed for param in function.params):
        return function
    body = rewrite(function.body, lambda node: renewed.get(node, node))
    params = tuple(renewed.get(param, param) for param in function.params)
    return replace(function, params=params, body=body, ret_type=None, checked_type=None)


def FoldConstantExpr(expr: Expr, mod: IRModule, fold_qnn: bool = False) -> Expr:
    """Return an expression of a module with what depends on constants alone evaluated."""
    return _within(expr, mod, "fold_constants")


def ToANormalFormExpr(e: Expr) -> Expr:
    """Return an expression with every operand named by a let."""
    return _within(e, IRModule(), "to_anf")


def _within(expr: Expr, mod: IRModule, step: str) -> Expr:
    """Return an expression after a pass, in the scope of a module."""
    root = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
    whole = mod.clone()
    whole["main"] = root
    after = wrap(infer_types(run_passes(infer_types(unwrap(whole)), [step])))["main"]
    result: Expr = after if root is expr else after.body
    return result


def recast(
    expr: Expr,
    dtype: str,
    out_dtype: str,
    ops: Iterable[str] | None = None,
    skip_layers: Iterable[int] | None = None,
) -> Expr:
    """Return an expression in which calls of some operators compute with another dtype.

    Their operands are cast to `dtype`, their `out_dtype` is set where they have one, and their
    results are cast back. `skip_layers` numbers, in order of evaluation, those of the calls that
    stay; -1 is the last one.
    """
    wanted = frozenset(RECAST_BY_DEFAULT if ops is None else ops)
    typed = _within(expr, IRModule(), "infer_types")
    calls = [node for node in post_order(typed) if _is_call_of(node, wanted)]
    skipped = {layer % len(calls) for layer in skip_layers or ()} if calls else set()
    chosen = {id(node) for number, node in enumerate(calls) if number not in skipped}
    memo: dict[int, Expr] = {}
    for node in calls:
        if id(node) in chosen and isinstance(node, Call):
            parts = tuple(rewrite(arg, _same, memo=memo) for arg in node.args)
            memo[id(node)] = _recast_call(node, parts, dtype, out_dtype)
    return rewrite(typed, _same, memo=memo)


def _same(node: Expr) -> Expr:
    return node


def _is_call_of(node: Expr, names: frozenset[str]) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in names


def _recast_call(call: Call, parts: tuple[Expr, ...], dtype: str, out_dtype: str) -> Expr:
    operands = tuple(_cast(new, old.checked_type, dtype) for new, old in zip(parts, call.args))
    attrs = call.attrs
    if isinstance(call.op, Op) and any(row.name == "out_dtype" for row in call.op.attributes):
        attrs = Attrs({**attrs, "out_dtype": as_dtype(out_dtype)})
    made = Call(call.op, operands, attrs, span=call.span)
    kind = call.checked_type
    return _cast(made, kind, str(kind.dtype)) if isinstance(kind, TensorType) else made


def _cast(expr: Expr, kind: Type | None, dtype: str) -> Expr:
    if isinstance(kind, TupleType) and isinstance(expr, Tuple):
        return Tuple(tuple(_cast(f, t, dtype) for f, t in zip(expr.fields, kind.fields)))
    if not isinstance(kind, TensorType):
        return expr
    return Call(OPS["cast"], (expr,), Attrs(dtype=as_dtype(dtype)), span=expr.span)
