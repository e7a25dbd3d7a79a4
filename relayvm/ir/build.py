"""Building expressions from Python: short functions for each node, and a scope that collects lets
and branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dims import Dim
from relayvm.base.dtypes import BY_NAME, FLOAT32, FLOAT64, INT32, INT64, DType, dtype_of
from relayvm.base.narrow.host import name_of
from relayvm.ir.expr import (
    NO_ATTRS,
    Attrs,
    AttrValue,
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.types import TensorType, Type, TypeParam


def var(
    name: str,
    type_annotation: Type | None = None,
    *,
    shape: Sequence[Dim] | None = None,
    dtype: str | DType = "float32",
) -> Var:
    """Return a new variable; `shape` with `dtype` is short for a tensor type."""
    if shape is not None:
        type_annotation = TensorType(tuple(shape), dtype_of(dtype))
    return Var(name, type_annotation)


def const(value: object, dtype: str | DType | None = None) -> Constant:
    """Return a constant; without `dtype`, int64 becomes int32 and float64 becomes float32.

    The array is copied. Raises RelayError `bad-literal` for what is no tensor or does not fit.
    """
    if isinstance(value, Constant):
        value = value.data
    array = np.asarray(value)
    if name_of(array.dtype) not in BY_NAME:
        raise error("bad-literal", f"no element type holds values of numpy's `{array.dtype}`")
    wanted = dtype_of(dtype) if dtype is not None else _default_dtype(array)
    if wanted.is_integer and array.dtype.kind in "iu" and array.size:
        low, high = int(array.min()), int(array.max())
        if low < wanted.min or high > wanted.max:
            bad = low if low < wanted.min else high
            raise error("bad-literal", f"{bad} does not fit into {wanted}")
    with np.errstate(all="ignore"):
        data = np.array(array, wanted.numpy, order="C")
    data.flags.writeable = False
    return Constant(data)


def _default_dtype(array: np.ndarray) -> DType:
    dtype = dtype_of(array.dtype)
    return {INT64: INT32, FLOAT64: FLOAT32}.get(dtype, dtype)


def tuple_(*fields: Expr) -> Tuple:
    """Return a tuple."""
    return Tuple(fields)


def get(value: Expr, index: int) -> TupleGetItem:
    """Return field `index` of a tuple."""
    return TupleGetItem(value, index)


def call(
    callee: Expr | str, *args: Expr, type_args: Sequence[Type] = (), **attrs: AttrValue
) -> Call:
    """Return a call; a text names a global function."""
    op = GlobalVar(callee.removeprefix("@")) if isinstance(callee, str) else callee
    known = Attrs(attrs) if attrs else NO_ATTRS
    if isinstance(op, Op) and attrs:
        unknown = attrs.keys() - {row.name for row in op.attributes}
        if unknown:
            names = ", ".join(sorted(f"`{name}`" for name in unknown))
            raise error("unknown-attribute", f"operator `{op.name}` has no attribute {names}")
    return Call(op, args, known, tuple(type_args))


def function(
    params: Sequence[Var],
    body: Expr,
    ret_type: Type | None = None,
    type_params: Sequence[TypeParam] = (),
    **attrs: AttrValue,
) -> Function:
    """Return a function."""
    return Function(
        tuple(params), body, ret_type, tuple(type_params), Attrs(attrs) if attrs else NO_ATTRS
    )


def let(bindings: Sequence[tuple[Var, Expr]], body: Expr) -> Expr:
    """Return `body` under a chain of lets, the first binding outermost."""
    for variable, value in reversed(bindings):
        body = Let(variable, value, body)
    return body


def if_(cond: Expr, true_branch: Expr, false_branch: Expr) -> If:
    """Return a choice."""
    return If(cond, true_branch, false_branch)


def ref(value: Expr) -> RefCreate:
    """Return a new reference."""
    return RefCreate(value)


def ref_read(reference: Expr) -> RefRead:
    """Return the reading of a reference."""
    return RefRead(reference)


def ref_write(reference: Expr, value: Expr) -> RefWrite:
    """Return the writing of a reference."""
    return RefWrite(reference, value)


PatternLike = Pattern | Var | tuple | None  # type: ignore[type-arg]


def pattern(shape: PatternLike) -> Pattern:
    """Return a pattern: `None` is `_`, a variable binds, a tuple whose first item is a constructor
    takes it apart.

    `(Cons, head, None)` is `Cons(%head, _)`; a tuple of other patterns is a tuple pattern.
    """
    if shape is None:
        return PatternWildcard()
    if isinstance(shape, Pattern):
        return shape
    if isinstance(shape, Var):
        return PatternVar(shape)
    if shape and isinstance(shape[0], Constructor):
        return PatternConstructor(shape[0], tuple(pattern(p) for p in shape[1:]))
    return PatternTuple(tuple(pattern(p) for p in shape))


def match(data: Expr, *clauses: tuple[PatternLike, Expr], complete: bool = True) -> Match:
    """Return a match over pairs of pattern and result."""
    rows = tuple(Clause(pattern(lhs), rhs) for lhs, rhs in clauses)
    return Match(data, rows, complete)


class ScopeBuilder:
    """Collects statements; `result` is the expression that they make.

    ```python
    scope = ScopeBuilder()
    y = scope.let("y", call(add, x, x))
    scope.ret(call(multiply, y, y))
    scope.result()          # let %y = add(%x, %x); multiply(%y, %y)
    ```
    """

    def __init__(self) -> None:
        self._frames: list[list[tuple[Var, Expr]]] = [[]]
        self._results: list[Expr | None] = [None]
        self._pending_if: tuple[Expr, Expr] | None = None

    def let(self, name: str | Var, value: Expr) -> Var:
        """Bind a value and return its variable."""
        variable = name if isinstance(name, Var) else Var(name)
        self._frames[-1].append((variable, value))
        return variable

    def ret(self, value: Expr) -> None:
        """Set the result of the scope that is open."""
        if self._results[-1] is not None:
            raise error("ill-formed", "the scope already has a result")
        self._results[-1] = value

    @contextmanager
    def if_scope(self, cond: Expr) -> Iterator[None]:
        """Open the branch that is taken where `cond` is true; `else_scope` must follow."""
        branch = self._open()
        yield
        self._pending_if = (cond, branch())

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """Open the other branch; the choice becomes the result of the scope around it."""
        if self._pending_if is None:
            raise error("ill-formed", "an else scope follows an if scope")
        cond, true_branch = self._pending_if
        self._pending_if = None
        branch = self._open()
        yield
        self.ret(If(cond, true_branch, branch()))

    def _open(self) -> Callable[[], Expr]:
        self._frames.append([])
        self._results.append(None)
        return self._close

    def _close(self) -> Expr:
        bindings, value = self._frames.pop(), self._results.pop()
        if value is None:
            raise error("ill-formed", "the scope has no result")
        return let(bindings, value)

    def result(self) -> Expr:
        """Return the whole expression."""
        value = self._results[0]
        if len(self._frames) != 1 or value is None:
            raise error("ill-formed", "the scope has no result")
        return let(self._frames[0], value)
