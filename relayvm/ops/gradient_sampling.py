"""Gradients of what gives the gradients of sampling between elements, made of other operators."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relayvm.base.dtypes import INT64, DType
from relayvm.ir.expr import Constant, Expr, Tuple, TupleGetItem
from relayvm.ops import rows
from relayvm.ops.creation import shape_of
from relayvm.ops.elementwise import cast, where
from relayvm.ops.formulas import Reading
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.indexing import take, take_grad
from relayvm.ops.operator import GradientCall
from relayvm.ops.resampling import total_of
from relayvm.ops.reshaping import reshape, reshape_like
from relayvm.ops.rows import add, multiply, sum_
from relayvm.ops.sampling import GridAxis, grid_sample
from relayvm.ops.sampling_grads import grid_sample_grad
from relayvm.ops.slicing import strided_slice


class ExprReading:
    """Formulas over expressions: floats are of one dtype, integers are int64."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def apply(self, name: str, *args: Any) -> Any:
        """Return an operator of the same name applied to expressions and numbers."""
        return rows.ROWS[name](*(a if isinstance(a, Expr) else self._number(a) for a in args))

    def _number(self, value: float | int) -> Any:
        return self.const(value, INT64 if isinstance(value, int) else self.dtype)

    def cast(self, value: Any, dtype: DType) -> Any:
        """Return an expression converted as `cast` does."""
        return cast(value, dtype=dtype)

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        """Return `a` where the condition holds, else `b`."""
        return where(condition, a, b)

    def const(self, value: Any, dtype: DType) -> Any:
        """Return a literal."""
        return Constant(np.array(value, dtype.numpy))

    def dim(self, value: Any) -> Any:
        """Return a size, which is an expression here."""
        return value


def size_of(tensor: Expr, axis: int) -> Expr:
    """Return the size of an axis (int64)."""
    return take(shape_of(tensor, dtype=INT64), Constant(np.array(axis, np.int64)), axis=0)


def _flat(tensor: Expr, count: int) -> Expr:
    """Return [n, c, elements] of a tensor with `count` axes of space."""
    for _ in range(count - 1):
        tensor = reshape(tensor, newshape=(0, 0, -3, -2))
    return tensor


def product_of(factors: Sequence[Expr]) -> Expr:
    """Return the product of one or more expressions."""
    result = factors[0]
    for factor in factors[1:]:
        result = multiply(result, factor)
    return result


def total_sum(terms: Sequence[Expr]) -> Expr:
    """Return the sum of one or more expressions."""
    result = terms[0]
    for term in terms[1:]:
        result = add(result, term)
    return result


class Read:
    """One of the elements around each place: [n, 1, places] where it is and whether there is one.

    `elements` are its places on the axes of space, `sizes` the sizes of these.
    """

    def __init__(self, reading: Reading, elements: Sequence[Any], sizes: Sequence[Any]) -> None:
        self.reading = r = reading
        flat: Any = None
        self.inside: Any = None
        for element, size in zip(elements, sizes):
            below = r.apply("less", element, size)
            known = r.apply("logical_and", r.apply("greater_equal", element, 0), below)
            both = known if self.inside is None else r.apply("logical_and", self.inside, known)
            self.inside = both
            held = r.apply("maximum", element, 0)
            held = r.apply("minimum", held, r.apply("subtract", size, 1))
            flat = held if flat is None else r.apply("add", r.apply("multiply", flat, size), held)
        self.places = reshape(flat, newshape=(0, -3))

    def of(self, data: Expr, zero: Expr) -> Any:
        """Return [n, c, places] the elements of [n, c, elements], 0 where there is none."""
        values = take(data, self.places, axis=2, batch_dims=1)
        return self.reading.select(self.inside, values, zero)

    def back(self, grad: Expr, data: Expr, zero: Expr) -> Expr:
        """Return the gradient of [n, c, elements] of which `of` has the gradient `grad`."""
        given = self.reading.select(self.inside, grad, zero)
        return take_grad(given, data, self.places, axis=2, batch_dims=1)


Weights = Callable[..., Expr]


def _weights(parts: Sequence[Sequence[Any]], choice: Sequence[int]) -> Weights:
    """Return what gives the product of weights of a choice, derived by the axes that are named.

    `parts` has for each axis the weights, their slopes, and the slopes of these or nothing.
    """

    def derived(*by: int) -> Expr:
        return product_of([parts[k][by.count(k)][which] for k, which in enumerate(choice)])

    return derived


@grid_sample_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # With the weight W of an element that is read, and the changes u of its gradient and v of
    # that of the grid, `grad` is multiplied by the sum of u W + x sum(v[k] dW/dk).
    attrs, change = call.attrs, TupleGetItem(g, 0)
    of_grad: Expr = grid_sample(change, call.grid, **attrs)
    if attrs["method"] == "nearest":
        return of_grad, None, None
    of_grid: Expr = TupleGetItem(grid_sample_grad(call.grad, change, call.grid, **attrs), 1)
    kind = call.type_of("data")
    rates = _rates(call, TupleGetItem(g, 1), kind.rank - 2)
    own = [cast(t, dtype=kind.dtype) for t in rates]
    of_grad = add(of_grad, reshape_like(own[0], call.grad))
    return of_grad, reshape_like(own[1], call.data), add(of_grid, reshape_like(own[2], call.grid))


def _rates(call: GradientCall, moves: Expr, count: int) -> tuple[Expr, Expr, Expr]:
    """Return the gradients of `grad`, `data` and `grid` that come from the change of the grid, all
    with one axis of space.
    """
    total = total_of(call.type_of("data").dtype)
    r = ExprReading(total)
    zero = r.const(0.0, total)
    grad, data, grid, moved = (
        _flat(cast(t, dtype=total), count) for t in (call.grad, call.data, call.grid, moves)
    )
    sizes = [size_of(call.data, 2 + k) for k in range(count)]
    axes = [GridAxis(r, size, total, call.attrs) for size in sizes]  # type: ignore[arg-type]
    elements, parts, steps = [], [], []
    for k, axis in enumerate(axes):
        at = {"begin": (count - 1 - k,), "end": (count - k,), "axes": (1,)}
        x = strided_slice(grid, **at)
        own, weights = axis.taps(x)
        elements.append(own)
        parts.append((weights, axis.slopes(x), axis.curves(x)))
        steps.append(strided_slice(moved, **at))
    of_grad: list[Expr] = []
    of_data: list[Expr] = []
    of_grid: list[list[Expr]] = [[] for _ in range(count)]
    for choice in itertools.product(*(range(len(own)) for own in elements)):
        read = Read(r, [own[k] for k, own in zip(choice, elements)], sizes)
        derived = _weights(parts, choice)
        rate = total_sum([multiply(v, derived(k)) for k, v in enumerate(steps)])
        value = read.of(data, zero)
        of_grad.append(multiply(value, rate))
        of_data.append(read.back(multiply(grad, rate), data, zero))
        share = sum_(multiply(grad, value), axis=(1,), keepdims=True)
        for k in range(count):
            terms = [
                multiply(v, derived(k, m)) for m, v in enumerate(steps) if m != k or parts[k][2]
            ]
            of_grid[k].append(multiply(share, total_sum(terms)))
    coordinates = tuple(total_sum(terms) for terms in reversed(of_grid))
    return (
        total_sum(of_grad),
        total_sum(of_data),
        rows.ROWS["concatenate"](Tuple(coordinates), axis=1),
    )
