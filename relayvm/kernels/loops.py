"""Loop nests: the portable form of a kernel, explicit in every load, product order and vector.

Nodes only; see `printer.py` for the text, `verify.py` for the rules, `interpret.py` for the
meaning. Expressions are structural values with a dtype and a number of lanes (1 is a scalar);
names are unique in a nest.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, Union

from relayvm.base.abi import Access
from relayvm.base.diagnostics import assert_never
from relayvm.base.dtypes import BOOL, INT32, INT64, DType
from relayvm.kernels.compute import Number
from relayvm.kernels.scalar_ops import SCALAR_OPS

LANES = 16
ROLES = ("input", "output", "scratch", "private")
TREE_OPS = ("add", "multiply", "maximum", "minimum", "logical_or", "logical_and")


class _Node:
    """An expression of others, which keeps its hash: those of deep ones are asked for often."""

    __slots__ = ("_hash",)
    _hash: int


NodeType = TypeVar("NodeType", bound=type[_Node])


def _hashed_once(node: NodeType) -> NodeType:
    """Let each expression of a class keep the hash that the class computes from its fields."""
    compute = node.__hash__

    def hash_once(self: _Node) -> int:
        try:
            return self._hash
        except AttributeError:
            found = compute(self)
            object.__setattr__(self, "_hash", found)
            return found

    node.__hash__ = hash_once  # type: ignore[assignment,method-assign]
    return node


@dataclass(frozen=True, slots=True)
class Const:
    """A literal. Float values are Python floats that the dtype can hold."""

    value: Number
    dtype: DType
    lanes: int = field(default=1, init=False)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        # By bits: 0.0 is not -0.0, and NaN is itself.
        if not isinstance(other, Const) or self.dtype is not other.dtype:
            return self.__class__ is other.__class__ and repr(self) == repr(other)
        if self.dtype.kind == "float":
            return repr(self.value) == repr(other.value)
        return self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value) if self.value == self.value else 0


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable (int64), a phase variable (int64) or a name bound by `Let`."""

    name: str
    dtype: DType = INT64
    lanes: int = 1

    def __eq__(self, other: object) -> bool:
        # Names are unique in a nest; comparisons and hashes are asked for often enough to matter.
        if self is other:
            return True
        return (
            isinstance(other, Var)
            and self.name == other.name
            and self.lanes == other.lanes
            and self.dtype == other.dtype
        )

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class DimRef:
    """The int64 value of the nest's dim variable of this name."""

    name: str
    dtype: DType = field(default=INT64, init=False)
    lanes: int = field(default=1, init=False)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DimRef) and self.name == other.name)

    def __hash__(self) -> int:
        return hash(self.name)


@_hashed_once
@dataclass(frozen=True, slots=True)
class Call(_Node):
    """A row of the scalar operator table, lane by lane; all arguments have the same lanes."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    lanes: int

    def __hash__(self) -> int:
        return hash((self.name, self.args))


@_hashed_once
@dataclass(frozen=True, slots=True)
class Cast(_Node):
    """A conversion, lane by lane."""

    value: Expr
    dtype: DType
    lanes: int


@_hashed_once
@dataclass(frozen=True, slots=True)
class Select(_Node):
    """`a` where `condition` holds, else `b`, lane by lane; both are evaluated."""

    condition: Expr
    a: Expr
    b: Expr
    dtype: DType
    lanes: int


@_hashed_once
@dataclass(frozen=True, slots=True)
class Broadcast(_Node):
    """A scalar in every lane."""

    value: Expr
    lanes: int
    dtype: DType


@_hashed_once
@dataclass(frozen=True, slots=True)
class Ramp(_Node):
    """`base + lane * stride` in int64; both scalars."""

    base: Expr
    stride: Expr
    lanes: int
    dtype: DType = field(default=INT64, init=False)


@_hashed_once
@dataclass(frozen=True, slots=True)
class Mask(_Node):
    """True in lanes below the int64 scalar `count` (which may be negative or above `lanes`)."""

    count: Expr
    lanes: int
    dtype: DType = field(default=BOOL, init=False)


@_hashed_once
@dataclass(frozen=True, slots=True)
class Index(_Node):
    """A scalar int64 made an index below the scalar `extent`; an extent below 1 always traps.

    `trap` ends the kernel where the value is outside, `clip` and `fill` take the nearest, `wrap` is
    floor modulo. A trap tells `reason`, a row of `TRAP_REASONS`, with value and extent; or with
    `told`, two scalars of 64 bits, which are computed only then.
    """

    value: Expr
    extent: Expr
    mode: str
    reason: str = "index"
    told: tuple[Expr, Expr] | None = None
    dtype: DType = field(default=INT64, init=False)
    lanes: int = field(default=1, init=False)


@_hashed_once
@dataclass(frozen=True, slots=True)
class Load(_Node):
    """`lanes` elements in a row along the last axis, the first at `indices` (scalars).

    One index on a buffer of another rank is a row-major flat offset (dense buffers only). On a
    strided buffer lane l is at last index + l, through the stride. Where `mask` is false memory is
    not touched and the lane is 0.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    lanes: int = 1
    mask: Expr | None = None

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


@_hashed_once
@dataclass(frozen=True, slots=True)
class Gather(_Node):
    """One element a lane; every index has `lanes` lanes. Masked as `Load`."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    lanes: int
    mask: Expr | None = None

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


@_hashed_once
@dataclass(frozen=True, slots=True)
class TileLoad(_Node):
    """Element `index` (a scalar int64) of a local tile."""

    tile: Tile
    index: Expr

    @property
    def dtype(self) -> DType:
        return self.tile.dtype

    @property
    def lanes(self) -> int:
        return self.tile.lanes


@dataclass(frozen=True, slots=True)
class Apart:
    """True where an output does not lie in the memory of an input; both are dense.

    What the machine decides at run time: an output may take over an input that nobody else sees.
    """

    output: Buffer
    input: Buffer
    dtype: DType = field(default=BOOL, init=False)
    lanes: int = field(default=1, init=False)

    def __hash__(self) -> int:
        return hash((self.output, self.input))


@_hashed_once
@dataclass(frozen=True, slots=True)
class Tree(_Node):
    """Each vector folded to one value by `op` in halves.

    Lanes [0, L/2) op lanes [L/2, L), and so on to one lane. One vector gives a scalar; n vectors
    give n lanes, lane j from vector j. All have the same power of two of lanes.
    """

    op: str
    vectors: tuple[Expr, ...]
    dtype: DType
    lanes: int


@_hashed_once
@dataclass(frozen=True, slots=True)
class Dot(_Node):
    """`acc` plus sums of products of neighbouring lanes, in int32 that wraps.

    Lane j gets the products of the lanes [j * g, (j + 1) * g) of `a` and `b`, integers of 8 or 16
    bits, where g is how many more lanes they have: 2 or 4.
    """

    acc: Expr
    a: Expr
    b: Expr
    lanes: int
    dtype: DType = field(default=INT32, init=False)


@_hashed_once
@dataclass(frozen=True, slots=True)
class Lane(_Node):
    """One lane (a constant number) of a vector, as a scalar."""

    vector: Expr
    lane: int
    dtype: DType
    lanes: int = field(default=1, init=False)


@_hashed_once
@dataclass(frozen=True, slots=True)
class Shuffle(_Node):
    """Lanes of two vectors of one width, picked by number: those of `b` follow those of `a`."""

    a: Expr
    b: Expr
    picks: tuple[int, ...]
    dtype: DType

    @property
    def lanes(self) -> int:
        return len(self.picks)

    def __hash__(self) -> int:
        return hash((self.a, self.b, self.picks[:2]))


Expr = Union[
    Const,
    Var,
    DimRef,
    Call,
    Cast,
    Select,
    Broadcast,
    Ramp,
    Mask,
    Index,
    Load,
    Gather,
    TileLoad,
    Apart,
    Tree,
    Dot,
    Lane,
    Shuffle,
]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory outside the kernel or its own: `role` is `input`, `output`, `scratch` or `private`.

    `shape` holds int64 expressions over dims. Scratch is dense, shared by all phases and slices,
    64-byte aligned. Private memory is the same but for one chain of a phase's rounds alone: what is
    read there was written in that chain.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    role: str
    access: Access = Access.DENSE

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class Tile:
    """A local array of `size` values of `lanes` lanes: registers after unrolling, else stack."""

    name: str
    dtype: DType
    lanes: int
    size: int


@dataclass(frozen=True, slots=True)
class For:
    """`body` for var = begin, begin + step, ... below `end`; `step` is a positive constant.

    `kind` is `serial`, or `unroll` (bounds are constants; the code generator copies the body). A
    serial loop ends early where `condition`, looked at before each round, does not hold.
    """

    var: Var
    begin: Expr
    end: Expr
    step: int
    body: tuple[Stmt, ...]
    kind: str = "serial"
    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class If:
    """A branch on a scalar bool."""

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """Write `value`, its lanes along the last axis; indices and mask as in `Load`."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    mask: Expr | None = None


@dataclass(frozen=True, slots=True)
class TileStore:
    """Set element `index` of a tile."""

    tile: Tile
    index: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Say that the element at `indices` will be read soon; it may be outside of its buffer."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Let:
    """Bind a name for the rest of the block."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Declare:
    """Make a tile (not initialised) for the rest of the block."""

    tile: Tile


Stmt = Union[For, If, Store, Prefetch, TileStore, Let, Declare]


@dataclass(frozen=True, slots=True)
class Phase:
    """A loop: `body` for var in a slice of [0, extent).

    Rounds are independent, and run at once; but each `chain` of them, so many one after the other,
    runs in order: what a round finds in scratch memory and outputs is what those before it in its
    chain left there. No slice begins or ends inside of one.
    """

    var: Var
    extent: Expr
    body: tuple[Stmt, ...]
    chain: Expr = Const(1, INT64)


@dataclass(frozen=True, slots=True)
class Nest:
    """A kernel: operands (inputs, then outputs, as in `args`), dims and phases in ABI order.

    `joined` holds sizes broadcast at run time that no axis and no loop has, `select(m == 1, 8, m)`:
    what is joined with a number extends to it, and the loop over it has the number alone.
    """

    name: str
    dims: tuple[str, ...]
    operands: tuple[Buffer, ...]
    scratch: tuple[Buffer, ...]
    phases: tuple[Phase, ...]
    private: tuple[Buffer, ...] = ()
    joined: tuple[Expr, ...] = ()

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return tuple(b for b in self.operands if b.role == "input")

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        return tuple(b for b in self.operands if b.role == "output")

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """All memory that the nest may touch."""
        return (*self.operands, *self.scratch, *self.private)


def const(value: Number, dtype: DType = INT64) -> Const:
    """Return a literal, an int64 where no dtype is given."""
    if dtype is INT64:
        number = int(value)
        return _SMALL[number] if 0 <= number < len(_SMALL) else Const(number, INT64)
    if dtype.is_real:
        return Const(dtype.nearest(value), dtype)
    return Const(bool(value) if dtype.is_bool else int(value), dtype)


# Most literals of indices, each made once.
_SMALL = tuple(Const(number, INT64) for number in range(129))


def call(name: str, *args: Expr) -> Expr:
    """Return a scalar operator applied; scalars are broadcast where another is a vector."""
    lanes = max(a.lanes for a in args)
    values = tuple(broadcast(a, lanes) for a in args)
    dtype = SCALAR_OPS[name].result(args[0].dtype)
    return Call(name, values, dtype, lanes)


def cast(value: Expr, dtype: DType) -> Expr:
    """Return a conversion; the same object where nothing changes."""
    return value if value.dtype == dtype else Cast(value, dtype, value.lanes)


def select(condition: Expr, a: Expr, b: Expr) -> Expr:
    """Return a lane-wise choice; scalars are broadcast where another is a vector."""
    lanes = max(condition.lanes, a.lanes, b.lanes)
    return Select(
        broadcast(condition, lanes), broadcast(a, lanes), broadcast(b, lanes), a.dtype, lanes
    )


def broadcast(value: Expr, lanes: int) -> Expr:
    """Return `value` in `lanes` lanes; the same object where it has them."""
    if value.lanes == lanes:
        return value
    assert value.lanes == 1, f"{value.lanes} lanes cannot become {lanes}"
    return Broadcast(value, lanes, value.dtype)


def tree(op: str, *vectors: Expr) -> Expr:
    """Return the vectors folded in halves; see `Tree`."""
    assert op in TREE_OPS, op
    return Tree(op, vectors, vectors[0].dtype, len(vectors))


def lane(vector: Expr, number: int) -> Expr:
    """Return one lane as a scalar."""
    return Lane(vector, number, vector.dtype)


def shuffle(a: Expr, b: Expr, picks: Sequence[int]) -> Expr:
    """Return the picked lanes of two vectors; see `Shuffle`."""
    return Shuffle(a, b, tuple(picks), a.dtype)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct operands of an expression."""
    match expr:
        case Call():
            return expr.args
        case Const() | Var() | DimRef() | Apart():
            return ()
        case Cast() | Broadcast():
            return (expr.value,)
        case Select():
            return (expr.condition, expr.a, expr.b)
        case Ramp():
            return (expr.base, expr.stride)
        case Mask():
            return (expr.count,)
        case Index():
            return (expr.value, expr.extent, *(expr.told or ()))
        case Load() | Gather():
            return expr.indices if expr.mask is None else (*expr.indices, expr.mask)
        case TileLoad():
            return (expr.index,)
        case Tree():
            return expr.vectors
        case Dot():
            return (expr.acc, expr.a, expr.b)
        case Shuffle():
            return (expr.a, expr.b)
        case Lane():
            return (expr.vector,)
        case _:
            assert_never(expr)


def map_operands(expr: Expr, fn: Callable[[Expr], Expr]) -> Expr:
    """Return the expression with `fn` applied to its operands; the same object if none changes."""
    old = children(expr)
    if not old:
        return expr
    new = tuple(map(fn, old))
    if all(map(operator.is_, old, new)):
        return expr
    match expr:
        case Call():
            return Call(expr.name, new, expr.dtype, expr.lanes)
        case Cast() | Broadcast():
            return replace(expr, value=new[0])
        case Select():
            return replace(expr, condition=new[0], a=new[1], b=new[2])
        case Ramp():
            return Ramp(new[0], new[1], expr.lanes)
        case Mask():
            return Mask(new[0], expr.lanes)
        case Index():
            told = (new[2], new[3]) if expr.told else None
            return replace(expr, value=new[0], extent=new[1], told=told)
        case Load() | Gather():
            rank = len(expr.indices)
            return replace(expr, indices=new[:rank], mask=new[rank] if len(new) > rank else None)
        case TileLoad():
            return TileLoad(expr.tile, new[0])
        case Tree():
            return Tree(expr.op, new, expr.dtype, expr.lanes)
        case Dot():
            return replace(expr, acc=new[0], a=new[1], b=new[2])
        case Shuffle():
            return replace(expr, a=new[0], b=new[1])
        case Lane():
            return replace(expr, vector=new[0])
        case Const() | Var() | DimRef() | Apart():
            return expr
        case _:
            assert_never(expr)
