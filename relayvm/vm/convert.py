"""Conversion between Python values and those of the machine, both ways.

Arrays are copied in both directions; data-type values, references and closures stay native
objects. Nothing here recurses along a value or a type.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dtypes import BFLOAT16, BY_CODE, BY_NAME, DType
from relayvm.base.narrow.stored import widened
from relayvm.vm.arrays import array_argument, buffer_of, host_dtype, wrong
from relayvm.vm.building import Builder
from relayvm.vm.library import ffi, lib
from relayvm.vm.manifest import Constructor, DataType, ValueType
from relayvm.vm.program import LayoutKind
from relayvm.vm.sizes import Pairs
from relayvm.vm.values import (
    NO_SIZES,
    Closure,
    DataValue,
    NativeValue,
    Reference,
    Sizes,
    TypedValue,
    TypeNamespace,
)

if TYPE_CHECKING:
    from relayvm.vm.executable import Executable
    from relayvm.vm.machine import VirtualMachine

TENSOR, CELL, REFERENCE, ARRAY = 1, 2, 3, 4
WORD_CLASS = 0
_HELD_BY_PYTHON = ("tuple", "array")
# Pairs of types, and sizes of functions, of which it is kept how they fit.
MOST_PAIRS = 256


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


class Converter(Builder[int]):
    """Converts values of one executable; shared by all machines over it."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self.program = executable.handle
        self.types = {t.name: t for t in executable.manifest.types}
        self._layouts: dict[int, LayoutRow] = {}
        self._pairs: OrderedDict[tuple[object, ...], Pairs] = OrderedDict()

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
        return self.build(value, type_, where)

    def to_place(self, value: Any, type_: ValueType, is_word: bool, where: str) -> int:
        """Return the word, or an owned object, that stands for `value` in a field or register."""
        return self.flat(value, type_, True, where) if is_word else self.build(value, type_, where)

    def flat(self, value: Any, type_: ValueType, is_word: bool, where: str) -> int:
        if is_word:
            if type_.kind != "tensor" or type_.dims:
                raise error("bad-executable", f"the manifest gives {where} the type `{type_.text}`")
            return to_word(value, type_, where)
        match type_.kind:
            case "tensor":
                return self._tensor_object(value, type_, where)
            case "function":
                return self._closure_object(value, type_, where)
        raise error("bad-executable", f"the manifest has a type of unknown kind `{type_.kind}`")

    def _tensor_object(self, value: Any, type_: ValueType, where: str) -> int:
        array = array_argument(value, type_, where, {})
        dims = ffi.new("int64_t[]", list(array.shape))
        code = BY_NAME[type_.dtype].code
        data = buffer_of(array) if array.size else ffi.NULL
        return owned(lib.rvm_value_new_tensor(code, array.ndim, dims, data))

    def _closure_object(self, value: Any, type_: ValueType, where: str) -> int:
        if not isinstance(value, Closure) or not self._is_mine(value):
            raise wrong(where, type_, value)
        if self.layout(value.layout).signature != type_.signature:
            raise wrong(where, type_, value)
        return self._of_sizes(value, type_, where)

    def _of_sizes(self, value: TypedValue, type_: ValueType, where: str) -> int:
        """Return the object of a value with the layout of `type_`, with one more count.

        Raises RelayError `wrong-argument` if it has not the sizes that `type_` declares.
        """
        given = value.type
        if given is type_ or (given.kind == "data" and given.name == type_.name):
            return value.retained()
        key = id(given), id(type_), *sorted(value.sizes.items())
        pairs = self._pairs.pop(key, None)
        if pairs is None:  # It keeps both types alive.
            pairs = Pairs(self.data_type, given, type_, value.sizes)
            while len(self._pairs) >= MOST_PAIRS:
                self._pairs.popitem(last=False)
        self._pairs[key] = pairs
        if not pairs.accept(value.address):
            pairs.refuse(value, where)
        return value.retained()

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

    def drop(self, made: Sequence[int], words: Sequence[bool]) -> None:
        for item, is_word in zip(made, words):
            if not is_word:
                lib.rvm_value_release(item)

    def _is_mine(self, value: NativeValue) -> bool:
        return bool(value.converter.program == self.program)

    def ready_data(self, value: Any, type_: ValueType, where: str) -> int | None:
        if isinstance(value, DataValue) and self._is_mine(value):
            constructors = self.data_type(type_.name).constructors
            if 0 <= value.layout - constructors[0].layout < len(constructors):
                return self._of_sizes(value, type_, where)
        return None

    def ready_reference(self, value: Any, type_: ValueType, where: str) -> int | None:
        if not isinstance(value, Reference):
            return None
        if not self._is_mine(value):
            help = "it is of another program: read it there, and give its value"
            raise wrong(where, type_, value, help)
        if value.layout != type_.layout:
            raise wrong(where, type_, value)
        return self._of_sizes(value, type_, where)

    def content(self, value: Any) -> Any:
        return value

    def new_tuple(self, type_: ValueType, made: list[int]) -> int:
        return self._cell(type_.layout, made)

    def new_data(
        self, data_type: DataType, constructor: Constructor, made: list[int], value: Any
    ) -> int:
        return self._cell(constructor.layout, made)

    def new_reference(self, type_: ValueType, content: int, value: Any) -> int:
        return owned(lib.rvm_value_new_reference(self.program, type_.layout, content))

    def new_array(self, type_: ValueType, made: list[int]) -> int:
        given = ffi.new("uint64_t[]", made)
        return owned(lib.rvm_value_new_array(self.program, type_.layout, given, len(made)))

    def new_list(
        self, data_type: DataType, shape: tuple[Constructor, Constructor, int], made: list[int]
    ) -> int:
        nil, cons, item = shape
        given, count = ffi.new("uint64_t[]", made), len(made)
        return owned(
            lib.rvm_value_new_list(self.program, nil.layout, cons.layout, item, given, count)
        )

    def construct(
        self,
        type_: ValueType,
        constructor: Constructor,
        words: tuple[bool, ...],
        names: tuple[str, ...],
        values: Any,
    ) -> DataValue:
        """Return a data-type value of as many fields as it has, which `names` names in errors."""
        made = self.collect(values, constructor.fields, words, names)
        item = self._cell(constructor.layout, made)
        return DataValue(self, item, constructor.layout, type_, None)

    # --- machine to Python ------------------------------------------------------------------------

    def to_python(
        self,
        item: int,
        type_: ValueType,
        machine: VirtualMachine | None,
        sizes: Sizes = NO_SIZES,
    ) -> Any:
        """Return the Python value of an object, which is consumed.

        `sizes` are the numbers of names in its type, where it may have functions.
        """
        info = ffi.new("rvm_value_info *")
        lib.rvm_value_inspect(item, info)
        if info.kind == TENSOR:
            return take_array(item, info)
        if info.kind == REFERENCE:
            return Reference(self, item, info.layout, type_, machine, sizes)
        if info.kind != ARRAY and info.layout_kind == LayoutKind.CONSTRUCTOR:
            return DataValue(self, item, info.layout, type_, machine, sizes)
        if info.kind != ARRAY and info.layout_kind == LayoutKind.CLOSURE:
            return Closure(self, item, info.layout, type_, machine, sizes)
        return self._nested_value(item, type_, machine, sizes)

    def _nested_value(
        self, item: int, type_: ValueType, machine: VirtualMachine | None, sizes: Sizes
    ) -> Any:
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
                    frame.values.append(self.from_place(word, kind, is_word, machine, sizes))
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
        self,
        item: int,
        type_: ValueType,
        is_word: bool,
        machine: VirtualMachine | None,
        sizes: Sizes,
    ) -> Any:
        """Return the value of a word, or of an object that is consumed."""
        if not is_word:
            return self.to_python(item, type_, machine, sizes)
        if type_.kind != "tensor" or type_.dims:
            raise error("bad-executable", f"the manifest calls a number `{type_.text}`")
        return from_word(item, type_)

    def lent_fields(
        self,
        item: int,
        words: Sequence[bool],
        types: Sequence[ValueType],
        machine: VirtualMachine | None,
        sizes: Sizes,
    ) -> tuple[Any, ...]:
        """Return the fields of a cell that the caller keeps."""
        fields = ffi.new("uint64_t[]", len(words) or 1)
        lib.rvm_value_fields(item, fields)
        values = []
        for i, (is_word, type_) in enumerate(zip(words, types)):
            if not is_word:
                lib.rvm_value_retain(fields[i])
            values.append(self.from_place(fields[i], type_, is_word, machine, sizes))
        return tuple(values)

    def constructor(self, type_name: str, layout: int) -> Constructor:
        """Return the constructor of a layout number in a data type."""
        data_type = self.types.get(type_name)
        for constructor in data_type.constructors if data_type else ():
            if constructor.layout == layout:
                return constructor
        message = f"the manifest has no constructor of layout {layout} in `{type_name}`"
        raise error("bad-executable", message)


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
