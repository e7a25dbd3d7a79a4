"""Algebraic simplifications: the rules of `rewriting/simplify_expr.rly`, and those that no text
tells.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from relayvm.base.dtypes import INT32
from relayvm.compiler.rewriting import CallRule, Site, rewrite_calls
from relayvm.compiler.rewriting.build import (
    attrs_of,
    call,
    cast,
    constant,
    is_call,
    is_determined,
    is_static,
    tensor,
    typed_call,
)
from relayvm.compiler.rewriting.text import TextRule, load_rules
from relayvm.ir.expr import Call, Expr
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ops import OPS

_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
# Operators that take two tensors element by element.
_ELEMENTWISE = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "mod"),
    *("floor_divide", "floor_mod", "equal", "not_equal", "less", "less_equal", "greater"),
    *("greater_equal", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor"),
    *("left_shift", "right_shift"),
)


def simplify_expr(module: Module, exact: bool = False) -> Module:
    """Replace expressions by simpler ones.

    `transpose(transpose(%x, axes=[1, 0]), axes=[1, 0])` -> `%x`. With `exact` only by rules that
    keep every bit of floats.
    """
    rules = [rule for rule in simplification_rules() if not (exact and rule.rounds)]
    return rewrite_calls(module, [*_exact_on_integers(exact), *rules])


@lru_cache(maxsize=1)
def text_rules() -> tuple[TextRule, ...]:
    """Return the rules in text."""
    return load_rules("simplify_expr.rly")


@lru_cache(maxsize=1)
def simplification_rules() -> tuple[CallRule, ...]:
    """Return all rules."""
    python = [
        CallRule("ConcretizeCollapseSumLike", "collapse_sum_like", _collapse_sum_like),
        CallRule("SimplifyTransposeLayouts", "layout_transform", _transposed),
        CallRule("SimplifyTransposeLayouts", "transpose", _transposed),
    ]
    python += [CallRule("FullElementwise", name, _full_elementwise) for name in _ELEMENTWISE]
    return (*(rule.as_call_rule() for rule in text_rules()), *python)


def _exact_on_integers(exact: bool) -> list[CallRule]:
    """Return rules that round, kept to integers: these they change no bit of."""

    def restricted(rule: CallRule) -> CallRule:
        def apply(node: Call, site: Site) -> Expr | None:
            kind = node.checked_type
            is_float = not isinstance(kind, TensorType) or kind.dtype.is_float
            return None if is_float else rule.apply(node, site)

        return CallRule(rule.name, rule.op, apply)

    return [restricted(rule) for rule in simplification_rules() if rule.rounds] if exact else []


def _collapse_sum_like(node: Call, site: Site) -> Expr | None:
    data, like = node.args
    if not is_static(like.checked_type) or not site.is_pure(like):
        return None
    shape = constant(np.array(tensor(like).shape, np.int32), INT32)
    return call("collapse_sum_to", (data, shape), node.span)


def _transposed(node: Call, site: Site) -> Expr | None:
    """`layout_transform(transpose(%x))` and the like -> one transpose, or nothing."""
    inner = site.definition(node.args[0])
    outer_axes = _axes(node)
    if outer_axes is None:
        return None
    if outer_axes == tuple(range(len(outer_axes))):
        return node.args[0]
    if not isinstance(inner, Call) or (is_call(node, "transpose") and is_call(inner, "transpose")):
        return None
    inner_axes = _axes(inner)
    if inner_axes is None:
        return None
    axes = tuple(inner_axes[a] for a in outer_axes)
    if axes == tuple(range(len(axes))):
        return inner.args[0]
    return call("transpose", inner.args, node.span, axes=axes)


def _axes(node: Call) -> tuple[int, ...] | None:
    """Return the axes of a call that only moves axes."""
    attrs = attrs_of(node)
    if is_call(node, "transpose"):
        rank = tensor(node.args[0]).rank
        if attrs["axes"] is None:
            return tuple(range(rank))[::-1]
        return tuple(a % rank for a in attrs["axes"])
    if not is_call(node, "layout_transform"):
        return None
    source, target = attrs["src_layout"], attrs["dst_layout"]
    if not _LETTERS.issuperset(source + target) or sorted(source) != sorted(target):
        return None
    return tuple(source.index(letter) for letter in target)


def _full_elementwise(node: Call, site: Site) -> Expr | None:
    """`add(%x, full(%v, shape=(2, 3)))` -> `add(%x, %v)` where the shape comes from `%x`."""
    if not is_determined(node.checked_type):
        return None
    for index in (1, 0):
        value = _fill_value(site.definition(node.args[index]))
        if value is None or not site.is_pure(node.args[index]):
            continue
        value = cast(value, tensor(node.args[index]).dtype)
        args = (node.args[0], value) if index else (value, node.args[1])
        new = typed_call(OPS[node.op.name], args, node.attrs, node.span)  # type: ignore[attr-defined]
        if new.checked_type == node.checked_type:
            return new
    return None


def _fill_value(expr: Expr) -> Expr | None:
    if not isinstance(expr, Call):
        return None
    if is_call(expr, "full"):
        return expr.args[0]
    if is_call(expr, "full_like"):
        return expr.args[1]
    if is_call(expr, "zeros", "zeros_like"):
        return constant(0, tensor(expr).dtype)
    if is_call(expr, "ones", "ones_like"):
        return constant(1, tensor(expr).dtype)
    return None
