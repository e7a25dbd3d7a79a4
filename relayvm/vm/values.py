"""Values that a program returned and that stay native objects: data, functions, references.

Passing one back costs nothing. Conversion is `convert`'s job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.vm.arrays import describe
from relayvm.vm.library import ffi, lib
from relayvm.vm.manifest import Constructor, DataType, ValueType
from relayvm.vm.program import LayoutKind

if TYPE_CHECKING:
    from relayvm.vm.convert import Converter
    from relayvm.vm.machine import VirtualMachine

Sizes = Mapping[str, int]
NO_SIZES: Sizes = MappingProxyType({})

REPR_DEPTH = 3
REPR_FIELDS = 8


class NativeValue:
    """A value that stays a native object; holds one count of it and one of the program."""

    __slots__ = ("_item", "converter", "layout", "machine")

    def __init__(
        self,
        converter: Converter,
        item: int,
        layout: int,
        machine: VirtualMachine | None = None,
    ) -> None:
        self.converter = converter
        self.layout = layout
        self.machine = machine
        lib.rvm_program_retain(converter.program)  # a cycle may be collected program first
        self._item = item

    @property
    def address(self) -> int:
        """The object, lent: the same number for the same object as long as a value holds it."""
        return self._item

    def retained(self) -> int:
        """Return the object with one more count, which the caller owns."""
        lib.rvm_value_retain(self._item)
        return self._item

    def __copy__(self) -> NativeValue:
        return self  # a copied handle would drop the object twice

    def __reduce_ex__(self, protocol: Any) -> Any:
        kind = type(self).__name__
        raise TypeError(f"a {kind} is neither pickled nor deeply copied: it lives in its program")

    def __del__(self) -> None:
        # Neither at module teardown nor where the constructor raised.
        if lib is not None and hasattr(self, "_item"):
            lib.rvm_value_drop(self._item, self.converter.program)


class TypedValue(NativeValue):
    """A value that knows its type: the layout alone does not tell it, as types of several sizes
    have one. `sizes` are the numbers of names in it, where functions may need them.
    """

    __slots__ = ("sizes", "type")

    def __init__(
        self,
        converter: Converter,
        item: int,
        layout: int,
        type_: ValueType,
        machine: VirtualMachine | None,
        sizes: Sizes = NO_SIZES,
    ) -> None:
        super().__init__(converter, item, layout, machine)
        self.type = type_
        self.sizes = sizes


class DataValue(TypedValue):
    """A value of a data type: `constructor`, `type_name`, `tag` and `fields`.

    Immutable. Field arrays are fresh copies at each access. Two values are equal if their
    constructors and fields are; NaN differs from itself, as in numpy.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    @property
    def constructor(self) -> str:
        """The name of the constructor."""
        return self.converter.layout(self.layout).name

    @property
    def type_name(self) -> str:
        """The name of the data type, as in `List[int32]`."""
        return self.type.name

    @property
    def tag(self) -> int:
        """The number of the constructor in its data type."""
        return self.converter.layout(self.layout).tag

    @property
    def fields(self) -> tuple[Any, ...]:
        """The values of the fields, in order."""
        types = self.converter.constructor(self.type.name, self.layout).fields
        words = self.converter.field_words(self.layout, LayoutKind.CONSTRUCTOR, types)
        return self.converter.lent_fields(self._item, words, types, self.machine, self.sizes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DataValue):
            return NotImplemented
        same = lib.rvm_value_equal(self._item, other._item)
        if same < 0:
            raise error("out-of-memory", "there is no memory to compare values")
        return bool(same)

    def __repr__(self) -> str:
        return _show(self, REPR_DEPTH)


def _show(value: Any, depth: int) -> str:
    if isinstance(value, DataValue):
        row = value.converter.layout(value.layout)
        if not row.words:
            return row.name
        return f"{row.name}({_show_all(value.fields, depth) if depth else '...'})"
    if isinstance(value, np.ndarray):
        return repr(value.item()) if value.ndim == 0 else describe(value).strip("`")
    if isinstance(value, (tuple, list)):
        return f"({_show_all(value, depth) if depth else '...'})"
    return repr(value)


def _show_all(values: Sequence[Any], depth: int) -> str:
    shown = [_show(v, depth - 1) for v in values[:REPR_FIELDS]]
    return ", ".join(shown + ["..."] * (len(values) > REPR_FIELDS))


class Closure(TypedValue):
    """A function value that a program returned; call it like a Python function.

    It runs on the machine that returned it.
    """

    __slots__ = ()

    def __call__(self, *args: Any) -> Any:
        if self.machine is None:
            raise error("wrong-argument", "a function value of no machine cannot be called")
        return self.machine.call_closure(self, args)

    def __repr__(self) -> str:
        return f"<function {self.type.text}>"


class Reference(TypedValue):
    """A mutable cell shared with programs: `read()` its value, `write(value)` another."""

    __slots__ = ()

    def _word_content(self) -> bool:
        fields = self.type.fields
        return self.converter.field_words(self.layout, LayoutKind.REF, fields)[0]

    def read(self) -> Any:
        """Return the present value; raises RelayError `empty-reference` while it is taken out."""
        contents = self.contents()
        if not contents:
            raise error("empty-reference", "the reference has no value at present")
        return contents[0]

    def contents(self) -> tuple[Any, ...]:
        """Return the present value, if there is one."""
        is_word = self._word_content()
        content = ffi.new("uint64_t *")
        if not lib.rvm_value_read_reference(self._item, content):
            return ()
        type_ = self.type.fields[0]
        convert = self.converter.from_place
        return (convert(content[0], type_, is_word, self.machine, self.sizes),)

    def write(self, value: Any) -> None:
        """Replace the value; raises RelayError `wrong-argument`."""
        is_word = self._word_content()
        where = "the content of a reference"
        content = self.converter.to_place(value, self.type.fields[0], is_word, where)
        if not lib.rvm_value_write_reference(self._item, content, self.converter.program):
            raise error("out-of-memory", "there is no memory for a value")

    def __repr__(self) -> str:
        return f"<{self.type.text}>"


class TypeNamespace:
    """The constructors of a data type as attributes; calling one builds a value."""

    def __init__(self, converter: Converter, data_type: DataType) -> None:
        self._data_type = data_type
        first = data_type.constructors[0].layout if data_type.constructors else -1
        name = data_type.name
        type_ = ValueType("data", name, layout=first, name=name)
        for row in data_type.constructors:
            self.__dict__[row.name] = ConstructorFunction(converter, type_, row)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"`{self._data_type.name}` has no constructor `{name}`")

    def __dir__(self) -> list[str]:
        return [c.name for c in self._data_type.constructors]

    def __repr__(self) -> str:
        return f"<data type {self._data_type.name}: {', '.join(dir(self))}>"


class ConstructorFunction:
    """Builds values of one constructor; fields are checked and converted like arguments.

    Where it has no fields it may be passed itself, for the one value that it builds.
    """

    def __init__(self, converter: Converter, type_: ValueType, constructor: Constructor) -> None:
        self._converter = converter
        self._type = type_
        self._type_name = type_.name
        self._constructor = constructor
        fields = constructor.fields
        self._names = tuple(f"field {i} of `{constructor.name}`" for i in range(len(fields)))
        self._words = converter.field_words(constructor.layout, LayoutKind.CONSTRUCTOR, fields)

    def __call__(self, *fields: Any) -> DataValue:
        count = len(self._words)
        if len(fields) != count:
            raise error(
                "wrong-argument",
                f"`{self._constructor.name}` of `{self._type_name}` takes {count} "
                f"field{'s' * (count != 1)}, {len(fields)} given",
            )
        made_of = self._constructor, self._words, self._names
        return self._converter.construct(self._type, *made_of, fields)

    def alone(self, type_: ValueType, where: str) -> DataValue:
        """Return the value that the constructor itself stands for in a place of `type_`.

        Raises RelayError `wrong-argument` if it is of another type or has fields.
        """
        if self._words or self._type_name != type_.name:
            name = f"`{self._constructor.name}` of `{self._type_name}`"
            message = f"{where} is `{type_.text}`, but the constructor {name} was given"
            fits = self._type_name == type_.name
            raise error("wrong-argument", message, help="call it with its fields" if fits else "")
        return self()

    def __repr__(self) -> str:
        fields = ", ".join(f.text for f in self._constructor.fields)
        return f"<{self._type_name}.{self._constructor.name}({fields})>"
