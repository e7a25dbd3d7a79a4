"""Which values of Python stand for which types, and how errors name the places inside them.

What is made of them, a `Builder` says: objects of the machine in `convert`, values of the evaluator
in the compiler. Nothing here recurses along a value or a type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from relayvm.base.diagnostics import quantity
from relayvm.vm.arrays import wrong
from relayvm.vm.manifest import Constructor, DataType, ValueType, list_shape
from relayvm.vm.program import LayoutKind
from relayvm.vm.values import ConstructorFunction

# Values of these have no parts; `any` is the type of what is not known, which only evaluators have.
_FLAT = ("tensor", "function", "any")
_LONGEST_NAME = 200

Made = TypeVar("Made")


class Builder(ABC, Generic[Made]):
    """Makes values of types out of those of Python; raises RelayError `wrong-argument`."""

    @abstractmethod
    def data_type(self, name: str) -> DataType:
        """Return a data type by the name that its types have."""

    @abstractmethod
    def field_words(
        self, layout: int, kind: LayoutKind, types: Sequence[ValueType]
    ) -> tuple[bool, ...]:
        """Return which fields of a layout are words."""

    @abstractmethod
    def flat(self, value: Any, type_: ValueType, is_word: bool, where: str) -> Made:
        """Return the value of a type that has no parts."""

    @abstractmethod
    def ready_data(self, value: Any, type_: ValueType, where: str) -> Made | None:
        """Return what `value` already is, None for what is to be made of its fields."""

    @abstractmethod
    def ready_reference(self, value: Any, type_: ValueType, where: str) -> Made | None:
        """Return what `value` already is, None for what is to be made of its content."""

    @abstractmethod
    def content(self, value: Any) -> Any:
        """Return the content of a reference to be made of `value`."""

    @abstractmethod
    def new_tuple(self, type_: ValueType, made: list[Made]) -> Made:
        """Return a tuple of fields, which are consumed, as in all below."""

    @abstractmethod
    def new_data(
        self, data_type: DataType, constructor: Constructor, made: list[Made], value: Any
    ) -> Made:
        """Return a value of a data type, made of `value`."""

    @abstractmethod
    def new_reference(self, type_: ValueType, content: Made, value: Any) -> Made:
        """Return a reference, made of `value`."""

    @abstractmethod
    def new_array(self, type_: ValueType, made: list[Made]) -> Made:
        """Return an array of items."""

    @abstractmethod
    def new_list(
        self, data_type: DataType, shape: tuple[Constructor, Constructor, int], made: list[Made]
    ) -> Made:
        """Return a list-like value: its empty constructor, the other one and the item's place."""

    def name_of(self, constructor: Any) -> Any:
        """Return the name that data types have for the constructor of a value."""
        return constructor

    def drop(self, made: Sequence[Made], words: Sequence[bool]) -> None:
        """Give up values that are made, where an error ends the work."""

    # --- what opens a value -----------------------------------------------------------------------

    def build(self, value: Any, type_: ValueType, where: str) -> Made:
        """Return what is made of `value`; `where` names it in errors."""
        if type_.kind in _FLAT:
            return self.flat(value, type_, False, where)
        opened = self._open(value, type_, where)
        if not isinstance(opened, _Frame):
            return opened
        stack = [opened]
        try:
            while True:
                frame = stack[-1]
                i = len(frame.made)
                if i == len(frame.values):
                    stack.pop()
                    made = frame.finish(frame.made)
                    if not stack:
                        return made
                    stack[-1].made.append(made)
                    continue
                item, item_type = frame.values[i], frame.types[i]
                if item_type.kind in _FLAT:
                    part = self.flat(item, item_type, frame.words[i], frame.name(i))
                    frame.made.append(part)
                    continue
                opened = self._open(item, item_type, frame.name(i))
                if isinstance(opened, _Frame):
                    stack.append(opened)
                else:
                    frame.made.append(opened)
        except BaseException:
            for frame in stack:
                self.drop(frame.made, frame.words)
            raise

    def _open(self, value: Any, type_: ValueType, where: str) -> Made | _Frame[Made]:
        """Return what has no parts that are open still, else a frame to make its fields."""
        match type_.kind:
            case "tuple":
                return self._open_tuple(value, type_, where)
            case "ref":
                return self._open_reference(value, type_, where)
            case "array":
                return self._open_array(value, type_, where)
        ready = self.ready_data(value, type_, where)
        if ready is not None:
            return ready
        if isinstance(value, (list, tuple)) and not hasattr(value, "constructor_in"):
            return self._open_list(value, type_, where)
        return self._open_constructor(value, type_, where)

    def _open_tuple(self, value: Any, type_: ValueType, where: str) -> Made | _Frame[Made]:
        words = self.field_words(type_.layout, LayoutKind.TUPLE, type_.fields)
        if not isinstance(value, (tuple, list)) or len(value) != len(words):
            raise wrong(where, type_, value)
        if getattr(value, "tag", 0):
            raise wrong(where, type_, value, "the tag of a tuple is 0")
        if all(field.kind in _FLAT for field in type_.fields):
            names = (f"field {i} of {where}" for i in range(len(words)))
            return self.new_tuple(type_, self.collect(value, type_.fields, words, names))

        def finish(made: list[Made]) -> Made:
            return self.new_tuple(type_, made)

        return _Frame(value, type_.fields, words, where, "field {} of {}", finish)

    def collect(
        self,
        values: Sequence[Any],
        types: Sequence[ValueType],
        words: Sequence[bool],
        names: Iterable[str],
    ) -> list[Made]:
        """Return what is made of fields; on failure those that are made are dropped."""
        made: list[Made] = []
        try:
            for value, type_, is_word, name in zip(values, types, words, names):
                if is_word or type_.kind in _FLAT:
                    made.append(self.flat(value, type_, is_word, name))
                else:
                    made.append(self.build(value, type_, name))
        except BaseException:
            self.drop(made, words)
            raise
        return made

    def _open_reference(self, value: Any, type_: ValueType, where: str) -> Made | _Frame[Made]:
        words = self.field_words(type_.layout, LayoutKind.REF, type_.fields)
        ready = self.ready_reference(value, type_, where)
        if ready is not None:
            return ready

        def finish(made: list[Made]) -> Made:
            return self.new_reference(type_, made[0], value)

        content = (self.content(value),)
        return _Frame(content, type_.fields, words, where, "the content of {1}", finish)

    def _open_array(self, value: Any, type_: ValueType, where: str) -> Made | _Frame[Made]:
        words = self.field_words(type_.layout, LayoutKind.ARRAY, type_.fields)
        if not isinstance(value, (tuple, list)):
            raise wrong(where, type_, value)

        def finish(made: list[Made]) -> Made:
            return self.new_array(type_, made)

        return self._open_items(value, type_.fields[0], words[0], where, finish)

    def _open_list(self, value: Sequence[Any], type_: ValueType, where: str) -> Made | _Frame[Made]:
        """Open a list of Python for a list-like data type."""
        data_type = self.data_type(type_.name)
        shape = _list_shape(data_type)
        if shape is None:
            raise wrong(where, type_, value)
        nil, cons, item = shape
        words = self.field_words(cons.layout, LayoutKind.CONSTRUCTOR, cons.fields)
        self.field_words(nil.layout, LayoutKind.CONSTRUCTOR, ())

        def finish(made: list[Made]) -> Made:
            return self.new_list(data_type, (nil, cons, item), made)

        return self._open_items(value, cons.fields[item], words[item], where, finish)

    def _open_items(
        self,
        values: Sequence[Any],
        type_: ValueType,
        is_word: bool,
        where: str,
        finish: Callable[[list[Made]], Made],
    ) -> Made | _Frame[Made]:
        """Return what `finish` makes of items of one type, or a frame for those that nest."""
        if type_.kind in _FLAT:
            return finish(self._items(values, type_, is_word, where))
        types, words = (type_,) * len(values), (is_word,) * len(values)
        return _Frame(values, types, words, where, "item {} of {}", finish)

    def _items(
        self, values: Sequence[Any], type_: ValueType, is_word: bool, where: str
    ) -> list[Made]:
        """Convert items of one type; an error names the item."""
        made: list[Made] = []
        try:
            for value in values:
                made.append(self.flat(value, type_, is_word, where))
        except BaseException:
            if not is_word:
                self.drop(made, (False,) * len(made))
            self.flat(values[len(made)], type_, is_word, f"item {len(made)} of {where}")
            raise
        return made

    def _open_constructor(self, value: Any, type_: ValueType, where: str) -> _Frame[Made]:
        """Open anything with `fields`, and `constructor` or `constructor_in`: a function of the
        data type's name and its constructors' names."""
        data_type = self.data_type(type_.name)
        if isinstance(value, ConstructorFunction):
            value = value.alone(type_, where)
        name, fields = getattr(value, "constructor", None), getattr(value, "fields", None)
        name = self.name_of(getattr(name, "name", name))
        if (choose := getattr(value, "constructor_in", None)) is not None:
            name = choose(data_type.name, [c.name for c in data_type.constructors])
        for constructor in data_type.constructors:
            if constructor.name == name and fields is not None:
                if len(fields) != len(constructor.fields):
                    takes = quantity(len(constructor.fields), "field")
                    raise wrong(where, type_, value, f"`{name}` takes {takes}")
                return self._fields(value, fields, data_type, constructor, where)
        raise wrong(where, type_, value)

    def _fields(
        self,
        value: Any,
        fields: Sequence[Any],
        data_type: DataType,
        constructor: Constructor,
        where: str,
    ) -> _Frame[Made]:
        """Return a frame for the fields of a constructor."""
        types = constructor.fields
        words = self.field_words(constructor.layout, LayoutKind.CONSTRUCTOR, types)
        names = f"field {{}} of `{constructor.name}` in {{}}"

        def finish(made: list[Made]) -> Made:
            return self.new_data(data_type, constructor, made, value)

        return _Frame(tuple(fields), types, words, where, names, finish)


@dataclass(slots=True)
class _Frame(Generic[Made]):
    """An object whose fields are being made; `finish` consumes them."""

    values: Sequence[Any]
    types: Sequence[ValueType]
    words: Sequence[bool]
    where: str
    names: str
    finish: Callable[[list[Made]], Made]
    made: list[Made] = field(default_factory=list)

    def name(self, index: int) -> str:
        """Return what names a field in errors; far inside it is the name of what is around."""
        if len(self.where) > _LONGEST_NAME:
            return self.where
        return self.names.format(index, self.where)


def _list_shape(data_type: DataType) -> tuple[Constructor, Constructor, int] | None:
    """Return the empty constructor, the other one and the number of its item, if list-like."""
    constructors = data_type.constructors
    shape = list_shape([[f.name == data_type.name for f in c.fields] for c in constructors])
    if shape is None:
        return None
    nil, cons, item = shape
    return constructors[nil], constructors[cons], item
