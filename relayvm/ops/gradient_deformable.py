"""The gradient of the gradients of convolution at shifted places, made of other operators."""

from __future__ import annotations

import itertools
from typing import Any

from relayvm.base.dtypes import INT64
from relayvm.ir.expr import Expr, Tuple, TupleGetItem
from relayvm.ops import rows
from relayvm.ops.bilinear import Plan
from relayvm.ops.convolution import plan_of
from relayvm.ops.creation import ones_like
from relayvm.ops.deformable_grads import deformable_conv2d_grad
from relayvm.ops.elementwise import cast, where
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.gradient_sampling import ExprReading, Read, size_of, total_sum
from relayvm.ops.loads import wide
from relayvm.ops.movement import stack, transpose
from relayvm.ops.operator import GradientCall
from relayvm.ops.reshaping import expand_dims, reshape, reshape_like
from relayvm.ops.rows import add, multiply, subtract, sum_
from relayvm.ops.scans import cumsum
from relayvm.ops.slicing import strided_slice

_WAY_BACK = (0, 1, 2, 3)


def _einsum(equation: str, *tensors: Expr) -> Expr:
    return rows.ROWS["einsum"](Tuple(tensors), equation=equation)


class _Places:
    """What the taps of a convolution read.

    Channels of one shift are a batch of their own: data are [b, c, elements], what is read is
    [b, c, places] with the places of all taps, an offset of one direction [b, taps, rows, columns].
    """

    def __init__(self, call: GradientCall) -> None:
        self.plan: Plan = plan_of("nn.deformable_conv2d_grad", 2, call.attrs)
        self.shifts: int = call.deformable_groups
        self.total = wide(call.type_of("data").dtype)
        self.r = ExprReading(self.total)
        self.zero = self.r.const(0.0, self.total)
        self.one = self.r.const(1.0, self.total)

    def data(self, tensor: Expr) -> Expr:
        tensor = transpose(cast(tensor, dtype=self.total), axes=self.plan.data.places)
        apart = reshape(tensor, newshape=(0, -4, self.shifts, -1, -3))
        return reshape(apart, newshape=(-3, -2))

    def offsets(self, tensor: Expr) -> list[Expr]:
        """Return those down and to the right."""
        tensor = transpose(cast(tensor, dtype=self.total), axes=self.plan.data.places)
        tensor = reshape(tensor, newshape=(0, -4, self.shifts, -1, -2))
        tensor = reshape(reshape(tensor, newshape=(-3, -2)), newshape=(0, -4, -1, 2, -2))
        parts = (strided_slice(tensor, begin=(k,), end=(k + 1,), axes=(2,)) for k in (0, 1))
        return [reshape(part, newshape=(0, -3, -2)) for part in parts]

    def flat(self, offset: Expr) -> Expr:
        """Return [b, 1, places] what is there for each tap and place of the result."""
        return expand_dims(reshape(reshape(offset, newshape=(0, -3, -2)), newshape=(0, -3)), axis=1)

    def grouped(self, tensor: Expr, groups: int) -> Expr:
        """Return [n, groups, channels, ...] of [n, all channels, ...]."""
        return reshape(tensor, newshape=(0, -4, groups, -1, -2))

    def patches(self, read: Expr, like: Expr) -> Expr:
        """Return [n, groups, channels, taps, rows, columns] of what is read."""
        whole = reshape(reshape(read, newshape=(-4, -1, self.shifts, -2)), newshape=(0, -3, -2))
        split = self.grouped(whole, self.plan.groups)
        return reshape_like(split, like, lhs_begin=3, rhs_begin=1)

    def unpatched(self, patches: Expr) -> Expr:
        """Return what `patches` was made of."""
        whole = self.grouped(reshape(patches, newshape=(0, -3, -2)), self.shifts)
        lines = reshape(whole, newshape=(-3, -2))
        return reshape(reshape(lines, newshape=(0, 0, -3, -2)), newshape=(0, 0, -3))

    def kernel(self, weight: Expr) -> Expr:
        """Return [groups, results, channels, taps] of a weight."""
        plain = transpose(cast(weight, dtype=self.total), axes=self.plan.weight.places)
        return reshape(plain, newshape=(-4, self.plan.groups, -1, 0, -3))

    def windows(self, offset: Expr, weight: Expr, axis: int) -> Expr:
        """Return where taps read without an offset, in the shape of one."""
        window = self.plan.window
        whole = cast(ones_like(offset), dtype=INT64)
        unit = self.r.const(1, INT64)
        tap, place = (subtract(cumsum(whole, axis=a), unit) for a in (1, 2 + axis))
        columns = size_of(transpose(weight, axes=self.plan.weight.places), 3)
        tap = rows.ROWS["floor_mod" if axis else "floor_divide"](tap, columns)
        place = self.r.apply("multiply", place, window.strides[axis])
        moved = self.r.apply("multiply", tap, window.dilation[axis])
        start = self.r.apply("subtract", add(place, moved), window.before[axis])
        return cast(start, dtype=self.total)


@deformable_conv2d_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # With S[x] what taps read, its slope S[x, k] by an offset, and the changes u, v, z of the
    # gradients of data, offset and weight, the weight meets t = S[u] + sum(v[k] S[x, k]), and z
    # meets S[x]: `grad` times both is what is derived.
    p = _Places(call)
    like, moves = p.offsets(call.offset), [p.flat(v) for v in p.offsets(TupleGetItem(g, 1))]
    x, u = p.data(call.data), p.data(TupleGetItem(g, 0))
    w, z = p.kernel(call.weight), p.kernel(TupleGetItem(g, 2))
    plain = transpose(cast(call.grad, dtype=p.total), axes=p.plan.result.places)
    slope = p.grouped(plain, p.plan.groups)
    share, shift = (p.unpatched(_einsum("ngjyx,gjit->ngityx", slope, k)) for k in (w, z))
    sums = _sums(p, call, like, (x, u), moves, (share, shift))
    t, read = (p.patches(s, like[0]) for s in (sums["t"], sums["x"]))
    back = "ngityx,gjit->ngjyx"
    of_grad = reshape_like(add(_einsum(back, t, w), _einsum(back, read, z)), plain)
    of_weight = _einsum("ngjyx,ngityx->gjit", slope, t)
    whole = transpose(call.weight, axes=p.plan.weight.places)
    return (
        _arranged(of_grad, call, "grad", p.plan.result),
        _arranged(reshape_like(sums["data"], _plain(call.data, p)), call, "data", p.plan.data),
        _arranged(_offset(p, sums["offset"], like[0]), call, "offset", p.plan.data),
        _arranged(reshape_like(of_weight, whole), call, "weight", p.plan.weight),
    )


def _plain(data: Expr, p: _Places) -> Expr:
    return transpose(data, axes=p.plan.data.places)


def _arranged(tensor: Expr, call: GradientCall, operand: str, layout: Any) -> Expr:
    return transpose(
        cast(tensor, dtype=call.type_of(operand).dtype), axes=layout.arranged(_WAY_BACK)
    )


def _offset(p: _Places, parts: list[Expr], like: Expr) -> Expr:
    """Return the canonical offset of those down and to the right."""
    both = stack(Tuple(tuple(reshape_like(part, like) for part in parts)), axis=2)
    lines = reshape(reshape(both, newshape=(0, -3, -2)), newshape=(-4, -1, p.shifts, -2))
    return reshape(lines, newshape=(0, -3, -2))


def _sums(
    p: _Places,
    call: GradientCall,
    offsets: list[Expr],
    data: tuple[Expr, Expr],
    moves: list[Expr],
    shares: tuple[Expr, Expr],
) -> dict[str, Any]:
    """Return sums over the four elements around each place: "t" and "x" of what is read of the data
    and its change, "data" of what is given back to it, and "offset" for both directions.

    `shares` are the slopes of what is read by the weight, and by its change.
    """
    r, (x, u), (share, shift) = p.r, data, shares
    sizes = [size_of(_plain(call.data, p), 2 + k) for k in (0, 1)]
    at = [p.flat(add(p.windows(o, call.weight, k), o)) for k, o in enumerate(offsets)]
    inside: Any = None
    for place, size in zip(at, sizes):
        below = r.apply("less", place, cast(size, dtype=p.total))
        known = r.apply("logical_and", r.apply("greater_equal", place, 0.0), below)
        inside = known if inside is None else r.apply("logical_and", inside, known)
    elements, weights = [], []
    for place, size in zip(at, sizes):
        low = r.apply("floor", where(inside, place, p.zero))
        rest = subtract(where(inside, place, p.zero), low)
        first = cast(low, dtype=INT64)
        last = r.apply("subtract", size, 1)
        second = r.apply("minimum", r.apply("add", first, 1), last)
        outside = r.const(-1, INT64)
        elements.append([where(inside, e, outside) for e in (first, second)])
        weights.append([subtract(p.one, rest), rest])
    signs = [r.const(s, p.total) for s in (-1.0, 1.0)]
    sums: dict[str, list[Expr]] = {k: [] for k in ("t", "x", "data", "down", "right")}
    for i, j in itertools.product((0, 1), (0, 1)):
        read = Read(r, (elements[0][i], elements[1][j]), sizes)
        value, change = read.of(x, p.zero), read.of(u, p.zero)
        weight = multiply(weights[0][i], weights[1][j])
        slopes = [multiply(signs[i], weights[1][j]), multiply(signs[j], weights[0][i])]
        rate = total_sum([multiply(v, s) for v, s in zip(moves, slopes)])
        sums["x"].append(multiply(value, weight))
        sums["t"].append(add(multiply(change, weight), multiply(value, rate)))
        given = add(multiply(shift, weight), multiply(share, rate))
        sums["data"].append(read.back(given, x, p.zero))
        own = add(multiply(shift, value), multiply(share, change))
        slope, crossed = (sum_(s, axis=(1,), keepdims=True) for s in (own, multiply(share, value)))
        twist = multiply(signs[i], signs[j])
        for name, k in (("down", 0), ("right", 1)):
            other = multiply(multiply(moves[1 - k], twist), crossed)
            sums[name].append(add(multiply(slope, slopes[k]), other))
    found: dict[str, Any] = {name: total_sum(terms) for name, terms in sums.items()}
    return {**found, "offset": [found["down"], found["right"]]}
