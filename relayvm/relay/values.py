"""What executors give back, by TVM's names: arrays, tuples, values of data types, references and
functions.

Fields are converted when they are looked at, so that long lists cost nothing until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.compiler import evaluate
from relayvm.compiler.host import values as host
from relayvm.ir.expr import Constant, Constructor
from relayvm.ir.module import Module
from relayvm.relay.module import tag_in, tag_of
from relayvm.relay.ndarray import as_ndarray
from relayvm.vm import values as vm


class ADT(Sequence[Any]):
    """A tuple, or a value of a data type: a tag and fields."""

    def __init__(self, tag: int, fields: Sequence[Any] | Callable[[], Sequence[Any]]) -> None:
        self.tag = tag
        self._fields: Any = fields if callable(fields) else tuple(fields)

    @property
    def fields(self) -> tuple[Any, ...]:
        """The fields, in order."""
        if callable(self._fields):
            self._fields = tuple(self._fields())
        result: tuple[Any, ...] = self._fields
        return result

    def __getitem__(self, index: Any) -> Any:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fields)

    def __repr__(self) -> str:
        return f"ADT({self.tag}, {quantity(len(self), 'field')})"


class ConstructorValue(ADT):
    """A value of a data type, with the constructor that made it."""

    def __init__(
        self,
        tag: int,
        fields: Sequence[Any] | Callable[[], Sequence[Any]],
        constructor: Constructor | None,
    ) -> None:
        super().__init__(tag, fields)
        self.constructor = constructor
        self.native: Any = None

    @property
    def name_hint(self) -> str:
        """The name of the constructor."""
        return self.constructor.name if self.constructor else ""

    def __repr__(self) -> str:
        return f"ConstructorValue({self.name_hint or self.tag}, {quantity(len(self), 'field')})"


class RefValue:
    """A mutable cell: a new one, or one that a program gave back, whose value is that of now."""

    def __init__(self, value: Any) -> None:
        self.native: Any = None
        self.module: Module | None = None
        self.by_hand = True
        self._value = value
        self._given: Any = None

    @property
    def value(self) -> Any:
        """What the reference holds."""
        if isinstance(self.native, host.Reference):
            if self.by_hand and self.native.value is self._given:
                return self._value  # No program has taken it so far.
            return to_relay(self.native.value, self.module)
        if isinstance(self.native, vm.Reference):
            return to_relay(self.native.read(), self.module)
        return self._value

    def given_as(self, content: Any, module: Module) -> host.Reference:
        """Become a reference of the program that is evaluated, with this for its content."""
        self._given, self.module = content, module
        reference = self.native = host.Reference(content)
        return reference

    def __repr__(self) -> str:
        return f"RefValue({self.value!r})"


class ClosureValue:
    """A function that a program gave back; call it with what its executor takes."""

    def __init__(self, native: Any, module: Module | None) -> None:
        self.native = native
        self._module = module

    def __call__(self, *args: Any) -> Any:
        here = self._module if isinstance(self.native, evaluate.Closure) else None
        given = [to_argument(value, here) for value in args]
        return to_relay(self.native(*given), self._module)

    def __repr__(self) -> str:
        return repr(self.native)


def tuple_object(fields: Sequence[Any] | None = None) -> ADT:
    """Return a tuple of values."""
    return ADT(0, fields or ())


def to_relay(value: Any, module: Module | None) -> Any:
    """Return what an evaluator or a machine gave, as TVM's programs expect it.

    `module` knows the constructors of data types.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return as_ndarray(value)
    if isinstance(value, (tuple, list)):
        return ADT(0, lambda: [to_relay(v, module) for v in value])
    if isinstance(value, (host.DataValue, vm.DataValue)):
        return _data(value, module)
    if isinstance(value, (host.Reference, vm.Reference)):
        reference = RefValue(None)
        reference.by_hand = False
        reference.native, reference.module = value, module
        return reference
    if isinstance(value, (evaluate.Closure, vm.Closure)):
        return ClosureValue(value, module)
    return value


def _data(value: Any, module: Module | None) -> ConstructorValue:
    type_name = value.type_name.partition("[")[0]
    definition = module.types.get(type_name) if module else None
    constructors = definition.constructors if definition else ()
    constructor = next((c for c in constructors if c.name == value.constructor), None)
    tag = tag_in(type_name, value.tag)
    made = ConstructorValue(tag, lambda: [to_relay(f, module) for f in value.fields], constructor)
    made.native = value
    return made


# -- Arguments ------------------------------------------------------------------------------------


def to_argument(value: Any, evaluated: Module | None = None) -> Any:
    """Return an argument as the machine and the evaluator take it: numbers as they are, None as no
    elements, values of data types by constructor or by tag.

    A RefValue that a program made is given as it is. One made by hand is, for the program that is
    evaluated, one reference from then on; a machine gets a new one with its value.
    """
    return from_parts(value, partial(_parts, evaluated), partial(_built, evaluated))


def from_parts(
    value: Any,
    parts_of: Callable[[Any], Sequence[Any] | None],
    build: Callable[[Any, tuple[Any, ...] | None], Any],
) -> Any:
    """Return what `build` makes of a value and its parts, built before it; None for a leaf.

    Values of any depth need no recursion.
    """
    done: list[Any] = []
    pending: list[tuple[Any, int]] = [(value, -1)]
    while pending:
        item, count = pending.pop()
        if count >= 0:
            fields = tuple(done[len(done) - count :])
            del done[len(done) - count :]
            done.append(build(item, fields))
            continue
        parts = parts_of(item)
        if parts is None:
            done.append(build(item, None))
        else:
            pending.append((item, len(parts)))
            pending += [(part, -1) for part in reversed(parts)]
    return done[0]


def _parts(evaluated: Module | None, value: Any) -> Sequence[Any] | None:
    if isinstance(value, ConstructorValue) and value.native is not None:
        return None
    if isinstance(value, RefValue):
        return None if _is_reference(value, evaluated) else (value.value,)
    return value if isinstance(value, (ADT, list, tuple)) else None


def _is_reference(value: RefValue, evaluated: Module | None) -> bool:
    if value.by_hand and evaluated is None:
        return False
    return value.native is not None


def _built(evaluated: Module | None, value: Any, parts: tuple[Any, ...] | None) -> Any:
    if parts is None:
        return _leaf(value)
    if isinstance(value, ConstructorValue):
        return _Data(value.constructor, value.tag, parts)
    if isinstance(value, RefValue):
        if evaluated is None:
            return parts[0]
        return value.given_as(parts[0], evaluated)
    return _Tagged(value.tag, parts) if isinstance(value, ADT) else parts


def _leaf(value: Any) -> Any:
    if value is None:
        return np.empty(0, np.float32)
    if isinstance(value, Constant):
        return np.asarray(value.data)
    if isinstance(value, (RefValue, ClosureValue, ConstructorValue)):
        return value.native
    if isinstance(value, Constructor):
        return _Data(value, tag_of(value), ())
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    return value


class _Tagged(tuple[Any, ...]):
    """The fields of an ADT: a tuple, or a value of the data type that its place declares."""

    tag: int

    def __new__(cls, tag: int, fields: Sequence[Any]) -> _Tagged:
        made = super().__new__(cls, fields)
        made.tag = tag
        return made

    @property
    def fields(self) -> tuple[Any, ...]:
        return self

    def constructor_in(self, type_name: str, constructors: Sequence[str]) -> str | None:
        """Return the name of the constructor that the tag means in a data type."""
        name = type_name.partition("[")[0]
        return next((c for i, c in enumerate(constructors) if tag_in(name, i) == self.tag), None)


class _Data:
    """A value of a data type as engines read one: a constructor and fields."""

    __slots__ = ("constructor", "fields", "tag", "type_name")

    def __init__(self, constructor: Constructor | None, tag: int, fields: tuple[Any, ...]) -> None:
        self.constructor = constructor.name if constructor else ""
        self.type_name = constructor.belong_to.name if constructor else ""
        self.tag = constructor.index if constructor else tag
        self.fields = fields
