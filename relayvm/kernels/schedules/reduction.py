"""Reductions in the one order that every schedule keeps.

The elements, in row-major order of the reduced box, are dealt to 16 partial results in turn
(element k to partial k mod 16), each partial takes its elements in order, and the partials are
folded in halves: p[j] op p[j + 8], then p[j] op p[j + 4], and so on. So the order depends on the
reduced length alone. A sum of float products uses `fma`. Float sums but those of products of two
values, and products of all elements, bring four elements of a partial together before they come
to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from relayvm.base.dtypes import (
    FLOAT32,
    INT8,
    INT16,
    INT32,
    NARROW,
    UINT8,
    DType,
)
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.arg_reduction import arg_serial
from relayvm.kernels.schedules.boxes import AxisValues, box_loops, identity
from relayvm.kernels.schedules.emit import Emitter, Frame, Reduction

_OPS = {
    "sum": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}

# The longest step of a partial that is written for each of 16.
_UNROLLED_STATEMENTS = 24
# So many elements of a reduction are written one after the other, without loops.
MOST_WRITTEN = 32
# So many bytes have the partials of small integers, whose order does not matter.
MOST_LANES = 64
# So many elements of a partial come together first: only one operation of four waits for the one
# before, and partials in memory are loaded and stored once for all four.
TOGETHER = 4


@dataclass(frozen=True)
class Rule:
    """How one reduction combines; `factors` are those of a product that is fused with the sum.

    A partial takes `group` elements at a time: more than one are small integers, summed by `Dot`,
    as the order of integers does not matter. Those of less than 32 bits have more `lanes` than 16.
    `together` elements of a partial, the last time what is left, are combined in order, and then
    with it.
    """

    op: str
    dtype: DType
    identity: n.Const
    factors: tuple[c.ScalarExpr, c.ScalarExpr] | None
    group: int = 1
    lanes: int = n.LANES
    together: int = 1

    @property
    def width(self) -> int:
        """How many elements the partials take at a time."""
        return self.lanes * self.group

    @property
    def has_no_order(self) -> bool:
        """Whether no order of the elements changes a bit."""
        return not self.dtype.is_float

    @property
    def is_associative(self) -> bool:
        """Whether runs of elements may be combined by themselves, and then with each other.

        So may extremes: the last NaN if there is one, else the first of the largest.
        """
        return not self.dtype.is_float or self.op in ("maximum", "minimum")


def rule_of(reduction: c.Reduce) -> Rule:
    """Return the rule; float16 and bfloat16 are accumulated in float32, as are their extremes."""
    kind, dtype = reduction.kind, reduction.dtype
    acc = FLOAT32 if dtype in NARROW else dtype
    body = reduction.body
    factors = None
    if kind == "sum" and acc.is_float and isinstance(body, c.Scalar) and body.name == "multiply":
        factors = (body.args[0], body.args[1])
    is_product = factors is not None and factors[0] is not factors[1]
    together = TOGETHER if acc.is_float and kind in ("sum", "prod") and not is_product else 1
    return Rule(_OPS[kind], acc, identity(kind, acc), factors, together=together)


def lane_rule(reduction: c.Reduce, dots: str) -> Rule:
    """Return the rule of a reduction whose elements run in lanes; `dots` is the target's, see
    `machine.dot_kind`."""
    rule = rule_of(reduction)
    if not rule.dtype.is_float and rule.dtype.bits < INT32.bits:
        return replace(rule, lanes=MOST_LANES * 8 // max(8, rule.dtype.bits))
    if not dots or reduction.kind != "sum" or rule.dtype != INT32:
        return rule
    factors = _small_factors(reduction.body, dots)
    if factors is None:
        return rule
    bytes_ = all(f.dtype.bits == 8 for f in factors)
    same = factors[0].dtype.kind == factors[1].dtype.kind
    if bytes_ and dots == ("same" if same else "mixed"):
        return replace(rule, factors=factors, group=4)
    return rule if dots == "same" else replace(rule, factors=factors, group=2)


def _small_factors(body: c.ScalarExpr, dots: str) -> tuple[c.ScalarExpr, c.ScalarExpr] | None:
    """Return two integers of at most 16 bits whose product an expression is, or None."""
    one = narrow(body)
    if one is not None:
        # A sum is that of products with 1, of which sign one may choose.
        is_signed = (one.dtype.kind == "int") == (dots == "same")
        return one, c.const(1, INT8 if is_signed else UINT8)
    if not isinstance(body, c.Scalar) or body.name != "multiply":
        return None
    a, b = map(narrow, body.args)
    return None if a is None or b is None else (a, b)


def narrow(expr: c.ScalarExpr) -> c.ScalarExpr | None:
    """Return the integer that an int32 was widened from, or None.

    Those of 16 bits without sign are no operands of `pmaddwd` and the like.
    """
    if not isinstance(expr, c.Cast) or expr.dtype != INT32:
        return None
    return expr.value if expr.value.dtype in (INT8, UINT8, INT16) else None


def narrower(expr: c.ScalarExpr) -> c.ScalarExpr | None:
    """Return what memory holds of a factor that is widened to the dtype of its sum, or None."""
    if isinstance(expr, c.Cast) and expr.dtype is FLOAT32 and expr.value.dtype in NARROW:
        return expr.value
    return narrow(expr)


def widened(expr: c.ScalarExpr) -> c.Cast | None:
    """Return the cast that an element of another tensor is, or None.

    `t[i]` where `t[i] = cast(int32, x[i])` -> `cast(int32, x[i])`
    """
    if not isinstance(expr, c.TensorLoad) or not isinstance(expr.tensor.op, c.Compute):
        return None
    places = dict(zip(expr.tensor.op.axes, expr.indices))
    value = narrower(expr.tensor.op.body)
    if not isinstance(value, c.TensorLoad):
        return None
    indices = [places.get(i) for i in value.indices if isinstance(i, c.IndexVar)]
    known = tuple(i for i in indices if i is not None)
    if len(known) != len(value.indices):
        return None
    return c.Cast(expr.dtype, c.TensorLoad(value.dtype, value.tensor, known))


def combined(emitter: Emitter, rule: Rule, body: c.ScalarExpr, frame: Frame, acc: n.Expr) -> n.Expr:
    """Return the partial result after one more element (or one in every lane)."""
    return advanced(emitter, rule, body, frame, acc, acc.lanes)


def advanced(
    emitter: Emitter,
    rule: Rule,
    body: c.ScalarExpr,
    frame: Frame,
    acc: n.Expr | None,
    lanes: int,
) -> n.Expr:
    """Return `acc` after one more element in every lane; the element where it is None."""
    if acc is None:
        assert rule.together > 1, rule
        value = n.cast(emitter.value(body, frame), rule.dtype)
        return emitter.bind(n.broadcast(value, lanes))
    if rule.group > 1:
        return _dot(emitter, rule, frame, acc)
    if rule.factors is not None:
        a, b = (n.cast(emitter.value(f, frame), rule.dtype) for f in rule.factors)
        return n.call("fma", n.broadcast(a, lanes), n.broadcast(b, lanes), acc)
    value = n.cast(emitter.value(body, frame), rule.dtype)
    # A maximum looks whether its first operand is NaN, which then does not wait for the others.
    return n.call(rule.op, n.broadcast(value, lanes), acc)


def brought_together(
    rule: Rule,
    rounds: int,
    held: n.Expr,
    one: Callable[[int, n.Expr | None], n.Expr],
) -> n.Expr:
    """Return a partial after as many elements as come together, or after so many one by one.

    `one(number, acc)` returns `acc` after one of them; where that is None, the element.
    """
    value = None if rule.together > 1 else held
    for number in range(rounds):
        value = one(number, value)
    assert value is not None
    return n.call(rule.op, value, held) if rule.together > 1 else value


def _dot(emitter: Emitter, rule: Rule, frame: Frame, acc: n.Expr) -> n.Expr:
    """Return the partial results after one more group in every lane; masked ones add nothing."""
    assert rule.factors is not None
    lanes = acc.lanes * rule.group
    a, b = (n.broadcast(emitter.value(f, frame), lanes) for f in rule.factors)
    if emitter.mask is not None:
        a = emitter.bind(n.select(emitter.mask, a, n.const(0, a.dtype)))
    return n.Dot(acc, a, b, acc.lanes)


def serial(emitter: Emitter, reduction: Reduction, frame: Frame, lanes: int = 1) -> n.Expr:
    """Reduce with loops over the box; each of 16 partials has `lanes` lanes of other axes."""
    if isinstance(reduction, c.ArgReduce):
        return arg_serial(emitter, reduction, frame, lanes)
    rule = rule_of(reduction)
    extents = [emitter.context.dim(a.extent) for a in reduction.axes]
    sizes = [int(e.value) for e in extents if isinstance(e, n.Const)]
    if len(sizes) == len(extents) and 0 < math.prod(sizes) <= MOST_WRITTEN:
        return _short(emitter, reduction, frame, rule, lanes, sizes)
    if rule.has_no_order:
        return _in_any_order(emitter, reduction, frame, rule, lanes)
    names = emitter.context.names
    tile = _cleared(emitter, rule, lanes)
    single = len([a for a in reduction.axes if a.extent != 1]) <= 1
    serial_of = _serial_line if single else _serial_box
    serial_of(emitter, reduction, frame, rule, tile)
    half = n.LANES // 2
    while half:
        j = names.var("l")
        a, b = n.TileLoad(tile, j), n.TileLoad(tile, s.add(j, n.const(half)))
        fold = n.TileStore(tile, j, n.call(rule.op, a, b))
        emitter.statements.append(_unrolled(j, half, (fold,)))
        half //= 2
    result = n.cast(n.TileLoad(tile, n.const(0)), reduction.dtype)
    return emitter.bind(result)


def _in_any_order(
    emitter: Emitter, reduction: c.Reduce, frame: Frame, rule: Rule, lanes: int
) -> n.Expr:
    """Reduce with loops over the box to one partial."""
    tile = n.Tile(emitter.context.names.fresh("acc"), rule.dtype, lanes, 1)
    held = n.TileLoad(tile, n.const(0))
    first = n.TileStore(tile, n.const(0), n.broadcast(rule.identity, lanes))
    emitter.statements += [n.Declare(tile), first]

    def step(inner: AxisValues, _flat: n.Expr) -> None:
        _step(emitter, reduction, frame, rule, tile, inner, n.const(0))

    box_loops(emitter, reduction.axes, step)
    return emitter.bind(n.cast(held, reduction.dtype))


def _short(
    emitter: Emitter,
    reduction: c.Reduce,
    frame: Frame,
    rule: Rule,
    lanes: int,
    sizes: list[int],
) -> n.Expr:
    """Reduce a few elements, each written down; partials that have none are left out, as the
    identity changes no partial that began with it.
    """
    first = n.broadcast(rule.identity, lanes)
    partials: list[n.Expr] = []
    for number, place in enumerate(itertools.product(*map(range, sizes))):
        inner = dict(frame)
        inner.update(zip(reduction.axes, map(n.const, place)))
        old = partials[number % n.LANES] if number >= n.LANES else first
        value = emitter.bind(combined(emitter, rule, reduction.body, inner, old))
        partials[number % n.LANES : number % n.LANES + 1] = [value]
    half = n.LANES // 2
    while half:
        for j in range(half, len(partials)):
            folded = n.call(rule.op, partials[j - half], partials[j])
            partials[j - half] = emitter.bind(folded)
        partials = partials[:half]
        half //= 2
    return emitter.bind(n.cast(partials[0], reduction.dtype))


def _unrolled(var: n.Var, count: int, body: tuple[n.Stmt, ...]) -> n.For:
    return n.For(var, n.const(0), n.const(count), 1, body, "unroll")


def _cleared(emitter: Emitter, rule: Rule, lanes: int) -> n.Tile:
    """Emit 16 partials that hold nothing yet."""
    names = emitter.context.names
    tile = n.Tile(names.fresh("acc"), rule.dtype, lanes, n.LANES)
    emitter.statements.append(n.Declare(tile))
    lane = names.var("l")
    fill = n.TileStore(tile, lane, n.broadcast(rule.identity, lanes))
    emitter.statements.append(_unrolled(lane, n.LANES, (fill,)))
    return tile


def _serial_line(
    emitter: Emitter, reduction: c.Reduce, frame: Frame, rule: Rule, tile: n.Tile
) -> None:
    """One axis: rounds of 16 with constant tile indices, several together, then what is left."""
    axis = next((a for a in reduction.axes if a.extent != 1), None)
    extent = emitter.context.dim(axis.extent) if axis is not None else n.const(1)
    rounds = n.const(rule.together * n.LANES)
    begin = s.mul(s.floordiv(extent, rounds), rounds)
    if begin != n.const(0):
        _rounds(emitter, reduction, frame, rule, tile, axis, (n.const(0), begin))
    if begin == extent:
        return
    rest = tile
    if rule.together > 1:
        full = s.mul(s.floordiv(extent, n.const(n.LANES)), n.const(n.LANES))
        rest = _cleared(emitter, rule, tile.lanes) if begin != n.const(0) else tile
        if full != begin:
            one = replace(rule, together=1)
            _rounds(emitter, reduction, frame, one, rest, axis, (begin, full))
        begin = full
    if begin != extent:
        k = emitter.context.names.var("k")
        with emitter.block() as body:
            emitter.prover.add_range(k, begin, extent)
            _step(emitter, reduction, frame, rule, rest, {axis: k}, s.sub(k, begin))
        emitter.statements.append(n.For(k, begin, extent, 1, tuple(body)))
    if rest is not tile:
        lane = emitter.context.names.var("l")
        emitter.statements.append(_unrolled(lane, n.LANES, (_added(rule, rest, tile, lane),)))


def _rounds(
    emitter: Emitter,
    reduction: c.Reduce,
    frame: Frame,
    rule: Rule,
    tile: n.Tile,
    axis: c.IndexVar | None,
    edges: tuple[n.Expr, n.Expr],
) -> None:
    """Emit a loop over rounds of 16 elements, as many at a time as the rule brings together."""
    names = emitter.context.names
    k, lane, size = names.var("k"), names.var("l"), rule.together * n.LANES
    with emitter.block() as outer:
        emitter.prover.add_range(k, *edges, size)
        with emitter.block() as body:
            emitter.prover.add_range(lane, n.const(0), n.const(n.LANES))

            def one(number: int, acc: n.Expr | None) -> n.Expr:
                at = s.add(s.add(k, lane), n.const(number * n.LANES))
                inner = dict(frame)
                inner.update({a: at if a is axis else n.const(0) for a in reduction.axes})
                return advanced(emitter, rule, reduction.body, inner, acc, tile.lanes)

            value = brought_together(rule, rule.together, n.TileLoad(tile, lane), one)
            emitter.statements.append(n.TileStore(tile, lane, value))
        # Constant indices let partials stay in registers; a long step has no room for them.
        kind = "unroll" if len(body) <= _UNROLLED_STATEMENTS * rule.together else "serial"
        outer.append(n.For(lane, n.const(0), n.const(n.LANES), 1, tuple(body), kind))
    emitter.statements.append(n.For(k, *edges, size, tuple(outer)))


def _step(
    emitter: Emitter,
    reduction: c.Reduce,
    frame: Frame,
    rule: Rule,
    tile: n.Tile,
    axes: AxisValues,
    at: n.Expr,
) -> None:
    inner = dict(frame)
    inner.update({a: axes.get(a, n.const(0)) for a in reduction.axes})
    value = combined(emitter, rule, reduction.body, inner, n.TileLoad(tile, at))
    emitter.statements.append(n.TileStore(tile, at, value))


def _serial_box(
    emitter: Emitter, reduction: c.Reduce, frame: Frame, rule: Rule, tile: n.Tile
) -> None:
    """Several axes: nested loops; the partial's number follows from the flat position."""
    some = _cleared(emitter, rule, tile.lanes) if rule.together > 1 else tile

    def flat_step(inner: AxisValues, flat: n.Expr) -> None:
        at = s.floormod(flat, n.const(n.LANES))
        _step(emitter, reduction, frame, rule, some, inner, at)
        if some is not tile:
            full = s.floormod(s.floordiv(flat, n.const(n.LANES)), n.const(rule.together))
            done = (
                _added(rule, some, tile, at),
                n.TileStore(some, at, n.broadcast(rule.identity, tile.lanes)),
            )
            is_full = s.compare("equal", full, n.const(rule.together - 1))
            emitter.statements.append(n.If(is_full, done))

    box_loops(emitter, reduction.axes, flat_step)
    if some is not tile:
        lane = emitter.context.names.var("l")
        emitter.statements.append(_unrolled(lane, n.LANES, (_added(rule, some, tile, lane),)))


def _added(rule: Rule, some: n.Tile, tile: n.Tile, at: n.Expr) -> n.Stmt:
    """Return what brings to a partial the elements that came together."""
    both = n.call(rule.op, n.TileLoad(some, at), n.TileLoad(tile, at))
    return n.TileStore(tile, at, both)
