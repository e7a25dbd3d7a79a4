"""Buffers of one call at a time, as C reads and writes them; filled in by `call`."""

from __future__ import annotations

from typing import Any

from relayvm.vm.library import ffi


class Record:
    """Buffers of one call. `shapes` are those of the lent arrays that it took last, `views` are the
    arrays that small arguments are copied to, `copies` make arrays of small results, `sizes` are
    those that results are expected to have.
    """

    __slots__ = (
        "args",
        "arrays",
        "call",
        "copies",
        "destinations",
        "homes",
        "infos",
        "kept",
        "memory",
        "results",
        "shapes",
        "sizes",
        "slots",
        "typed",
        "views",
    )

    def __init__(self, call: Any, num_params: int, num_results: int) -> None:
        self.call = call
        self.args = ffi.new("rvm_argument[]", max(1, num_params))
        self.slots = [self.args[i] for i in range(num_params)]
        self.results = ffi.new("uint64_t[]", max(1, num_results))
        self.infos = ffi.new("rvm_value_info[]", max(1, num_results))
        self.destinations = ffi.new("rvm_destination[]", max(1, num_results))
        self.kept: list[Any] = []  # copies of arguments, alive during a call
        self.arrays: list[Any] = [None] * num_params
        self.views: tuple[Any, ...] = ()
        self.memory: list[Any] = []  # of `views`
        self.homes: list[Any] = [None] * num_results  # where small results go
        self.copies: tuple[Any, ...] = ()
        self.shapes: tuple[Any, ...] = ()
        self.sizes: list[Any] = []
        self.typed: list[Any] = [None] * num_params
        call.args, call.results, call.infos = self.args, self.results, self.infos
        call.destinations = self.destinations

    def aim(self, result: int, shape: tuple[int, ...]) -> None:
        """Expect a result of these sizes."""
        row = self.destinations[result]
        for axis, size in enumerate(shape):
            row.dims[axis] = size
        self.sizes[result] = shape
