"""TVM's names for data types, matches and patterns."""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.base.diagnostics import error
from relayvm.base.source import Span
from relayvm.ir import expr as ir
from relayvm.ir import module as ir_module
from relayvm.ir.types import GlobalTypeVar, Type, TypeParam
from relayvm.relay.node import NodeClass, as_expr, as_types
from relayvm.relay.python_span import here

UNPLACED = -1


class Pattern(metaclass=NodeClass):
    """Any pattern."""

    nodes = (ir.Pattern,)


class PatternWildcard(metaclass=NodeClass):
    """`_`: fits everything."""

    nodes = (ir.PatternWildcard,)

    @staticmethod
    def make() -> ir.PatternWildcard:
        """Return the pattern that fits everything."""
        return ir.PatternWildcard()


class PatternVar(metaclass=NodeClass):
    """Fits everything and binds it."""

    nodes = (ir.PatternVar,)

    @staticmethod
    def make(var: ir.Var) -> ir.PatternVar:
        """Return the pattern that binds a variable."""
        if not isinstance(var, ir.Var):
            raise error("bad-node", f"a pattern binds a variable, not `{var!r}`")
        return ir.PatternVar(var)


class PatternConstructor(metaclass=NodeClass):
    """Fits values made by one constructor."""

    nodes = (ir.PatternConstructor,)

    @staticmethod
    def make(
        constructor: ir.Constructor, patterns: Sequence[ir.Pattern] | None = None
    ) -> ir.PatternConstructor:
        """Return the pattern of a constructor; without patterns, of one without fields."""
        if not isinstance(constructor, ir.Constructor):
            raise error("bad-node", f"`{constructor!r}` is no constructor")
        return ir.PatternConstructor(constructor, _patterns(patterns or ()))


class PatternTuple(metaclass=NodeClass):
    """Fits tuples."""

    nodes = (ir.PatternTuple,)

    @staticmethod
    def make(patterns: Sequence[ir.Pattern] | None = None) -> ir.PatternTuple:
        """Return the pattern of tuples whose fields fit."""
        return ir.PatternTuple(_patterns(patterns or ()))


def _patterns(patterns: Sequence[ir.Pattern]) -> tuple[ir.Pattern, ...]:
    for pattern in patterns:
        if not isinstance(pattern, ir.Pattern):
            raise error("bad-node", f"a pattern holds patterns, not `{pattern!r}`")
    return tuple(patterns)


class Constructor(metaclass=NodeClass):
    """A constructor of a data type."""

    nodes = (ir.Constructor,)

    @staticmethod
    def make(name_hint: str, inputs: Sequence[Type], belong_to: GlobalTypeVar) -> ir.Constructor:
        """Return a constructor; its place is fixed once it stands in a `TypeData`."""
        fields = as_types(inputs, "a constructor")
        return ir.Constructor(name_hint, fields, belong_to, UNPLACED)


class TypeData(metaclass=NodeClass):
    """The definition of a data type."""

    nodes = (ir_module.TypeData,)

    @staticmethod
    def make(
        header: GlobalTypeVar,
        type_vars: Sequence[TypeParam],
        constructors: Sequence[ir.Constructor],
    ) -> ir_module.TypeData:
        """Return a definition, which gives its constructors their places."""
        for index, constructor in enumerate(constructors):
            _place(constructor, index, header)
        return ir_module.TypeData(header, tuple(type_vars), tuple(constructors))


def _place(constructor: ir.Constructor, index: int, header: GlobalTypeVar) -> None:
    """Complete a constructor: users hold it, and patterns may name it, before its definition is
    made, so the same object must get its place.
    """
    if not isinstance(constructor, ir.Constructor):
        raise error("bad-node", f"`{constructor!r}` is no constructor")
    if constructor.belong_to != header:
        raise error(
            "bad-node",
            f"constructor `{constructor.name}` belongs to `{constructor.belong_to.name}`, "
            f"not to `{header.name}`",
        )
    if constructor.index == UNPLACED:
        object.__setattr__(constructor, "index", index)
    elif constructor.index != index:
        raise error(
            "bad-node",
            f"constructor `{constructor.name}` stands at {index}, but is already number "
            f"{constructor.index} of another definition",
        )


class Clause(metaclass=NodeClass):
    """One case of a match."""

    nodes = (ir.Clause,)

    @staticmethod
    def make(lhs: ir.Pattern, rhs: ir.Expr) -> ir.Clause:
        """Return the case for values that fit a pattern."""
        return ir.Clause(_patterns([lhs])[0], as_expr(rhs, "a clause"))


class Match(metaclass=NodeClass):
    """Clauses tried in order."""

    nodes = (ir.Match,)

    @staticmethod
    def make(data: ir.Expr, clauses: Sequence[ir.Clause], complete: bool = True) -> ir.Match:
        """Return a match; one that is not complete traps on a miss."""
        return ir.Match(as_expr(data, "a match"), tuple(clauses), bool(complete), span=here())


__all__ = [
    "Clause",
    "Constructor",
    "Match",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "Span",
    "TypeData",
]
