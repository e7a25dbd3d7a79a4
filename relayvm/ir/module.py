"""A Relay program: global functions and data types by name. Immutable: changes return a new
module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

from relayvm.base.diagnostics import error, quantity
from relayvm.base.source import Span
from relayvm.ir.expr import NO_ATTRS, Attrs, Constructor, Function, Op
from relayvm.ir.types import GlobalTypeVar, TypeParam


@dataclass(frozen=True, slots=True)
class TypeData:
    """The definition of a data type. An `extern type` has no constructors and `extern` set."""

    header: GlobalTypeVar
    type_params: tuple[TypeParam, ...]
    constructors: tuple[Constructor, ...]
    extern: bool = False
    span: Span | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class Inferred:
    """What type inference has returned: functions with all of their types, and the data types that
    they rely on. Nodes never change, so a function that is still the same object keeps its types.
    """

    functions: Mapping[str, Function]
    types: Mapping[str, TypeData]


@dataclass(frozen=True, slots=True)
class Module:
    """Functions and data types in the order of their definition.

    `library` names the definitions that came from the prelude: they are no entries and are not
    printed by default, unless the module is `altered`: a pass gave one of them another body, so
    that a reader of the text would have another program. `inferred` is what the last type inference
    left, for the next one to start from.
    """

    functions: Mapping[str, Function] = field(default_factory=dict)
    types: Mapping[str, TypeData] = field(default_factory=dict)
    library: frozenset[str] = frozenset()
    attrs: Attrs = NO_ATTRS
    inferred: Inferred | None = field(default=None, compare=False, repr=False, kw_only=True)
    altered: bool = field(default=False, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "functions", MappingProxyType(dict(self.functions)))
        object.__setattr__(self, "types", MappingProxyType(dict(self.types)))

    def __repr__(self) -> str:
        functions = quantity(len(self.functions), "function")
        return f"<Module of {functions}, {quantity(len(self.types), 'type')}>"

    def __str__(self) -> str:
        """Return the text of the program, without what came as it is from the prelude."""
        from relayvm.ir.printer import print_module

        return print_module(self)

    def __copy__(self) -> Module:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        """Return an equal module with arrays of its own; operators stay the same objects."""
        make, parts = self.__reduce__()
        return make(*parts)

    def __reduce__(self) -> tuple[Callable[..., Module], tuple[str, tuple[Op, ...]]]:
        """Return the JSON text, as nodes may nest deep, and the operators, which know themselves
        how a pickle finds them again.
        """
        from relayvm.ir.json import save_json
        from relayvm.ir.visit import post_order

        nodes = chain.from_iterable(post_order(f) for f in self.functions.values())
        operators = dict.fromkeys(node for node in nodes if isinstance(node, Op))
        return _of_json, (save_json(self), tuple(operators))

    def __getitem__(self, name: str) -> Function:
        """Return a function; raises RelayError `unknown-function`."""
        if name not in self.functions:
            known = ", ".join(f"`@{n}`" for n in self.functions if n not in self.library)
            raise error(
                "unknown-function",
                f"the module has no function `@{name}`; it has {known or 'none'}",
            )
        return self.functions[name]

    def with_functions(self, functions: Mapping[str, Function]) -> Module:
        """Return the module with exactly these functions; `self` if all are the same objects."""
        same = functions.keys() == self.functions.keys()
        if same and all(functions[name] is self.functions[name] for name in functions):
            return self
        return replace(self, functions=functions)

    def with_types(self, types: Mapping[str, TypeData]) -> Module:
        """Return the module with exactly these data types."""
        return replace(self, types=types)

    def constructor(self, type_name: str, name: str) -> Constructor:
        """Return a constructor by the names of its type and its own; raises RelayError
        `unknown-constructor`.
        """
        data = self.types.get(type_name)
        for constructor in data.constructors if data else ():
            if constructor.name == name:
                return constructor
        raise error(
            "unknown-constructor", f"the module has no constructor `{name}` of type `{type_name}`"
        )


def _of_json(text: str, operators: tuple[Op, ...]) -> Module:
    from relayvm.ir.json import load_json

    result = load_json(text, {op.name: op for op in operators})
    assert isinstance(result, Module)
    return result
