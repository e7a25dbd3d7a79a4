"""Arguments of the evaluator: taken and refused as those of the machine are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relayvm.base.diagnostics import error, quantity
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.host.types import LONGEST_NAME, HostTypes
from relayvm.compiler.host.values import DataValue, Reference, to_value
from relayvm.ir.adt import definition_of
from relayvm.ir.expr import Var
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, RefType, TensorType, TupleType, Type
from relayvm.vm.arrays import Symbols, array_argument, wrong
from relayvm.vm.building import Builder
from relayvm.vm.manifest import Constructor, DataType, ValueType
from relayvm.vm.program import LayoutKind
from relayvm.vm.sizes import Pairs

FitsFunction = Callable[[Any, int], bool]
TypeOfFunction = Callable[[Any], Type | None]
_MOST_PAIRS = 1000


class ArgumentTypes(HostTypes):
    """Types of parameters. A data type is described where a value of it comes: one that holds
    itself at ever larger types has no end.
    """

    def __init__(self, module: Module) -> None:
        super().__init__(module, module)
        self._kinds: dict[str, Type] = {}
        self._names: dict[object, str] = {}

    def layout_of(self, own: Type) -> int:
        return 0  # So that a constructor's number is its place in the data type.

    def signature_of(self, own: FuncType) -> int:
        return -1

    def value_type(self, kind: Type) -> ValueType:
        """Return the description of a type."""
        return trampoline(self.described(kind, kind))

    def plain_row(self, kind: Type, own: Type, text: str) -> ValueType:
        if isinstance(kind, (TensorType, TupleType, RefType, FuncType)):
            return super().plain_row(kind, own, text)
        return ValueType("any", text)

    def data_row(self, kind: Type, own: Type) -> Recursive[ValueType]:
        definition, args = definition_of(self.module, kind)
        known = len(self._names)
        name = self._names.setdefault(
            (definition.header.name, args), f"{definition.header.name}[{known}]"
        )
        self._kinds[name] = kind
        return ValueType("data", self.names.text(kind, LONGEST_NAME), layout=0, name=name)
        yield  # a routine of the trampoline, as what it stands for

    def data_type(self, name: str) -> DataType:
        """Return a data type, described when first asked for."""
        if name not in self.data_types:
            kind = self._kinds[name]
            self.data_types[name] = trampoline(self.with_constructors(kind, kind, name))
        return self.data_types[name]

    def constructor(self, data_type: DataType, constructor: Constructor) -> tuple[str, str]:
        """Return the names that values have of their constructor and its data type."""
        definition, _ = definition_of(self.module, self._kinds[data_type.name])
        return definition.constructors[constructor.layout].name, definition.header.name


def bound(
    types: ArgumentTypes,
    name: str,
    params: Sequence[Var],
    args: Sequence[Any],
    fits_function: FitsFunction,
    type_of_function: TypeOfFunction,
) -> list[Any]:
    """Return the values of all parameters of the function `name`.

    `type_of_function` is None where nothing is known of the type of a function value.
    Raises RelayError `wrong-argument`, with the place of what is wrong inside the argument.
    """
    if len(args) > len(params):
        takes = f"`{name}` takes {quantity(len(params), 'argument')}"
        raise error("wrong-argument", f"{takes}, {len(args)} given")
    missing = ", ".join(f"`{p.name}`" for p in params[len(args) :])
    if missing:
        raise error("wrong-argument", f"{missing} of `{name}` is not given")
    builder = _Arguments(types, fits_function, type_of_function)
    return [builder.argument(v, p, f"`{p.name}` of `{name}`") for p, v in zip(params, args)]


class _Arguments(Builder[Any]):
    """Makes the arguments of one call."""

    def __init__(
        self, types: ArgumentTypes, fits_function: FitsFunction, type_of_function: TypeOfFunction
    ) -> None:
        self.types = types
        self.fits_function = fits_function
        self.type_of_function = type_of_function
        self.symbols: Symbols = {}
        # By identity: what is shared stays so, and references may be reached from themselves.
        self._made: dict[tuple[int, str], tuple[Any, Any]] = {}

    def argument(self, value: Any, param: Var, where: str) -> Any:
        """Return the value of a parameter."""
        kind = param.type_annotation or param.checked_type
        if kind is None:
            return to_value(value)
        type_ = self.types.value_type(kind)
        if type_.kind == "tensor":
            return array_argument(value, type_, where, self.symbols)
        return self.build(value, type_, where)

    def data_type(self, name: str) -> DataType:
        return self.types.data_type(name)

    def name_of(self, constructor: Any) -> Any:
        return self.types.names.constructor(constructor)

    def field_words(
        self, layout: int, kind: LayoutKind, types: Sequence[ValueType]
    ) -> tuple[bool, ...]:
        return (False,) * len(types)

    def flat(self, value: Any, type_: ValueType, is_word: bool, where: str) -> Any:
        if type_.kind == "tensor":
            return array_argument(value, type_, where, {})
        if type_.kind == "any":
            return to_value(value)
        if not self.fits_function(value, len(type_.fields) - 1):
            raise wrong(where, type_, value)
        kind = self.type_of_function(value)
        if kind is not None:
            given = self.types.value_type(kind)
            if not Pairs(self.data_type, given, type_, most=_MOST_PAIRS).fits:
                message = f"{where} is `{type_.text}`, but `{given.text}` was given"
                raise error("wrong-argument", message)
        return value

    def ready_data(self, value: Any, type_: ValueType, where: str) -> Any:
        return self._made.get((id(value), type_.name), (None, None))[0]

    def ready_reference(self, value: Any, type_: ValueType, where: str) -> Any:
        if not isinstance(value, Reference):
            return None
        key = (id(value), type_.text)
        if key in self._made:
            return value
        self._made[key] = value, value
        return None

    def content(self, value: Any) -> Any:
        return value.value if isinstance(value, Reference) else value

    def new_tuple(self, type_: ValueType, made: list[Any]) -> Any:
        return tuple(made)

    def new_data(
        self, data_type: DataType, constructor: Constructor, made: list[Any], value: Any
    ) -> Any:
        name, type_name = self.types.constructor(data_type, constructor)
        result = DataValue(name, type_name, constructor.layout, tuple(made))
        self._made[id(value), data_type.name] = result, value
        return result

    def new_reference(self, type_: ValueType, content: Any, value: Any) -> Any:
        if not isinstance(value, Reference):
            return Reference(content)
        value.value = content
        return value

    def new_array(self, type_: ValueType, made: list[Any]) -> Any:
        return list(made)

    def new_list(
        self, data_type: DataType, shape: tuple[Constructor, Constructor, int], made: list[Any]
    ) -> Any:
        nil, cons, place = shape
        result = self.new_data(data_type, nil, [], made)
        for item in reversed(made):
            fields = [item, result] if place == 0 else [result, item]
            result = self.new_data(data_type, cons, fields, fields)
        return result
