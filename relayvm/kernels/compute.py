"""Tensor expressions: what a kernel computes, element by element, without saying how.

A `Tensor` is a placeholder or a `compute` over its axes; operators write these, `lower.py` makes
loop nests of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Union

from relayvm.base.dims import AnyDim, Dim, DimExpr
from relayvm.base.dtypes import BOOL, INT32, INT64, UINT64, DType, dtype_of
from relayvm.kernels.scalar_ops import SCALAR_OPS

REDUCTIONS = ("sum", "prod", "max", "min", "any", "all")
ARG_REDUCTIONS = ("argmax", "argmin")
INDEX_MODES = ("trap", "clip", "wrap", "fill")

Number = Union[bool, int, float]
Operand = Union["ScalarExpr", bool, int, float, Dim]

_names = itertools.count()


@dataclass(frozen=True, eq=False, repr=False)
class ScalarExpr:
    """One value per element; compared by identity. `+ - *` and comparisons build `Scalar` nodes."""

    dtype: DType

    def __repr__(self) -> str:
        """Say what node it is, not what is below it: parts are shared, a full text has no bound."""
        return f"<{type(self).__name__} {self.dtype}>"

    def __add__(self, other: Operand) -> ScalarExpr:
        return _binary("add", self, other)

    def __radd__(self, other: Operand) -> ScalarExpr:
        return _binary("add", other, self)

    def __sub__(self, other: Operand) -> ScalarExpr:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Operand) -> ScalarExpr:
        return _binary("subtract", other, self)

    def __mul__(self, other: Operand) -> ScalarExpr:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Operand) -> ScalarExpr:
        return _binary("multiply", other, self)

    def __floordiv__(self, other: Operand) -> ScalarExpr:
        return _binary("floor_divide", self, other)

    def __mod__(self, other: Operand) -> ScalarExpr:
        return _binary("floor_mod", self, other)

    def __neg__(self) -> ScalarExpr:
        return scalar("negative", self)

    def __lt__(self, other: Operand) -> ScalarExpr:
        return _binary("less", self, other)

    def __le__(self, other: Operand) -> ScalarExpr:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Operand) -> ScalarExpr:
        return _binary("greater", self, other)

    def __ge__(self, other: Operand) -> ScalarExpr:
        return _binary("greater_equal", self, other)

    def equal(self, other: Operand) -> ScalarExpr:
        """Return the comparison; `==` stays identity so that expressions can be keys."""
        return _binary("equal", self, other)

    def __bool__(self) -> bool:
        raise TypeError("a scalar expression has no truth value; use `select`")


@dataclass(frozen=True, eq=False, repr=False)
class Const(ScalarExpr):
    """A literal of `dtype`."""

    value: Number


@dataclass(frozen=True, eq=False, repr=False)
class IndexVar(ScalarExpr):
    """An int64 axis variable running over `[0, extent)`."""

    name: str
    extent: Dim


@dataclass(frozen=True, eq=False, repr=False)
class Bound(ScalarExpr):
    """A name that a program has bound: a loop variable, or a value read or computed there."""

    name: str


@dataclass(frozen=True, eq=False, repr=False)
class DimValue(ScalarExpr):
    """The int64 value of a dim."""

    dim: Dim


@dataclass(frozen=True, eq=False, repr=False)
class TensorLoad(ScalarExpr):
    """One element of a tensor."""

    tensor: Tensor
    indices: tuple[ScalarExpr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Scalar(ScalarExpr):
    """A row of the scalar operator table applied to values."""

    name: str
    args: tuple[ScalarExpr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Cast(ScalarExpr):
    """A value converted to another dtype."""

    value: ScalarExpr


@dataclass(frozen=True, eq=False, repr=False)
class Select(ScalarExpr):
    """`a` where `condition` holds, else `b`; loads of the arm not taken do not happen."""

    condition: ScalarExpr
    a: ScalarExpr
    b: ScalarExpr


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What a trap says: a row of `TRAP_REASONS` and its two values, scalars of 64 bits."""

    reason: str
    first: ScalarExpr
    second: ScalarExpr


@dataclass(frozen=True, eq=False, repr=False)
class IndexOf(ScalarExpr):
    """A loaded integer made an int64 index below `extent`; an extent of 0 traps in every mode.

    `trap` stops the run where the value is outside; `clip` takes the nearest; `wrap` counts modulo
    the extent; `fill` clips too, and the operator selects its fill value with `in_range`. `told` is
    what a trap says, if not value and extent.
    """

    value: ScalarExpr
    extent: Dim
    mode: str
    told: Told | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Reduce(ScalarExpr):
    """`body` combined over all values of `axes`; order is fixed by the nest, see `lower.py`."""

    kind: str
    axes: tuple[IndexVar, ...]
    body: ScalarExpr


@dataclass(frozen=True, eq=False, repr=False)
class ArgReduce(ScalarExpr):
    """The flat index over `axes` of the extreme `body`; NaN wins; first (or last) of equals."""

    kind: str
    axes: tuple[IndexVar, ...]
    body: ScalarExpr
    select_last_index: bool


@dataclass(frozen=True, eq=False)
class Placeholder:
    """A tensor that the kernel is given."""


@dataclass(frozen=True, eq=False, repr=False)
class Compute:
    """How each element of a tensor follows from its axes."""

    axes: tuple[IndexVar, ...]
    body: ScalarExpr


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """Loops written out, which compute several tensors at once; see `program`.

    `work` is the number of scalar operations, at most, about. `in_place` are pairs of numbers: an
    output and the input in whose memory it may lie.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    build: Callable[..., None]
    work: Dim
    in_place: tuple[tuple[int, int], ...] = ()


@dataclass(eq=False)
class ProgramOutput:
    """One of the tensors that a program computes."""

    program: Program | None = None

    @property
    def source(self) -> Program:
        assert self.program is not None, "an output belongs to a program"
        return self.program


@dataclass(frozen=True, eq=False)
class Tensor:
    """A name, shape and dtype, and where the elements come from; compared by identity."""

    name: str
    shape: tuple[Dim, ...]
    dtype: DType
    op: Placeholder | Compute | ProgramOutput

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __getitem__(self, indices: Operand | tuple[Operand, ...]) -> ScalarExpr:
        if not isinstance(indices, tuple):
            indices = (indices,)
        assert len(indices) == self.rank, f"{self.name} has rank {self.rank}, not {len(indices)}"
        return TensorLoad(self.dtype, self, tuple(_as_index(i) for i in indices))

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}{list(self.shape)})"


def placeholder(name: str, shape: tuple[Dim, ...], dtype: DType | str) -> Tensor:
    """Return a tensor that the caller of the kernel supplies."""
    return Tensor(name, tuple(shape), dtype_of(dtype), Placeholder())


def compute(shape: tuple[Dim, ...], fn: Callable[..., Operand], name: str = "t") -> Tensor:
    """Return the tensor whose element at `indices` is `fn(*indices)`, in the dtype of that."""
    axes = tuple(_index_var("i", extent) for extent in shape)
    body = fn(*axes)
    if not isinstance(body, ScalarExpr):
        body = _as_index(body)
    return Tensor(name, tuple(shape), body.dtype, Compute(axes, body))


def program(
    outputs: Sequence[tuple[tuple[Dim, ...], DType]],
    inputs: Sequence[Tensor],
    build: Callable[..., None],
    work: Dim,
    name: str = "t",
    in_place: tuple[tuple[int, int], ...] = (),
) -> tuple[Tensor, ...]:
    """Return tensors that loops compute which no formula for one element describes.

    `build(w, *inputs, *outputs)` writes the loops through the `Writer` w of
    `kernels/schedules/program.py`, which documents its methods; each tensor is there a `Memory`
    that is read and written by index. A program is never fused or scheduled. `work` counts its
    scalar operations, at most, about: limits on steps are kept with it. `in_place` pairs an output
    with an input of its shape and dtype that the program reads only by `w.copy(input, output)`:
    the output may take over its memory, and then nothing is copied.

    The running sum of a vector of n float32:

        def build(w, x, y):
            with w.phase():
                total = w.cell(te.const(0.0, FLOAT32))
                with w.loop(0, n) as i:
                    total.value = total.value + x[i]
                    y[i] = total.value

        (sums,) = te.program([((n,), FLOAT32)], [x], build, work=n)
    """
    ops = tuple(ProgramOutput() for _ in outputs)
    tensors = tuple(
        Tensor(name, tuple(shape), dtype, op) for (shape, dtype), op in zip(outputs, ops)
    )
    whole = Program(tuple(inputs), tensors, build, work, in_place)
    for op in ops:
        op.program = whole
    return tensors


def reduce(
    kind: str, extents: tuple[Dim, ...], fn: Callable[..., ScalarExpr], dtype: DType | None = None
) -> ScalarExpr:
    """Return `fn(*r)` combined by `kind` over the box `extents`, in `dtype` (default: as body).

    Must not stand inside another reduction or in an index. An empty box gives the identity.
    """
    assert kind in REDUCTIONS, kind
    axes = tuple(_index_var("r", extent) for extent in extents)
    body = fn(*axes)
    if dtype is not None and dtype != body.dtype:
        body = cast(body, dtype)
    return Reduce(body.dtype, kind, axes, body)


def arg_reduce(
    kind: str,
    extents: tuple[Dim, ...],
    fn: Callable[..., ScalarExpr],
    dtype: DType = INT32,
    select_last_index: bool = False,
) -> ScalarExpr:
    """Return the flat row-major index over `extents` at which `fn(*r)` is greatest or least."""
    assert kind in ARG_REDUCTIONS, kind
    axes = tuple(_index_var("r", extent) for extent in extents)
    return ArgReduce(dtype, kind, axes, fn(*axes), select_last_index)


def const(value: Number, dtype: DType | str) -> ScalarExpr:
    """Return a literal."""
    return Const(dtype_of(dtype), value)


def dim(value: Dim) -> ScalarExpr:
    """Return the int64 value of a dim."""
    return const(value, INT64) if isinstance(value, int) else DimValue(INT64, value)


def cast(value: ScalarExpr, dtype: DType | str) -> ScalarExpr:
    """Return `value` converted to `dtype`; the same object where it has that dtype."""
    target = dtype_of(dtype)
    return value if value.dtype == target else Cast(target, value)


def select(condition: ScalarExpr, a: Operand, b: Operand) -> ScalarExpr:
    """Return `a` where `condition` holds, else `b`."""
    assert condition.dtype == BOOL, condition.dtype
    x, y = _same_dtype(a, b)
    return Select(x.dtype, condition, x, y)


def scalar(name: str, *args: Operand) -> ScalarExpr:
    """Return a row of the scalar operator table applied to `args`, which must share one dtype."""
    first = next((a for a in args if isinstance(a, ScalarExpr)), None)
    assert first is not None, f"`{name}` needs an expression to know its dtype"
    values = tuple(adopt(a, first.dtype) for a in args)
    assert all(v.dtype == first.dtype for v in values), (
        f"operands of `{name}` differ in dtype: {', '.join(str(v.dtype) for v in values)}"
    )
    return Scalar(SCALAR_OPS[name].result(first.dtype), name, values)


def index(
    value: ScalarExpr, extent: Dim, mode: str = "trap", given: ScalarExpr | None = None
) -> ScalarExpr:
    """Return an integer loaded from memory as an index that is known to be below `extent`.

    A trap tells `given`, the integer that `value` was computed from, where that is another.
    """
    assert mode in INDEX_MODES, mode
    assert value.dtype.is_integer or value.dtype.is_bool, value.dtype
    said = value if given is None else given
    told = None
    if given is not None or (value.dtype == UINT64 and mode == "trap"):
        wide = said if said.dtype == UINT64 else cast(said, INT64)
        told = Told("index", wide, dim(extent))
    return IndexOf(INT64, cast(value, INT64), extent, mode, told)


def required(condition: ScalarExpr, told: Told) -> ScalarExpr:
    """Return 0, an int64; a trap where the condition does not hold."""
    return IndexOf(INT64, select(condition, const(0, INT64), -1), 1, "trap", told)


def told(reason: str, first: Operand = 0, second: Operand = 0) -> Told:
    """Return what a trap says: a row of `TRAP_REASONS` and two values, int64 where not uint64 or
    float64.
    """
    wide = (adopt(v, INT64) for v in (first, second))
    return Told(reason, *(v if v.dtype.bits == 64 else cast(v, INT64) for v in wide))


def in_range(value: ScalarExpr, extent: Dim) -> ScalarExpr:
    """Return whether an integer is a valid index below `extent`; the partner of mode `fill`."""
    wide = cast(value, INT64)
    return scalar("logical_and", wide >= 0, wide < dim(extent))


def _index_var(prefix: str, extent: Dim) -> IndexVar:
    return IndexVar(INT64, f"{prefix}{next(_names)}", extent)


def _as_index(value: Operand) -> ScalarExpr:
    if isinstance(value, ScalarExpr):
        assert value.dtype == INT64, f"an index is int64, not {value.dtype}"
        return value
    assert isinstance(value, (int, DimExpr)), value
    return dim(value)


def adopt(value: Operand, dtype: DType) -> ScalarExpr:
    """Return an expression as it is, a number as a literal of `dtype`, a dim as its value."""
    if isinstance(value, ScalarExpr):
        return value
    if isinstance(value, DimExpr):
        return cast(dim(value), dtype)
    assert not isinstance(value, AnyDim), "`?` has no value"
    return const(value, dtype)


def _same_dtype(a: Operand, b: Operand) -> tuple[ScalarExpr, ScalarExpr]:
    known = a if isinstance(a, ScalarExpr) else b
    assert isinstance(known, ScalarExpr), "one side must be an expression"
    x, y = adopt(a, known.dtype), adopt(b, known.dtype)
    assert x.dtype == y.dtype, f"both sides need one dtype, not {x.dtype} and {y.dtype}"
    return x, y


def _binary(name: str, a: Operand, b: Operand) -> ScalarExpr:
    x, y = _same_dtype(a, b)
    return scalar(name, x, y)
