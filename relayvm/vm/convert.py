"""Conversion between Python values and those of the machine, both ways.

Arrays are copied in both directions; data-type values, references and closures stay native
objects. Nothing here recurses along a value or a type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dtypes import BFLOAT16, BY_CODE, BY_NAME, DType
from relayvm.base.narrow.stored import widened
from relayvm.vm.arrays import array_argument, buffer_of, host_dtype, wrong
from relayvm.vm.library import ffi, lib
from relayvm.vm.manifest import Constructor, DataType, ValueType, list_shape
from relayvm.vm.program import LayoutKind
from relayvm.vm.values import (
    Closure,
    ConstructorFunction,
    DataValue,
    NativeValue,
    Reference,
    TypeNamespace,
)

if TYPE_CHECKING:
    from relayvm.vm.executable import Executable
    from relayvm.vm.machine import VirtualMachine

TENSOR, CELL, REFERENCE, ARRAY = 1, 2, 3, 4
WORD_CLASS = 0
_FLAT = ("tensor", "function")
_HELD_BY_PYTHON = ("tuple", "array")
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """A layout as the executable's C tables hold it; `words[i]` says whether field i is a word."""

    kind: LayoutKind
    name: str
    type_name: str
    tag: int
    words: tuple[bool, ...]
    dtypes: tuple[DType | None, ...]
    function: int
    signature: int


class Converter:
    """Converts values of one executable; shared by all machines over it."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self.program = executable.handle
        self.types = {t.name: t for t in executable.manifest.types}
        self._layouts: dict[int, LayoutRow] = {}
        self._constructors = {
            c.layout: (t, c) for t in executable.manifest.types for c in t.constructors
        }

    def layout(self, number: int) -> LayoutRow:
        """Return a layout by number; raises RelayError `bad-executable` where there is none."""
        row = self._layouts.get(number)
        if row is None:
            row = self._layouts[number] = self._read_layout(number)
        return row

    def _read_layout(self, number: int) -> LayoutRow:
        info = ffi.new("rvm_layout_info *")
        if number < 0 or not lib.rvm_program_layout(self.program, number, info):
            raise error("bad-executable", f"the manifest names layout {number}, which is missing")
        fields = range(info.num_fields)
        return LayoutRow(
            LayoutKind(info.kind),
            ffi.string(info.name).decode(),
            ffi.string(info.type_name).decode(),
            info.constructor,
            tuple(info.field_class[i] == WORD_CLASS for i in fields),
            tuple(BY_CODE.get(info.field_dtype[i]) for i in fields),
            info.function,
            info.signature,
        )

    def data_type(self, name: str) -> DataType:
        """Return a data type by name; raises RelayError `unknown-type`."""
        if name in self.types:
            return self.types[name]
        # `List[Tensor[(3,),float32]]` and `List[Tensor[(3), float32]]` name one type.
        for known, data_type in self.types.items():
            if _bare(known) == _bare(name):
                return data_type
        names = ", ".join(f"`{n}`" for n in self.types) or "none"
        raise error("unknown-type", f"there is no data type `{name}`; there are {names}")

    # --- Python to machine ------------------------------------------------------------------------

    def to_object(self, value: Any, type_: ValueType, where: str) -> int:
        """Return an owned object for `value`; `where` names it in errors."""
        match type_.kind:
            case "tensor":
                return self._tensor_object(value, type_, where)
            case "function":
                return self._closure_object(value, type_, where)
            case "tuple" | "data" | "ref" | "array":
                return self._nested_object(value, type_, where)
        raise error("bad-executable", f"the manifest has a type of unknown kind `{type_.kind}`")

    def to_place(self, value: Any, type_: ValueType, is_word: bool, where: str) -> int:
        """Return the word, or an owned object, that stands for `value` in a field or register."""
        if not is_word:
            return self.to_object(value, type_, where)
        if type_.kind != "tensor" or type_.dims:
            raise error("bad-executable", f"the manifest gives {where} the type `{type_.text}`")
        return to_word(value, type_, where)

    def _tensor_object(self, value: Any, type_: ValueType, where: str) -> int:
        array = array_argument(value, type_, where, {})
        dims = ffi.new("int64_t[]", list(array.shape))
        code = BY_NAME[type_.dtype].code
        data = buffer_of(array) if array.size else ffi.NULL
        return owned(lib.rvm_value_new_tensor(code, array.ndim, dims, data))

    def field_words(
        self, layout: int, kind: LayoutKind, types: Sequence[ValueType]
    ) -> tuple[bool, ...]:
        """Return which fields of a layout are words; raises RelayError `bad-executable`."""
        row = self.layout(layout)
        if row.kind is not kind or len(row.words) != len(types):
            raise error("bad-executable", f"the manifest and layout {layout} do not agree")
        return row.words

    def _cell(self, layout: int, words: list[int]) -> int:
        return owned(lib.rvm_value_new_cell(self.program, layout, words))

    def _collect(
        self,
        values: Sequence[Any],
        types: Sequence[ValueType],
        words: Sequence[bool],
        names: Iterable[str],
    ) -> list[int]:
        """Convert fields one by one; on failure drops those that are made."""
        made: list[int] = []
        try:
            for value, type_, is_word, name in zip(values, types, words, names):
                made.append(self.to_place(value, type_, is_word, name))
        except BaseException:
            self._drop(made, words)
            raise
        return made

    def _drop(self, made: Sequence[int], words: Sequence[bool]) -> None:
        for item, is_word in zip(made, words):
            if not is_word:
                lib.rvm_value_release(item)

    def _nested_object(self, value: Any, type_: ValueType, where: str) -> int:
        """Build an object that may hold others, without recursion."""
        opened = self._open(value, type_, where)
        if isinstance(opened, int):
            return opened
        stack = [opened]
        try:
            while True:
                frame = stack[-1]
                i = len(frame.made)
                if i == len(frame.values):
                    stack.pop()
                    made = owned(frame.finish(frame.made))
                    if not stack:
                        return made
                    stack[-1].made.append(made)
                    continue
                item, item_type = frame.values[i], frame.types[i]
                if item_type.kind in _FLAT:
                    word = self.to_place(item, item_type, frame.words[i], frame.name(i))
                    frame.made.append(word)
                    continue
                opened = self._open(item, item_type, frame.name(i))
                if isinstance(opened, int):
                    frame.made.append(opened)
                else:
                    stack.append(opened)
        except BaseException:
            for frame in stack:
                self._drop(frame.made, frame.words)
            raise

    def _open(self, value: Any, type_: ValueType, where: str) -> int | _Frame:
        """Return the object if it is there or holds no others, else a frame to make its fields."""
        match type_.kind:
            case "tuple":
                return self._open_tuple(value, type_, where)
            case "ref":
                return self._open_reference(value, type_, where)
            case "array":
                return self._open_array(value, type_, where)
        data_type = self.data_type(type_.name)
        ready = self.ready(value, data_type)
        if ready:
            return ready
        if isinstance(value, (list, tuple)) and not hasattr(value, "constructor_in"):
            return self._open_list(value, type_, where)
        return self._open_constructor(value, type_, where)

    def _open_tuple(self, value: Any, type_: ValueType, where: str) -> int | _Frame:
        words = self.field_words(type_.layout, LayoutKind.TUPLE, type_.fields)
        if not isinstance(value, (tuple, list)) or len(value) != len(words):
            raise wrong(where, type_, value)
        if all(field.kind in _FLAT for field in type_.fields):
            names = (f"field {i} of {where}" for i in range(len(words)))
            return self._cell(type_.layout, self._collect(value, type_.fields, words, names))
        return self._frame(value, type_.fields, words, where, "field {} of {}", type_.layout)

    def _frame(
        self,
        values: Sequence[Any],
        types: Sequence[ValueType],
        words: Sequence[bool],
        where: str,
        names: str,
        layout: int,
    ) -> _Frame:
        """Return a frame for the fields of a cell."""

        def finish(made: list[int]) -> int:
            return self._cell(layout, made)

        return _Frame(values, types, words, where, names, finish)

    def _closure_object(self, value: Any, type_: ValueType, where: str) -> int:
        if not isinstance(value, Closure) or not self._is_mine(value):
            raise wrong(where, type_, value)
        if self.layout(value.layout).signature != type_.signature:
            raise wrong(where, type_, value)
        return value.retained()

    def _open_reference(self, value: Any, type_: ValueType, where: str) -> int | _Frame:
        words = self.field_words(type_.layout, LayoutKind.REF, type_.fields)
        if isinstance(value, Reference):
            if not self._is_mine(value) or value.layout != type_.layout:
                raise wrong(where, type_, value)
            return value.retained()

        def finish(made: list[int]) -> int:
            return int(lib.rvm_value_new_reference(self.program, type_.layout, made[0]))

        return _Frame((value,), type_.fields, words, where, "the content of {1}", finish)

    def _open_array(self, value: Any, type_: ValueType, where: str) -> int | _Frame:
        words = self.field_words(type_.layout, LayoutKind.ARRAY, type_.fields)
        if not isinstance(value, (tuple, list)):
            raise wrong(where, type_, value)

        def finish(made: list[int]) -> int:
            given = ffi.new("uint64_t[]", made)
            return int(lib.rvm_value_new_array(self.program, type_.layout, given, len(made)))

        return self._open_items(value, type_.fields[0], words[0], where, finish)

    def _open_items(
        self,
        values: Sequence[Any],
        type_: ValueType,
        is_word: bool,
        where: str,
        finish: Callable[[list[int]], int],
    ) -> int | _Frame:
        """Return what `finish` makes of items of one type, or a frame for those that nest."""
        if type_.kind in _FLAT:
            return owned(finish(self._items(values, type_, is_word, where)))
        count = len(values)
        return _Frame(values, (type_,) * count, (is_word,) * count, where, "item {} of {}", finish)

    def _is_mine(self, value: NativeValue) -> bool:
        return bool(value.converter.program == self.program)

    def ready(self, value: Any, data_type: DataType) -> int:
        """Return the object that `value` already is here, with one more count, or 0."""
        if isinstance(value, DataValue) and self._is_mine(value):
            first = data_type.constructors[0].layout
            if first <= value.layout < first + len(data_type.constructors):
                return value.retained()
        return 0

    def _open_list(self, value: Sequence[Any], type_: ValueType, where: str) -> int | _Frame:
        """Build a list-like data type from a Python list."""
        data_type = self.data_type(type_.name)
        shape = _list_shape(data_type)
        if shape is None:
            raise wrong(where, type_, value)
        nil, cons, item = shape
        words = self.field_words(cons.layout, LayoutKind.CONSTRUCTOR, cons.fields)
        self.field_words(nil.layout, LayoutKind.CONSTRUCTOR, ())

        def finish(made: list[int]) -> int:
            given, count = ffi.new("uint64_t[]", made), len(made)
            made_list = lib.rvm_value_new_list(
                self.program, nil.layout, cons.layout, item, given, count
            )
            return int(made_list)

        return self._open_items(value, cons.fields[item], words[item], where, finish)

    def _items(
        self, values: Sequence[Any], type_: ValueType, is_word: bool, where: str
    ) -> list[int]:
        """Convert items of one type; an error names the item."""
        made: list[int] = []
        try:
            for value in values:
                made.append(self.to_place(value, type_, is_word, where))
        except BaseException:
            if not is_word:
                self._drop(made, (False,) * len(made))
            self.to_place(values[len(made)], type_, is_word, f"item {len(made)} of {where}")
            raise
        return made

    def _open_constructor(self, value: Any, type_: ValueType, where: str) -> _Frame:
        """Open anything with `fields`, and `constructor` or `constructor_in`: a function of the
        data type's name and its constructors' names."""
        data_type = self.data_type(type_.name)
        if isinstance(value, ConstructorFunction):
            value = value.alone(type_, where)
        name, fields = getattr(value, "constructor", None), getattr(value, "fields", None)
        name = getattr(name, "name", name)
        if (choose := getattr(value, "constructor_in", None)) is not None:
            name = choose(data_type.name, [c.name for c in data_type.constructors])
        for constructor in data_type.constructors:
            if constructor.name == name and fields is not None:
                if len(fields) != len(constructor.fields):
                    break
                layout, types = constructor.layout, constructor.fields
                words = self.field_words(layout, LayoutKind.CONSTRUCTOR, types)
                names = f"field {{}} of `{name}` in {{}}"
                return self._frame(tuple(fields), types, words, where, names, layout)
        raise wrong(where, type_, value)

    def construct(
        self, constructor: Constructor, words: tuple[bool, ...], names: tuple[str, ...], values: Any
    ) -> DataValue:
        """Return a data-type value of as many fields as it has, which `names` names in errors."""
        made = self._collect(values, constructor.fields, words, names)
        return DataValue(self, self._cell(constructor.layout, made), constructor.layout)

    # --- machine to Python ------------------------------------------------------------------------

    def to_python(self, item: int, type_: ValueType, machine: VirtualMachine | None) -> Any:
        """Return the Python value of an object, which is consumed."""
        info = ffi.new("rvm_value_info *")
        lib.rvm_value_inspect(item, info)
        if info.kind == TENSOR:
            return take_array(item, info)
        if info.kind == REFERENCE:
            return Reference(self, item, info.layout, type_, machine)
        if info.kind != ARRAY and info.layout_kind == LayoutKind.CONSTRUCTOR:
            return DataValue(self, item, info.layout, machine)
        if info.kind != ARRAY and info.layout_kind == LayoutKind.CLOSURE:
            return Closure(self, item, info.layout, type_, machine)
        return self._nested_value(item, type_, machine)

    def _nested_value(self, item: int, type_: ValueType, machine: VirtualMachine | None) -> Any:
        """Return the tuple or the list that an object is, without recursion."""
        stack: list[_Taken] = []
        pending: tuple[int, ValueType] | None = (item, type_)
        try:
            while True:
                if pending is not None:
                    stack.append(self._taken(*pending))
                    pending = None
                frame = stack[-1]
                if not frame.left:
                    lib.rvm_value_release(stack.pop().item)
                    value = frame.values if frame.is_list else tuple(frame.values)
                    if not stack:
                        return value
                    stack[-1].values.append(value)
                    continue
                word, kind, is_word = frame.left.pop()
                if not is_word:
                    lib.rvm_value_retain(word)
                if is_word or kind.kind not in _HELD_BY_PYTHON:
                    frame.values.append(self.from_place(word, kind, is_word, machine))
                else:
                    pending = (word, kind)
        except BaseException:
            for frame in stack:
                lib.rvm_value_release(frame.item)
            if pending is not None:
                lib.rvm_value_release(pending[0])
            raise

    def _taken(self, item: int, type_: ValueType) -> _Taken:
        """Return the frame for the fields of a tuple, or the items of an array, that is consumed
        later.
        """
        info = ffi.new("rvm_value_info *")
        lib.rvm_value_inspect(item, info)
        is_list = info.kind == ARRAY
        if type_.kind != ("array" if is_list else "tuple"):
            what = "an array" if is_list else "a tuple"
            raise error("bad-executable", f"the manifest calls {what} `{type_.text}`")
        kind = LayoutKind.ARRAY if is_list else LayoutKind.TUPLE
        words, types = self.field_words(info.layout, kind, type_.fields), type_.fields
        if is_list:
            words, types = words * info.num_fields, types * info.num_fields
        fields = ffi.new("uint64_t[]", len(words) or 1)
        lib.rvm_value_fields(item, fields)
        left = list(zip(fields, types, words))
        left.reverse()
        return _Taken(item, is_list, left, [])

    def from_place(
        self, item: int, type_: ValueType, is_word: bool, machine: VirtualMachine | None
    ) -> Any:
        """Return the value of a word, or of an object that is consumed."""
        if not is_word:
            return self.to_python(item, type_, machine)
        if type_.kind != "tensor" or type_.dims:
            raise error("bad-executable", f"the manifest calls a number `{type_.text}`")
        return from_word(item, type_)

    def lent_fields(
        self,
        item: int,
        words: Sequence[bool],
        types: Sequence[ValueType],
        machine: VirtualMachine | None,
    ) -> tuple[Any, ...]:
        """Return the fields of a cell that the caller keeps."""
        fields = ffi.new("uint64_t[]", len(words) or 1)
        lib.rvm_value_fields(item, fields)
        values = []
        for i, (is_word, type_) in enumerate(zip(words, types)):
            if not is_word:
                lib.rvm_value_retain(fields[i])
            values.append(self.from_place(fields[i], type_, is_word, machine))
        return tuple(values)

    def constructor(self, layout: int) -> tuple[DataType, Constructor]:
        """Return the data type and constructor of a layout number."""
        if layout not in self._constructors:
            raise error("bad-executable", f"the manifest has no constructor of layout {layout}")
        return self._constructors[layout]


@dataclass(slots=True)
class _Frame:
    """An object whose fields are being made; `finish` consumes them."""

    values: Sequence[Any]
    types: Sequence[ValueType]
    words: Sequence[bool]
    where: str
    names: str
    finish: Callable[[list[int]], int]
    made: list[int] = field(default_factory=list)

    def name(self, index: int) -> str:
        """Return what names a field in errors; far inside it is the name of what is around."""
        if len(self.where) > _LONGEST_NAME:
            return self.where
        return self.names.format(index, self.where)


@dataclass(slots=True)
class _Taken:
    """A tuple or an array whose fields become Python values, the last of `left` first."""

    item: int
    is_list: bool
    left: list[tuple[int, ValueType, bool]]
    values: list[Any]


def converter_of(executable: Executable) -> Converter:
    """Return the executable's converter, made on first use."""
    found = executable.__dict__.get("_converter")
    if found is None:
        found = executable.__dict__["_converter"] = Converter(executable)
    assert isinstance(found, Converter)
    return found


def owned(item: int) -> int:
    """Return a new object; raises RelayError `out-of-memory` where there is none."""
    if not item:
        raise error("out-of-memory", "there is no memory for a value")
    return item


def _list_shape(data_type: DataType) -> tuple[Constructor, Constructor, int] | None:
    """Return the empty constructor, the other one and the number of its item, if list-like."""
    constructors = data_type.constructors
    shape = list_shape([[f.name == data_type.name for f in c.fields] for c in constructors])
    if shape is None:
        return None
    nil, cons, item = shape
    return constructors[nil], constructors[cons], item


def data_type(executable: Executable, name: str) -> TypeNamespace:
    """Return the data type of this name as a namespace of constructors."""
    converter = converter_of(executable)
    return TypeNamespace(converter, converter.data_type(name))


# --- words ----------------------------------------------------------------------------------------

_PACK = {
    "float32": ("<f", "<I"),
    "float64": ("<d", "<Q"),
    "float16": ("<e", "<H"),
    "bfloat16": ("<f", "<I"),  # after widening
}


def to_word(value: Any, type_: ValueType, where: str) -> int:
    """Return the register word of a rank-0 value."""
    dtype = BY_NAME[type_.dtype]
    if type(value) is int and dtype.is_integer and dtype.min <= value <= dtype.max:
        return value & 0xFFFF_FFFF_FFFF_FFFF
    array = array_argument(value, type_, where, {})
    if dtype.is_float or dtype.is_stored:
        return int.from_bytes(array.tobytes(), "little")
    return int(array) & 0xFFFF_FFFF_FFFF_FFFF


def from_word(word: int, type_: ValueType) -> Any:
    """Return a rank-0 array of a register word."""
    dtype = BY_NAME[type_.dtype]
    data = word.to_bytes(8, "little")[: dtype.itemsize_bytes]
    return np.frombuffer(data, host_dtype(dtype)).reshape(()).copy()


def number_of_word(word: int, dtype: DType) -> int | float | bool:
    """Return a register word as a Python number."""
    if dtype.is_stored:
        stored: int | float = widened(np.array(word, np.uint8), dtype.name).item()
        return stored
    if dtype.is_float:
        value, bits = _PACK[dtype.name]
        word = word << 16 if dtype is BFLOAT16 else word
        number: float = struct.unpack(value, struct.pack(bits, word))[0]
        return number
    if dtype.is_bool:
        return bool(word)
    return word - (1 << 64) if dtype.kind == "int" and word >> 63 else word


def take_array(item: int, info: Any) -> Any:
    """Return a fresh array of a tensor object, which is consumed."""
    try:
        array = np.empty(tuple(info.dims[0 : info.rank]), host_dtype(BY_CODE[info.dtype]))
    except BaseException:
        lib.rvm_value_release(item)
        raise
    lib.rvm_value_take_data(item, buffer_of(array) if array.size else ffi.NULL)
    return array


def _bare(type_name: str) -> str:
    """Return the text of a type without what may differ between spellings."""
    return "".join(type_name.split()).replace(",)", ")")
