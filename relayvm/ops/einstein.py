"""Sums of products over named axes: `einsum`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dims import Dim
from relayvm.base.dtypes import NUMERIC
from relayvm.base.shapes import ShapeError, require_broadcast, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import product
from relayvm.ops.loads import load_wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import Constraint, Dims, require_same_dtype

# Letters of the axes that `...` stands for; no equation can name them.
HIDDEN = "\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b7\u03b8"


Numbers = Annotated[TupleType, Constraint("a tuple of tensors of numbers", NUMERIC, False, True)]


@dataclass(frozen=True, slots=True)
class Equation:
    """The labels of the axes of each operand, and of the result."""

    inputs: tuple[str, ...]
    output: str

    @property
    def summed(self) -> str:
        """The labels that the result does not have, in the order in which they first stand."""
        labels = dict.fromkeys("".join(self.inputs))
        return "".join(a for a in labels if a not in self.output)


def read_equation(text: str, ranks: tuple[int, ...]) -> Equation:
    """Return what an equation says of operands of these ranks; raises ShapeError."""
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        message = (
            f"`equation` {text!r} has {quantity(len(terms), 'operand')}, `einsum` got {len(ranks)}"
        )
        raise ShapeError(message, "bad-attribute")
    hidden = [_hidden(term, rank, text) for term, rank in zip(terms, ranks)]
    inputs = tuple(t.replace("...", h) for t, h in zip(terms, hidden))
    widest = max(hidden, key=len, default="")
    labels = "".join(terms).replace(".", "")
    implicit = widest + "".join(sorted(a for a in set(labels) if labels.count(a) == 1))
    output = right.replace("...", widest) if arrow else implicit
    known = {a for term in inputs for a in term}
    if arrow and widest and "..." not in right:
        message = f"`equation` {text!r}: the result lacks `...`"
        raise ShapeError(message, "bad-attribute")
    if len(set(output)) < len(output) or not set(output) <= known:
        message = f"`equation` {text!r}: the result names each of its axes once"
        raise ShapeError(message, "bad-attribute")
    return Equation(inputs, output)


def _hidden(term: str, rank: int, text: str) -> str:
    plain = term.replace("...", "", 1)
    dots = len(plain) < len(term)
    fits = rank >= len(plain) if dots else rank == len(plain)
    if not (plain.isalpha() or not plain) or not plain.isascii() or not fits:
        message = f"`equation` {text!r}: {term!r} does not fit a rank of {rank}"
        raise ShapeError(message, "bad-attribute")
    count = rank - len(plain) if dots else 0
    return HIDDEN[len(HIDDEN) - count :]


def _sizes(equation: Equation, shapes: tuple[Dims, ...]) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {}
    for k, (term, shape) in enumerate(zip(equation.inputs, shapes)):
        for axis, (label, size) in enumerate(zip(term, shape)):
            if label not in sizes:
                sizes[label] = size
                continue
            what = f"axis {axis} of operand {k} of `einsum` and another of its label"
            check = require_broadcast if label in HIDDEN else require_equal
            sizes[label] = check(sizes[label], size, what)
    return sizes


@operator("einsum", fusion=Fusion.CONTRACTION)
def einsum(data: Numbers, *, equation: str) -> TensorType:
    """Products of elements of all operands, summed over the axes whose labels the result lacks.

    `...` stands for the axes that have no label, which are broadcast. Without `->` the result has
    the labels that stand once, in alphabetical order.

    >>> %x = float32 [[1, 2], [3, 4]]
    >>> %y = float32 [1, 10]
    >>> einsum((%x, %y), equation="ij,j->i")
    [21, 43]
    """
    tensors = tuple(t for t in data.fields if isinstance(t, TensorType))
    for k, tensor in enumerate(tensors):
        what = f"dtypes of operands 0 and {k} of `einsum`"
        require_same_dtype(tensors[0].dtype, tensor.dtype, what)
    found = read_equation(equation, tuple(t.rank for t in tensors))
    sizes = _sizes(found, tuple(t.shape for t in tensors))
    return TensorType(tuple(sizes[a] for a in found.output), tensors[0].dtype)


@einsum.numpy
def _(data: tuple[Array, ...], *, equation: str) -> Array:
    found = read_equation(equation, tuple(a.ndim for a in data))
    names = {a: k for k, a in enumerate(dict.fromkeys("".join(found.inputs)))}
    wide = [a.astype(np.float32) if a.dtype == np.float16 else a for a in data]
    parts: list[Any] = []
    for array, term in zip(wide, found.inputs):
        parts += [array, [names[a] for a in term]]
    sums: Any = np.einsum
    result = np.asarray(sums(*parts, [names[a] for a in found.output]))
    return result.astype(data[0].dtype)


@einsum.compute
def _(data: tuple[Tensor, ...], *, equation: str) -> Tensor:
    found = read_equation(equation, tuple(t.rank for t in data))
    sizes = _sizes(found, tuple(t.shape for t in data))
    summed = found.summed

    def element(*i: ScalarExpr) -> ScalarExpr:
        def term(*r: ScalarExpr) -> ScalarExpr:
            places = dict(zip(found.output + summed, (*i, *r)))
            result: ScalarExpr | None = None
            for tensor, labels in zip(data, found.inputs):
                at = tuple(_place(places[a], d, sizes[a]) for a, d in zip(labels, tensor.shape))
                factor = load_wide(tensor, at)
                result = factor if result is None else result * factor
            assert result is not None
            return result

        total = te.reduce("sum", tuple(sizes[a] for a in summed), term) if summed else term()
        return te.cast(total, data[0].dtype)

    return te.compute(tuple(sizes[a] for a in found.output), element, "einsum")


def _place(place: ScalarExpr, size: Dim, whole: Dim) -> ScalarExpr:
    """Return a place along an axis that is perhaps broadcast."""
    if size == 1:
        return te.dim(0)
    return place if size == whole else te.index(place, size, "clip")


@einsum.reduction_size
def _(data: TupleType, *, equation: str) -> Dim:
    tensors = tuple(t for t in data.fields if isinstance(t, TensorType))
    found = read_equation(equation, tuple(t.rank for t in tensors))
    sizes = _sizes(found, tuple(t.shape for t in tensors))
    return product(sizes[a] for a in found.summed)


OPERATORS = (einsum,)
