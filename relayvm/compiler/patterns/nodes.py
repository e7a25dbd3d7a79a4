"""The kinds of dataflow patterns. A pattern node that stands at several places of a pattern matches
one and the same expression at all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from relayvm.base.dims import Dim
from relayvm.base.dtypes import DType
from relayvm.ir.expr import AttrValue, Expr
from relayvm.ir.types import Type
from relayvm.ops import OPS


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DFPattern:
    """Base of all patterns; `|`, arithmetic and calls build larger ones."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __call__(self, *args: DFPattern | None) -> CallPattern:
        """Return the pattern of a call of what this matches; a single None means any arguments."""
        if args == (None,):
            return CallPattern(self, None)
        return CallPattern(self, tuple(a for a in args if a is not None))

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other: DFPattern) -> CallPattern:
        return op_call("add", self, other)

    def __sub__(self, other: DFPattern) -> CallPattern:
        return op_call("subtract", self, other)

    def __mul__(self, other: DFPattern) -> CallPattern:
        return op_call("multiply", self, other)

    def __truediv__(self, other: DFPattern) -> CallPattern:
        return op_call("divide", self, other)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> AltPattern:
        """Return the pattern of this alone, or of what `option_constructor` puts around it."""
        return self | option_constructor(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExprPattern(DFPattern):
    """Matches what is structurally equal to `expr`."""

    expr: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VarPattern(DFPattern):
    """Matches a variable, of this name unless it is empty."""

    name: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConstantPattern(DFPattern):
    """Matches a constant."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CallPattern(DFPattern):
    """Matches a call; `args` None means any. Operands of `add` and `multiply` may be swapped, and
    `a * b / c` matches `a * (b / c)`.
    """

    op: DFPattern
    args: tuple[DFPattern, ...] | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FunctionPattern(DFPattern):
    """Matches a function; `params` None means any."""

    params: tuple[DFPattern, ...] | None
    body: DFPattern


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IfPattern(DFPattern):
    """Matches a choice."""

    cond: DFPattern
    true_branch: DFPattern
    false_branch: DFPattern


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LetPattern(DFPattern):
    """Matches a let."""

    var: DFPattern
    value: DFPattern
    body: DFPattern


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TuplePattern(DFPattern):
    """Matches a tuple; `fields` None means any."""

    fields: tuple[DFPattern, ...] | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleGetItemPattern(DFPattern):
    """Matches a projection; `index` None means any."""

    tuple_value: DFPattern
    index: int | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AltPattern(DFPattern):
    """Matches what the left pattern matches, else what the right one does."""

    left: DFPattern
    right: DFPattern


@dataclass(slots=True, eq=False, repr=False)
class _Redirect:
    target: DFPattern | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WildcardPattern(DFPattern):
    """Matches anything; once redirected, what the other pattern matches: so a pattern may contain
    itself.
    """

    redirection: _Redirect = field(default_factory=_Redirect)

    def redirect_to(self, pattern: DFPattern) -> None:
        """Make this stand for another pattern, which may contain it."""
        self.redirection.target = pattern


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TypePattern(DFPattern):
    """Matches what the inner pattern does if it has this type."""

    pattern: DFPattern
    type: Type


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DataTypePattern(DFPattern):
    """Matches what the inner pattern does if it is a tensor of this dtype."""

    pattern: DFPattern
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShapePattern(DFPattern):
    """Matches what the inner pattern does if it is a tensor of this shape."""

    pattern: DFPattern
    shape: tuple[Dim, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttrPattern(DFPattern):
    """Matches what the inner pattern does if it is a call, function or operator with these
    attributes.

    Those of an operator are its `TOpPattern`, the number of its fusion class.
    """

    pattern: DFPattern
    attrs: Mapping[str, AttrValue]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DominatorPattern(DFPattern):
    """Matches `child` if all ways back from it go through `path` to one `parent`, which every use
    of reaches `child`.
    """

    parent: DFPattern
    path: DFPattern
    child: DFPattern


def parts(pattern: DFPattern) -> tuple[DFPattern, ...]:
    """Return the patterns directly inside one."""
    match pattern:
        case CallPattern():
            return (pattern.op, *(pattern.args or ()))
        case FunctionPattern():
            return (*(pattern.params or ()), pattern.body)
        case IfPattern():
            return (pattern.cond, pattern.true_branch, pattern.false_branch)
        case LetPattern():
            return (pattern.var, pattern.value, pattern.body)
        case TuplePattern():
            return pattern.fields or ()
        case TupleGetItemPattern():
            return (pattern.tuple_value,)
        case AltPattern():
            return (pattern.left, pattern.right)
        case TypePattern() | DataTypePattern() | ShapePattern() | AttrPattern():
            return (pattern.pattern,)
        case DominatorPattern():
            return (pattern.parent, pattern.path, pattern.child)
        case WildcardPattern() if pattern.redirection.target is not None:
            return (pattern.redirection.target,)
    return ()


def op_call(name: str, *args: DFPattern) -> CallPattern:
    """Return the pattern of a call of the operator of this name."""
    return CallPattern(ExprPattern(OPS[name]), tuple(args))


def patterns_of(values: Sequence[DFPattern] | None) -> tuple[DFPattern, ...] | None:
    """Return the patterns as a tuple; None stays None."""
    return None if values is None else tuple(values)
