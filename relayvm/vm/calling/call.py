"""Calls of entries from Python: arguments checked and set, results taken, as the types say.

What is prepared once for an entry is a `Call`; the buffers of one call at a time are a `Record`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from relayvm.base.diagnostics import Diagnostic, Note, RelayError, Trap, error, quantity
from relayvm.base.dtypes import BY_CODE, BY_NAME, DType
from relayvm.vm.arrays import Symbols, buffer_of, host_dtype
from relayvm.vm.calling.arguments import (
    Setter,
    array_setter,
    check_out,
    is_small,
    place_of,
    small_setter,
    static_shape,
    word_setter,
)
from relayvm.vm.calling.record import Record
from relayvm.vm.calling.usual import COPIED, LENT, OTHER, WORD, entry_of
from relayvm.vm.convert import TENSOR
from relayvm.vm.library import ffi, lib, lost_exception
from relayvm.vm.manifest import Entry, Parameter, ValueType
from relayvm.vm.sizes import names_in_functions
from relayvm.vm.traps import trap_error
from relayvm.vm.values import NO_SIZES, Closure

if TYPE_CHECKING:
    from relayvm.vm.machine import VirtualMachine

OBJECT_ARGUMENT, ARRAY_ARGUMENT = 1, 2
WORD_CLASS = 0
BUSY, MISFIT = -1, -2
KEPT_RECORDS = 1024
empty = np.empty
invoke = lib.rvm_machine_invoke


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A result of a call: `dtype` where it is a tensor, `shape` where that is known."""

    type: ValueType
    kind: str
    dtype: DType | None
    shape: tuple[int, ...] | None


class Call:
    """One entry made ready, or the function of closures; `run` is the function that calls it."""

    def __init__(self, machine: VirtualMachine, entry: Entry, of_closures: bool = False) -> None:
        self.machine, self.entry = machine, entry
        self.skip = 1 if of_closures else 0
        self.names = tuple(p.name for p in entry.parameters)
        self.count = len(self.names)
        program = machine.converter.program
        info = ffi.new("rvm_function_info *")
        if not lib.rvm_program_function(program, entry.function, info):
            raise self._disagrees()
        if info.num_params != self.count + self.skip:
            raise self._disagrees()
        self.classes = tuple(info.param_class[i] for i in range(info.num_params))
        words = [info.result_class[i] == WORD_CLASS for i in range(info.num_results)]
        self.rows = self._rows(words)
        self.kinds = [self._kind(p, c) for p, c in zip(entry.parameters, self.classes[self.skip :])]
        self.objects = [i + self.skip for i, kind in enumerate(self.kinds) if kind == OTHER]
        if of_closures:
            self.objects.insert(0, 0)
        self.setters = [self._setter(i, p) for i, p in enumerate(entry.parameters)]
        self.aimed = any(row.kind == LENT for row in self.rows)
        self.names_sizes = names_in_functions(machine.converter.data_type, entry.result)
        self.free: list[Record] = []
        self.batch: list[Record] = []
        self.calls: Any = None
        self.run: Callable[..., Any] = self._function()

    def _disagrees(self) -> RelayError:
        return error("bad-executable", f"the manifest and the code of `{self.entry.name}` disagree")

    def _rows(self, words: Sequence[bool]) -> tuple[ResultRow, ...]:
        result = self.entry.result
        types = (result,) if len(words) == 1 else result.fields
        if len(words) != len(types) or (len(words) != 1 and result.kind != "tuple"):
            raise self._disagrees()
        return tuple(map(self._row, types, words))

    def _row(self, type_: ValueType, is_word: bool) -> ResultRow:
        if is_word and (type_.kind != "tensor" or type_.dims):
            raise self._disagrees()
        if type_.kind != "tensor":
            return ResultRow(type_, OTHER, None, None)
        kind = WORD if is_word else COPIED if is_small(type_) else LENT
        return ResultRow(type_, kind, BY_NAME[type_.dtype], static_shape(type_))

    def _kind(self, parameter: Parameter, param_class: int) -> str:
        type_ = parameter.type
        if param_class == WORD_CLASS:
            if type_.kind != "tensor" or type_.dims:
                raise self._disagrees()
            return WORD
        if type_.kind != "tensor":
            return OTHER
        return COPIED if is_small(type_) else LENT

    def _setter(self, index: int, parameter: Parameter) -> Setter:
        where = f"`{parameter.name}` of `{self.entry.name}`"
        slot, kind = index + self.skip, self.kinds[index]
        if kind == WORD:
            return word_setter(parameter.type, where, slot)
        if kind == COPIED:
            return small_setter(parameter.type, where, slot)
        if kind == LENT:
            return array_setter(parameter.type, where, slot)
        convert = self._object_of(parameter)

        def set_object(record: Record, value: Any, symbols: Symbols) -> None:
            record.slots[slot].word = convert(value)

        return set_object

    def _function(self) -> Callable[..., Any]:
        """Return the function of arguments that runs the entry; the usual case is the library's."""
        self.run_many: Callable[..., Any] = lambda tuples: None
        if self.skip:
            return self.__call__  # which is told the closure
        if self.names_sizes:
            return lambda *args, out=None, **named: self(args, named, out)
        record = self.record()
        convert = [self._object_of(parameter) for parameter in self.entry.parameters]
        rows = [(row.kind, row.type) for row in self.rows]
        params = list(zip(self.kinds, [p.type for p in self.entry.parameters], convert))
        entry = entry_of(record, self.names, params, rows, self._general, self._end)
        self.run_many = entry.run_many
        run: Callable[..., Any] = entry.run
        return run

    def _object_of(self, parameter: Parameter) -> Callable[[Any], int]:
        """Return what makes objects of arguments that are no tensors."""
        convert, type_ = self.machine.converter.to_object, parameter.type
        where = f"`{parameter.name}` of `{self.entry.name}`"
        if type_.kind != "data":
            return lambda value: convert(value, type_, where)
        ready = self.machine.converter.ready_data

        def object_of(value: Any) -> int:
            # What is an object of the program already is the usual case.
            return ready(value, type_, where) or convert(value, type_, where)

        return object_of

    def _general(self, args: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        return self(args, named, out)

    def _end(self, record: Record, code: int, outs: Any, values: Any) -> Any:
        """Finish a call that was begun in the usual way."""
        try:
            return self.finish(record, code, outs, values)
        except BaseException:
            self._drop(record)
            raise

    # --- records ------------------------------------------------------------------------------

    def record(self) -> Record:
        """Return a new record."""
        return self._filled(ffi.new("rvm_call *"))

    def _filled(self, call: Any) -> Record:
        record = Record(call, len(self.classes), len(self.rows))
        call.machine, call.function = self.machine.handle, self.entry.function
        for i, parameter in enumerate(self.entry.parameters):
            self._prepare(record, i, parameter.type)
        for i in self.objects:
            record.slots[i].kind = OBJECT_ARGUMENT
        self._fill_results(record)
        return record

    def _prepare(self, record: Record, index: int, type_: ValueType) -> None:
        """Write what does not change from call to call into the slot of an argument."""
        at, kind = index + self.skip, self.kinds[index]
        slot = record.slots[at]
        if kind == WORD:
            word = ffi.addressof(slot, "word")
            record.typed[at] = ffi.cast(place_of(BY_NAME[type_.dtype]), word), word
        elif kind != OTHER:
            row, shape = BY_NAME[type_.dtype], static_shape(type_)
            slot.kind, slot.dtype, slot.rank = ARRAY_ARGUMENT, row.code, len(type_.dims)
            for axis, size in enumerate(shape or ()):
                slot.dims[axis] = size
            if kind == COPIED and shape is not None:
                record.arrays[at] = empty(shape, row.numpy)
                record.memory.append(buffer_of(record.arrays[at]))
                slot.data = record.memory[-1]

    def _fill_results(self, record: Record) -> None:
        copies: list[Any] = []
        for i, row in enumerate(self.rows):
            copy = None
            if row.dtype is not None:
                record.destinations[i].dtype = row.dtype.code
                record.destinations[i].rank = len(row.type.dims)
                record.aim(i, row.shape or (0,) * len(row.type.dims))
            if row.kind == WORD and row.dtype:
                words = ffi.buffer(record.results)
                copy = np.frombuffer(words, host_dtype(row.dtype), 1, 8 * i).reshape(()).copy
            elif row.kind == COPIED and row.dtype and row.shape is not None:
                array = empty(row.shape, host_dtype(row.dtype))
                record.homes[i] = buffer_of(array)
                record.destinations[i].data = record.homes[i]
                copy = array.copy
            copies.append(copy)
        record.copies = tuple(copies)

    # --- calls --------------------------------------------------------------------------------

    def __call__(
        self,
        args: tuple[Any, ...],
        named: dict[str, Any],
        out: Any = None,
        closure: Closure | None = None,
        profile: Any = None,
    ) -> Any:
        """Run it in the general case; `profile` is an `rvm_profile *` that measures the call."""
        if named or len(args) != self.count:
            args = self._bind(args, named)
        outs = None if out is None else self._outs(out)
        try:
            record = self.free.pop()
        except IndexError:
            record = self.record()
        try:
            self._set(record, args, closure)
            self._aim(record, outs)
            if profile is not None:
                record.call.profile = profile
            code = invoke(record.call)
            self._given(record, code)
            return self.finish(record, code, outs)
        except BaseException:
            self._drop(record)
            raise
        finally:
            record.call.profile = ffi.NULL
            record.kept.clear()
            if outs is not None:
                self._aim(record, None)
            self.free.append(record)

    def _set(self, record: Record, args: Sequence[Any], closure: Closure | None = None) -> None:
        """Set all arguments."""
        symbols: Symbols = {}
        for setter, value in zip(self.setters, args):
            setter(record, value, symbols)
        if closure is not None:
            record.slots[0].word = closure.retained()
        if self.names_sizes:
            known = closure.sizes if closure is not None else NO_SIZES
            record.sizes = {**known, **{name: size for name, (size, _) in symbols.items()}}

    def _aim(self, record: Record, outs: Sequence[Any] | None) -> None:
        """Give each result the destination that it has in the general case."""
        for i, row in enumerate(self.rows):
            out = None if outs is None else outs[i]
            if out is not None and row.kind != WORD:
                record.destinations[i].data = buffer_of(out)
                record.aim(i, out.shape)
            elif row.kind != WORD:
                record.destinations[i].data = record.homes[i] or ffi.NULL

    def _given(self, record: Record, code: int) -> None:
        """Forget the objects that a call took."""
        if code != BUSY:
            for i in self.objects:
                record.slots[i].word = 0

    def finish(
        self,
        record: Record,
        code: int,
        outs: Sequence[Any] | None = None,
        fresh: Sequence[Any] | None = None,
    ) -> Any:
        """Return the result of a call that is over, or raise what it failed with.

        `outs` are the caller's arrays; `fresh` are the results that are taken already, None for the
        others.
        """
        if code == BUSY:
            raise busy()
        if code > 0:
            raise self._failure()
        values = self._values(record, outs, fresh)
        if len(self.rows) == 1:
            return values[0]
        return tuple(values)

    def _values(
        self,
        record: Record,
        outs: Sequence[Any] | None,
        fresh: Sequence[Any] | None,
        take: bool = True,
    ) -> list[Any]:
        results, values = record.results, list(fresh or [None] * len(self.rows))
        left: list[int] = []
        for i, row in enumerate(self.rows):
            out = None if outs is None else outs[i]
            if values[i] is not None:
                continue
            if row.kind == WORD:
                values[i] = record.copies[i]()
                if out is not None:
                    out[...] = values[i]
                    values[i] = out
            elif not results[i]:  # it is where it should be
                values[i] = record.copies[i]() if out is None else out
            elif record.infos[i].kind == TENSOR:
                values[i] = self._room(record, i, out)
                left.append(i)
        if left and take:
            lib.rvm_machine_take(record.call, 1)
            for i in left:
                record.destinations[i].data = record.homes[i] or ffi.NULL
        for i in range(len(values)):
            if self.rows[i].kind == OTHER and results[i]:
                word, results[i] = results[i], 0
                convert, machine = self.machine.converter.to_python, self.machine
                values[i] = convert(word, self.rows[i].type, machine, record.sizes)
        return values

    def _room(self, record: Record, i: int, out: Any) -> Any:
        """Return a new array for a result, which is its destination from now on."""
        info = record.infos[i]
        shape = tuple(info.dims[0 : info.rank])
        if out is not None:
            given = f"the result has the sizes {shape}, the array for it has {out.shape}"
            raise error("wrong-argument", f"{self._result_name(i)}: {given}")
        array = empty(shape, host_dtype(BY_CODE[info.dtype]))
        record.destinations[i].data = buffer_of(array)
        if self.rows[i].kind == LENT and info.rank == record.destinations[i].rank:
            record.aim(i, shape)
        return array

    def _drop(self, record: Record) -> None:
        """Drop the arguments that a call did not come to take, and the results not taken."""
        self._aim(record, None)
        for i in self.objects:
            if record.slots[i].word:
                lib.rvm_value_release(record.slots[i].word)
                record.slots[i].word = 0
        for i, row in enumerate(self.rows):
            if row.kind != WORD and record.results[i]:
                lib.rvm_value_release(record.results[i])
                record.results[i] = 0

    def _failure(self) -> BaseException:
        lost = lost_exception()
        if lost is not None:
            return lost
        machine = self.machine
        return trap_error(machine.converter, lib.rvm_machine_trap(machine.handle))

    def _bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Return all arguments in order; raises RelayError `wrong-argument` for a wrong count."""
        name = self.entry.name
        if len(args) > self.count:
            message = f"`{name}` takes {quantity(self.count, 'argument')}, {len(args)} given"
            raise error("wrong-argument", message)
        values = dict(zip(self.names, args))
        for key, value in named.items():
            if key not in self.names:
                known = quoted(self.names) or "none"
                raise error("wrong-argument", f"`{name}` has no parameter `{key}`; it has {known}")
            if key in values:
                raise error("wrong-argument", f"`{key}` of `{name}` is given twice")
            values[key] = value
        missing = [n for n in self.names if n not in values]
        if missing:
            raise error("wrong-argument", f"{quoted(missing)} of `{name}` is not given")
        return tuple(values[n] for n in self.names)

    # --- arrays of the caller's for results ---------------------------------------------------

    def _result_name(self, i: int) -> str:
        place = "`out`" if len(self.rows) == 1 else f"item {i} of `out`"
        return f"{place} of `{self.entry.name}`"

    def _outs(self, out: Any) -> tuple[Any, ...]:
        """Return the caller's arrays, one for a result; raises RelayError `wrong-argument`."""
        count = len(self.rows)
        outs = (out,) if count == 1 else out
        if not isinstance(outs, (tuple, list)) or len(outs) != count:
            wanted = f"a tuple of {quantity(count, 'array')} or None, one a result"
            message = f"`out` of `{self.entry.name}` is {wanted}"
            raise error("wrong-argument", message)
        found: list[Any] = []
        for i, (array, row) in enumerate(zip(outs, self.rows)):
            if array is not None:
                check_out(array, row.type, self._result_name(i))
                found.append(array)
        for i, array in enumerate(found):
            if any(np.may_share_memory(array, other) for other in found[:i]):
                raise error("wrong-argument", "two arrays of `out` share memory")
        return tuple(outs)

    # --- many calls ---------------------------------------------------------------------------

    def many(self, arguments: Iterable[Sequence[Any]]) -> list[Any]:
        """Run the entry on each tuple of arguments; see `VirtualMachine.invoke_many`."""
        tuples = list(arguments)
        if not tuples:
            return []
        usual = self.run_many(tuples)
        if usual is not None:
            code, found = usual
            if code == BUSY:
                raise busy()
            if code > 0:
                raise self._trap_of(len(found), len(tuples), found)
            rows: list[Any] = found
            return rows
        calls, records = self._taken_batch(len(tuples))
        done, code = ffi.new("uint32_t *"), 0
        try:
            for i, (record, args) in enumerate(zip(records, tuples)):
                self._set_one(record, args, i)
            code = lib.rvm_machine_invoke_many(calls, len(tuples), done)
            if code == BUSY:
                raise busy()
            for record in records[: done[0] + (code > 0)]:
                self._given(record, code)
            results = self._results(records[: done[0]], code)
            lib.rvm_machine_take(calls, done[0])
            if code > 0:
                raise self._trap_of(done[0], len(tuples), results)
            return results
        except BaseException:
            for record in records:
                self._drop(record)
            raise
        finally:
            for record in records:
                record.kept.clear()
                if code:
                    self._aim(record, None)
            if len(records) <= KEPT_RECORDS:
                self.calls, self.batch = calls, records

    def _results(self, records: Sequence[Record], code: int) -> list[Any]:
        """Return the results of calls; those left as tensors are still to be taken."""
        if code == 0 and all(row.kind in (COPIED, WORD) for row in self.rows):
            if len(self.rows) == 1:
                return [record.copies[0]() for record in records]
            return [tuple([copy() for copy in record.copies]) for record in records]
        rows = [self._values(record, None, None, take=False) for record in records]
        return [row[0] for row in rows] if len(self.rows) == 1 else [tuple(row) for row in rows]

    def _taken_batch(self, count: int) -> tuple[Any, list[Record]]:
        """Return records whose calls lie one behind the other."""
        calls, records = self.calls, self.batch
        self.calls, self.batch = None, []
        if len(records) < count:
            calls = ffi.new("rvm_call[]", count)
            records = [self._filled(calls + i) for i in range(count)]
        return calls, records

    def _set_one(self, record: Record, args: Any, index: int) -> None:
        try:
            if not isinstance(args, (tuple, list)):
                kind = type(args).__name__
                raise error("wrong-argument", f"arguments are a tuple, not a `{kind}`")
            self._set(record, args if len(args) == self.count else self._bind(tuple(args), {}))
            if self.aimed:
                self._aim(record, None)
        except RelayError as mistake:
            raise RelayError(_noted(mistake, f"in call {index}")) from None

    def _trap_of(self, index: int, count: int, results: list[Any]) -> BaseException:
        failure = self._failure()
        if not isinstance(failure, Trap):
            return failure
        trap = Trap(_noted(failure, f"in call {index} of {count}"), failure.stack)
        trap.index, trap.results = index, tuple(results)
        return trap


def _noted(mistake: RelayError, text: str) -> Diagnostic:
    first = mistake.diagnostics[0]
    return replace(first, notes=(*first.notes, Note(text)))


def busy() -> RelayError:
    """Return the error of a machine that runs already."""
    return error("machine-busy", "the machine is running already")


def quoted(names: Sequence[str]) -> str:
    """Return names for a message."""
    return ", ".join(f"`{n}`" for n in names)
