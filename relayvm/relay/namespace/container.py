"""`tvm.runtime.container`: values that hold others, which are Python's own."""

from __future__ import annotations

from relayvm.relay.lazy import absent
from relayvm.relay.values import ADT, tuple_object

__all__ = ["ADT", "Array", "Map", "ShapeTuple", "String", "tuple_object"]

String = str
Array = list
Map = dict


class ShapeTuple(tuple[int, ...]):
    """A shape as a value."""

    __slots__ = ()


__getattr__ = absent("relayvm.runtime.container")
