"""The library that every program may use, and the files of definitions that it can take in whole.

`std/prelude.rly` and `std/array.rly` are the library; `std/nat.rly`, `std/core.rly` and
`std/gradient.rly` are there for those who ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from relayvm.base.diagnostics import DiagnosticSink, error
from relayvm.base.source import Source
from relayvm.ir.expr import Op
from relayvm.ir.module import Module
from relayvm.ir.parser import parse_module
from relayvm.ir.parser.library import add_definitions, merge_library

STD = Path(__file__).parent / "std"
PRELUDE_NAME = "prelude.rly"
PRELUDE_PATH = STD / PRELUDE_NAME
LIBRARY_FILES = (PRELUDE_NAME, "array.rly")
STD_FILES = (*LIBRARY_FILES, "core.rly", "gradient.rly", "nat.rly")

_OPERATORS_USED = ("add", "subtract", "equal", "less", "maximum")


class _StdCache:
    """Parsed files by the operators that they call."""

    def __init__(self) -> None:
        self._kept: list[Op] = []
        self._modules: dict[tuple[object, ...], Module] = {}

    def get(self, name: str, operators: Mapping[str, Op]) -> Module:
        """Return the definitions of a file; what it uses of others is not among them."""
        used = [operators[o] for o in _OPERATORS_USED if o in operators]
        key = (name, *map(id, used))
        if key not in self._modules:
            source = Source(name, (STD / name).read_text(encoding="utf-8"))
            first = name == PRELUDE_NAME
            rest = None if first else self.get(PRELUDE_NAME, operators)
            self._kept += used  # An id is only unique while its object lives.
            self._modules[key] = _own(parse_module(source, operators, rest))
        return self._modules[key]

    def library(self, operators: Mapping[str, Op]) -> Module:
        """Return the definitions that every program may use."""
        used = [operators[o] for o in _OPERATORS_USED if o in operators]
        key = ("", *map(id, used))
        if key not in self._modules:
            self._modules[key] = _joined([self.get(f, operators) for f in LIBRARY_FILES])
        return self._modules[key]


def _own(module: Module) -> Module:
    functions = {n: f for n, f in module.functions.items() if n not in module.library}
    types = {n: t for n, t in module.types.items() if n not in module.library}
    return Module(functions, types)


def _joined(modules: list[Module]) -> Module:
    functions = {n: f for m in modules for n, f in m.functions.items()}
    return Module(functions, {n: t for m in modules for n, t in m.types.items()})


_cache = _StdCache()


def prelude(operators: Mapping[str, Op]) -> Module:
    """Return the module of `List`, `Option`, `Tree`, `Array` and the functions on them.

    `operators` needs arithmetic and comparisons; the same ones give the same module.
    """
    return _cache.library(operators)


def parse_program(source: Source | str, operators: Mapping[str, Op]) -> Module:
    """Return the module that a text describes, with what it uses of the prelude."""
    return parse_module(source, operators, prelude(operators))


def import_from_std(module: Module, name: str, operators: Mapping[str, Op]) -> Module:
    """Return the module with all definitions of a file of the library, such as `nat.rly`.

    Those of `prelude.rly` and `array.rly` that the module defines itself are left out. Raises
    RelayError `unknown-library`, or `library-conflict` where another file needs or defines what
    the module defines otherwise.
    """
    if name not in STD_FILES:
        known = ", ".join(f"`{n}`" for n in STD_FILES)
        raise error("unknown-library", f"the library has no file `{name}`; it has {known}")
    file = _cache.get(name, operators)
    if name not in LIBRARY_FILES:
        return take_in(module, file, operators)
    functions = [n for n in file.functions if n not in module.functions]
    types = [n for n in file.types if n not in module.types]
    sink = DiagnosticSink()
    result = merge_library(module, prelude(operators), functions, types, sink)
    sink.raise_if_any()
    return result


def parse_definitions(source: Source | str, operators: Mapping[str, Op], module: Module) -> Module:
    """Return the definitions of a text that uses those of a module and of the prelude."""
    library = prelude(operators)
    known = Module({**library.functions, **module.functions}, {**library.types, **module.types})
    return _own(parse_module(source, operators, known))


def take_in(module: Module, other: Module, operators: Mapping[str, Op]) -> Module:
    """Return the module with all definitions of another one and what these need of the prelude.

    Raises RelayError `library-conflict`.
    """
    sink = DiagnosticSink()
    result = add_definitions(module, other, prelude(operators), sink)
    sink.raise_if_any()
    return result
