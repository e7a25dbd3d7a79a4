"""Patterns as tests and paths into a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from relayvm.ir.expr import (
    Constructor,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Var,
)


def _places(pattern: Pattern, path: str) -> Iterator[tuple[Pattern, str]]:
    stack = [(pattern, path)]
    while stack:
        item, place = stack.pop()
        yield item, place
        if isinstance(item, (PatternConstructor, PatternTuple)):
            below = f"{place}.fields" if isinstance(item, PatternConstructor) else place
            parts = [(part, f"{below}[{i}]") for i, part in enumerate(item.patterns)]
            stack.extend(reversed(parts))


def conditions(pattern: Pattern, path: str, class_of: Callable[[Constructor], str]) -> list[str]:
    """Return the tests that a value must pass, outer ones first; none fits everything."""
    return [
        f"isinstance({place}, {class_of(item.constructor)})"
        for item, place in _places(pattern, path)
        if isinstance(item, PatternConstructor)
    ]


def bindings(pattern: Pattern, path: str) -> list[tuple[Var, str]]:
    """Return the variables of a pattern with where they find their values."""
    return [(item.var, p) for item, p in _places(pattern, path) if isinstance(item, PatternVar)]
