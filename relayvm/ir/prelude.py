"""The library that every program may use: `std/prelude.rly`, read once for each table of
operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from relayvm.base.source import Source
from relayvm.ir.expr import Op
from relayvm.ir.module import Module
from relayvm.ir.parser import parse_module

PRELUDE_PATH = Path(__file__).parent / "std" / "prelude.rly"
PRELUDE_NAME = "prelude.rly"

_OPERATORS_USED = ("add", "subtract", "equal")


class _PreludeCache:
    """Prelude modules by the operators that they call."""

    def __init__(self) -> None:
        self._modules: dict[tuple[int, ...], tuple[tuple[Op, ...], Module]] = {}

    def get(self, operators: Mapping[str, Op]) -> Module:
        used = tuple(operators[name] for name in _OPERATORS_USED)
        key = tuple(id(op) for op in used)
        if key not in self._modules:
            source = Source(PRELUDE_NAME, PRELUDE_PATH.read_text(encoding="utf-8"))
            self._modules[key] = (used, parse_module(source, operators))
        return self._modules[key][1]


_cache = _PreludeCache()


def prelude(operators: Mapping[str, Op]) -> Module:
    """Return the module of `List`, `Option`, `Tree` and the functions on them.

    `operators` needs `add`, `subtract` and `equal`; the same ones give the same module.
    """
    return _cache.get(operators)


def parse_program(source: Source | str, operators: Mapping[str, Op]) -> Module:
    """Return the module that a text describes, with what it uses of the prelude."""
    return parse_module(source, operators, prelude(operators))
