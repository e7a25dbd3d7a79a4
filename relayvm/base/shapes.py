"""The context in which a shape rule runs: it compares dims and notes what only a run can tell.

One rule serves three times. With integers it folds or fails; with symbols the result stays
symbolic; with a fresh variable for every `?` (`trace`) the result dims are the run-time shape
program and `checks` what it must verify.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from relayvm.base.abi import reason_text
from relayvm.base.dims import ANY, AnyDim, Dim, dim_broadcast, dims_equal, is_never_one


class ShapeError(Exception):
    """A rule does not hold; type inference adds the place. `code` is a row of the error table."""

    def __init__(self, message: str, code: str = "shape-mismatch") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def bad_value(reason: str, first: float = 0, second: float = 0) -> ShapeError:
    """Return the error for operands whose values mean nothing, by a row of `TRAP_REASONS`."""
    return ShapeError(reason_text(reason, first, second), "bad-value")


def bad_index(index: int, extent: int) -> IndexError:
    """Return the error for an index that is outside its axis."""
    return IndexError(reason_text("index", index, extent))


@dataclass(frozen=True, slots=True)
class Check:
    """Two dims that must agree at run time; `broadcast` also allows either to be 1."""

    a: Dim
    b: Dim
    what: str
    broadcast: bool = False


@dataclass(slots=True)
class ShapeContext:
    """What one application of a rule left to be checked at run time."""

    checks: list[Check] = field(default_factory=list)


_context: ContextVar[ShapeContext | None] = ContextVar("shape_context", default=None)


@contextmanager
def shape_context() -> Iterator[ShapeContext]:
    """Collect the residual checks of the rules that run inside the `with` block."""
    context = ShapeContext()
    token = _context.set(context)
    try:
        yield context
    finally:
        _context.reset(token)


def _note(check: Check) -> None:
    context = _context.get()
    if context is not None and check not in context.checks:
        context.checks.append(check)


def require_equal(a: Dim, b: Dim, what: str) -> Dim:
    """Return the better known of two dims that must be equal; `what` names both, in that order.

    Raises ShapeError if they are known to differ; leaves a check if only a run can tell.
    """
    equal = dims_equal(a, b)
    if equal is False:
        raise ShapeError(f"{what} differ: {a} and {b}")
    if equal is None:
        _note(Check(a, b, what))
    if isinstance(a, AnyDim) or (isinstance(b, int) and not isinstance(a, int)):
        return b
    return a


def require_broadcast(a: Dim, b: Dim, what: str) -> Dim:
    """Return the size of two axes broadcast against each other; `what` names both.

    Known dims other than 1 win over `?` and symbols and leave a check. Sizes of which neither can
    be 1, as `n*12`, are equal, so that the plainer one is known to be that of both.
    """
    if dims_equal(a, b) is True or a == 1 or b == 1:
        return dim_broadcast(a, b)
    if isinstance(a, int) and isinstance(b, int):
        raise ShapeError(f"{what} do not broadcast: {a} and {b}")
    if is_never_one(a) and is_never_one(b):
        if dims_equal(a, b) is False:
            raise ShapeError(f"{what} do not broadcast: {a} and {b}")
        _note(Check(a, b, what))
        return min((a, b), key=lambda dim: (not isinstance(dim, int), len(repr(dim))))
    _note(Check(a, b, what, broadcast=True))
    return dim_broadcast(a, b)


def broadcast_shapes(a: Sequence[Dim], b: Sequence[Dim], what: str = "shapes") -> tuple[Dim, ...]:
    """Return the shape of two shapes broadcast from the right, as numpy does."""
    rank = max(len(a), len(b))
    padded_a = (1,) * (rank - len(a)) + tuple(a)
    padded_b = (1,) * (rank - len(b)) + tuple(b)
    return tuple(
        require_broadcast(x, y, f"axis {axis} of the {what}")
        for axis, (x, y) in enumerate(zip(padded_a, padded_b))
    )


def join_dims(a: Dim, b: Dim) -> Dim:
    """Return the least dim that covers both: the dim itself if they are equal, else `?`."""
    return a if dims_equal(a, b) is True else ANY
