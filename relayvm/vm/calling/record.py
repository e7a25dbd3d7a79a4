"""Buffers of one call at a time, as C reads and writes them; filled in by `call`."""

from __future__ import annotations

from typing import Any

from relayvm.vm.library import ffi
from relayvm.vm.values import NO_SIZES


class Record:
    """Buffers of one call. `arrays` are those that small arguments are copied to, `copies` make new
    ones of small results.
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
        "sizes",
        "slots",
        "typed",
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
        self.memory: list[Any] = []  # of `arrays`
        self.homes: list[Any] = [None] * num_results  # where small results go
        self.copies: tuple[Any, ...] = ()
        self.sizes = NO_SIZES  # of names in types of functions among the results
        self.typed: list[Any] = [None] * num_params
        call.args, call.results, call.infos = self.args, self.results, self.infos
        call.destinations = self.destinations

    def aim(self, result: int, shape: tuple[int, ...]) -> None:
        """Expect a result of these sizes."""
        row = self.destinations[result]
        for axis, size in enumerate(shape):
            row.dims[axis] = size
