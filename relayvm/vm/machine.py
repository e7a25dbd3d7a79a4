"""The virtual machine as Python sees it: runs entries of an executable within limits."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relayvm.base.diagnostics import RelayError, error
from relayvm.base.dtypes import BY_NAME
from relayvm.base.host import available_cores
from relayvm.base.settings import flag, setting
from relayvm.vm.arrays import Symbols, array_argument
from relayvm.vm.convert import TENSOR, converter_of, to_word
from relayvm.vm.late_constants import check_complete
from relayvm.vm.library import ffi, keep_exception, lib, lost_exception
from relayvm.vm.manifest import Entry, Parameter, ValueType
from relayvm.vm.profile import Profile, profile_of
from relayvm.vm.traps import trap_error
from relayvm.vm.values import Closure

if TYPE_CHECKING:
    from relayvm.vm.executable import Executable

DEFAULT_MAX_DEPTH = 2_000_000
MAX_THREADS = 1024
NO_LIMIT = (1 << 63) - 1
ENGINES = ("auto", "interpreter", "jit")
WORD, OBJECT, ARRAY = 0, 1, 2
WORD_CLASS, OWNED_CLASS, BORROWED_CLASS = 0, 1, 2


class VirtualMachine:
    """Runs the entries of an executable, one call at a time.

    Machines are cheap; executables are shared between threads, machines are not. Kernels that are
    long enough run on up to `num_threads` threads (by default the cores), with the same bits for
    any number. `max_memory` (bytes), `max_steps` (function entries, kernels by their work) and
    `max_depth` (nested calls) end a run with a `Trap`, after which the machine is usable. Raises
    RelayError `bad-option`.
    """

    def __init__(
        self,
        executable: Executable,
        device: str = "cpu",
        engine: str = "auto",
        num_threads: int | None = None,
        max_memory: int | None = None,
        max_steps: int | None = None,
        max_depth: int | None = None,
    ) -> None:
        if not hasattr(executable, "manifest"):
            message = f"a machine runs an Executable, not a `{type(executable).__name__}`"
            raise error("bad-option", message, help="`relayvm.compile` and `relayvm.load` make one")
        if device != "cpu":
            raise error("bad-option", f"there is no device `{device}`; known is `cpu`")
        if engine not in ENGINES:
            raise error("bad-option", f"there is no engine `{engine}`; known are {_names(ENGINES)}")
        cores = min(available_cores(), MAX_THREADS)
        threads = num_threads if num_threads is not None else setting("RELAYVM_NUM_THREADS")
        threads = cores if threads is None else threads
        if not isinstance(threads, int) or not 1 <= threads <= MAX_THREADS:
            problem = f"`num_threads` is {threads!r}, which is not from 1 to {MAX_THREADS}"
            raise error("bad-option", problem)
        limits = {
            "max_memory": default_max_memory() if max_memory is None else max_memory,
            "max_steps": NO_LIMIT if max_steps is None else max_steps,
            "max_depth": DEFAULT_MAX_DEPTH if max_depth is None else max_depth,
        }
        for name, value in limits.items():
            if not isinstance(value, int) or not 0 <= value <= NO_LIMIT:
                raise error("bad-option", f"`{name}` is {value!r}, which is no limit")
        self.executable = executable
        self.engine = _engine(engine)
        self.num_threads = threads
        self.converter = converter_of(executable)
        unlinked = lib.rvm_program_first_unlinked(executable.handle)
        if unlinked >= 0:
            name = ffi.string(lib.rvm_program_kernel_name(executable.handle, unlinked)).decode()
            raise error("not-ready", f"kernel `{name}` has no code for this machine")
        check_complete(executable)
        handle = lib.rvm_machine_new(executable.handle, *limits.values())
        if handle == ffi.NULL:
            raise error("out-of-memory", "there is no memory for a machine within `max_memory`")
        self.handle = ffi.gc(handle, lib.rvm_machine_free)
        if self.engine == "jit":
            self._use_native()
        lib.rvm_machine_set_threads(self.handle, threads, cores)
        lib.rvm_machine_set_poll(self.handle, lib.relayvm_poll, ffi.NULL)
        if flag("RELAYVM_TRACE"):
            self._trace()
        self.lock = threading.Lock()
        self._calls: dict[str, _Call] = {}

    def _use_native(self) -> None:
        from relayvm.vm.jit import make_native

        make_native(self.executable)
        if not lib.rvm_machine_set_native(self.handle):
            raise error("out-of-memory", "there is no address space for the stack of a machine")

    def run(self, *args: Any, **named: Any) -> Any:
        """Call `main`; see `invoke`."""
        return (self._calls.get("main") or self._call("main"))(args, named)

    def invoke(self, name: str, *args: Any, **named: Any) -> Any:
        """Call an entry by name and return its result.

        Arrays must have the declared dtype and sizes; they are borrowed for the call and never
        written. Results are fresh arrays, tuples, data-type values, references and functions.
        Raises RelayError `unknown-entry`, `wrong-argument` before anything runs, and Trap.
        """
        return (self._calls.get(name) or self._call(name))(args, named)

    def run_dict(self, **inputs: Any) -> dict[str, Any]:
        """Call `main` with named inputs; return its results by name."""
        call = self._call("main")
        result = call((), inputs)
        names = call.entry.results
        if len(names) == 1 and not (
            isinstance(result, tuple) and call.entry.result.kind == "tuple"
        ):
            return {names[0]: result}
        if isinstance(result, tuple) and len(names) == len(result):
            return dict(zip(names, result))
        return {names[0]: result}

    def _trace(self) -> None:
        from relayvm.vm.assembly.trace import Tracer

        self._tracer = ffi.new_handle(Tracer(self.converter))
        lib.rvm_machine_set_trace(self.handle, lib.relayvm_trace, self._tracer)

    def profile(self, *args: Any, entry: str = "main", **named: Any) -> Profile:
        """Call an entry and return where its time went, kernel by kernel.

        Only this call is measured, whatever becomes of it, and its result is dropped. Call the
        entry before, so that caches are warm. Raises what `invoke` raises.
        """
        call = _Call(self, self._entry(entry))  # one of its own: others are not measured
        count = lib.rvm_program_num_kernels(self.executable.handle)
        rows = ffi.new("rvm_kernel_profile[]", max(1, count))
        call.call.profile = measured = ffi.new("rvm_profile *", [rows])
        call(args, named)
        return profile_of(self.executable, entry, measured)

    def _call(self, name: str) -> _Call:
        call = self._calls.get(name)
        if call is None:
            call = self._calls[name] = _Call(self, self._entry(name))
        return call

    def _entry(self, name: str) -> Entry:
        entry = self.executable.manifest.entry(name)
        if entry is None:
            known = _names(self.executable.entries) or "none"
            raise error("unknown-entry", f"there is no entry `{name}`; there are {known}")
        return entry

    def call_closure(self, closure: Closure, args: Sequence[Any]) -> Any:
        """Call a function value of this machine's executable."""
        type_ = closure.type
        if type_.kind != "function":
            raise error("bad-executable", f"the manifest calls a function `{type_.text}`")
        row = self.converter.layout(closure.layout)
        parameters = tuple(Parameter(f"#{i}", t) for i, t in enumerate(type_.fields[:-1]))
        entry = Entry(type_.text, row.function, parameters, type_.fields[-1])
        return _Call(self, entry, closure)(tuple(args), {})

    def stats(self) -> dict[str, int]:
        """Return counters: bytes held, at most held, and mapped for frames; steps and calls; items
        of arrays that had to be copied because somebody else held the array.
        """
        stats = ffi.new("rvm_stats *")
        lib.rvm_machine_stats(self.handle, stats)
        names = (
            "held_bytes",
            "peak_bytes",
            "stack_bytes",
            "steps",
            "kernel_calls",
            "invocations",
            "system_calls",
            "copied_items",
        )
        return {name: getattr(stats, name) for name in names}

    def trim(self) -> None:
        """Give memory that is kept for later calls back to the system.

        Raises RelayError `machine-busy` during a call.
        """
        if not self.lock.acquire(False):
            raise _busy()
        try:
            lib.rvm_machine_trim(self.handle)
        finally:
            self.lock.release()

    def interrupt(self) -> None:
        """End the call that runs now, from any thread, with the trap `interrupted`."""
        lib.rvm_machine_interrupt(self.handle)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a VirtualMachine is neither pickled nor copied; make one where it runs")

    def __repr__(self) -> str:
        return f"VirtualMachine({self.engine}, {_names(self.executable.entries)})"


def _engine(name: str) -> str:
    """Return the engine that a name means: `auto` is the setting's, or else the interpreter."""
    if name == "auto":
        name = str(setting("RELAYVM_ENGINE"))
    return "interpreter" if name == "auto" else name


def _busy() -> RelayError:
    return error("machine-busy", "the machine is running already")


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


@lru_cache
def default_max_memory() -> int:
    """Return 80% of the smaller of the process group's memory limit and the RAM."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in (
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            limits.append(int(text))
    return min(limits) * 4 // 5


@ffi.def_extern(name="relayvm_poll", error=1, onerror=keep_exception)  # type: ignore[untyped-decorator, unused-ignore]
def _poll(context: Any) -> int:
    """Let the interpreter run pending signal handlers: entering this function is enough."""
    return 0


Setter = Callable[[Any, Symbols], None]
invoke, take_data = lib.rvm_machine_invoke, lib.rvm_machine_take_data
from_buffer, unpack = ffi.from_buffer, ffi.unpack
empty, ndarray = np.empty, np.ndarray


class _Call:
    """One entry made ready: checks and conversions of arguments and results, with buffers."""

    def __init__(
        self, machine: VirtualMachine, entry: Entry, closure: Closure | None = None
    ) -> None:
        self.machine = machine
        self.entry = entry
        self.closure = closure
        self.acquire, self.release = machine.lock.acquire, machine.lock.release
        converter = machine.converter
        info = ffi.new("rvm_function_info *")
        if not lib.rvm_program_function(converter.program, entry.function, info):
            raise self._disagrees()
        skip = 1 if closure is not None else 0
        self.names = tuple(p.name for p in entry.parameters)
        self.count = len(self.names)
        if info.num_params != len(self.names) + skip:
            raise self._disagrees()
        self.classes = tuple(info.param_class[i] for i in range(info.num_params))
        self.result_words = tuple(
            info.result_class[i] == WORD_CLASS for i in range(info.num_results)
        )
        types = self._result_types(len(self.result_words))
        count = max(1, info.num_params)
        self.args = ffi.new("rvm_argument[]", count)
        self.results = ffi.new("uint64_t[]", max(1, info.num_results))
        self.infos = ffi.new("rvm_value_info[]", max(1, info.num_results))
        self.call = ffi.new(
            "rvm_call *",
            [machine.handle, self.args, self.results, self.infos, entry.function, ffi.NULL],
        )
        self.objects: list[Any] = []
        self.copies: list[Any] = []  # of arguments, alive during a call
        if closure is not None:
            self.args[0].kind = OBJECT
            self.objects.append(self.args[0])
        self.setters = [
            self._setter(p, self.args[i + skip], self.classes[i + skip])
            for i, p in enumerate(entry.parameters)
        ]
        self.takers = [
            self._taker(i, type_, is_word)
            for i, (type_, is_word) in enumerate(zip(types, self.result_words))
        ]
        self.single = self.takers[0] if len(self.takers) == 1 else None

    def _disagrees(self) -> Exception:
        return error("bad-executable", f"the manifest and the code of `{self.entry.name}` disagree")

    def _result_types(self, count: int) -> tuple[ValueType, ...]:
        result = self.entry.result
        types = (result,) if count == 1 else result.fields
        if count != len(types) or (count != 1 and result.kind != "tuple"):
            raise self._disagrees()
        if any(w and (t.kind != "tensor" or t.dims) for w, t in zip(self.result_words, types)):
            raise self._disagrees()
        return types

    def _setter(self, parameter: Parameter, slot: Any, param_class: int) -> Setter:
        type_, where = parameter.type, f"`{parameter.name}` of `{self.entry.name}`"
        if param_class == WORD_CLASS:
            if type_.kind != "tensor" or type_.dims:
                raise self._disagrees()
            return _word_setter(type_, where, slot)
        if type_.kind == "tensor":
            return _array_setter(type_, where, slot, self.copies)
        converter = self.machine.converter

        slot.kind = OBJECT
        self.objects.append(slot)

        def set_object(value: Any, symbols: Symbols) -> None:
            slot.word = converter.to_object(value, type_, where)

        return set_object

    def __call__(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if named or len(args) != self.count:
            args = self._bind(args, named)
        if not self.acquire(False):
            raise _busy()
        try:
            symbols: Symbols = {}
            for setter, value in zip(self.setters, args):
                setter(value, symbols)
            if self.closure is not None:
                self.args[0].word = self.closure.retained()
            code = invoke(self.call)
            for slot in self.objects:
                slot.word = 0
            if code:
                self._fail(code)
            if self.single is not None:
                return self.single()
            return tuple([take() for take in self.takers])
        except BaseException:
            self._drop_objects()
            raise
        finally:
            if self.copies:
                self.copies.clear()
            self.release()

    def _drop_objects(self) -> None:
        """Drop the arguments that a call did not come to take, and the results not taken."""
        for slot in self.objects:
            if slot.word:
                lib.rvm_value_release(slot.word)
                slot.word = 0
        for i, is_word in enumerate(self.result_words):
            if not is_word and self.results[i]:
                lib.rvm_value_release(self._take_word(i))

    def _take_word(self, i: int) -> int:
        word: int = self.results[i]
        self.results[i] = 0
        return word

    def _bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Return all arguments in order; raises RelayError `wrong-argument` for a wrong count."""
        name = self.entry.name
        if len(args) > len(self.names):
            count = len(self.names)
            raise error(
                "wrong-argument",
                f"`{name}` takes {count} argument{'s' * (count != 1)}, {len(args)} given",
            )
        values = dict(zip(self.names, args))
        for key, value in named.items():
            if key not in self.names:
                known = _names(self.names) or "none"
                raise error("wrong-argument", f"`{name}` has no parameter `{key}`; it has {known}")
            if key in values:
                raise error("wrong-argument", f"`{key}` of `{name}` is given twice")
            values[key] = value
        missing = [n for n in self.names if n not in values]
        if missing:
            raise error("wrong-argument", f"{_names(missing)} of `{name}` is not given")
        return tuple(values[n] for n in self.names)

    def _fail(self, code: int) -> None:
        lost = lost_exception()
        if lost is not None:
            raise lost
        if code < 0:
            raise _busy()
        raise trap_error(self.machine.converter, lib.rvm_machine_trap(self.machine.handle))

    def _taker(self, i: int, type_: ValueType, is_word: bool) -> Callable[[], Any]:
        """Return what makes the Python value of result `i` after a run."""
        call, info, machine = self.call, self.infos[i], self.machine
        if is_word:
            dtype = BY_NAME[type_.dtype].numpy
            word = np.frombuffer(ffi.buffer(self.results), dtype, 1, 8 * i).reshape(())
            return word.copy
        row, rank = BY_NAME.get(type_.dtype), len(type_.dims)
        array_dtype: Any = row.numpy if row else None
        dims = ffi.cast("int64_t *", info.dims)
        # the first four bytes of the info: kind, dtype, rank, kind of layout
        expected = TENSOR | row.code << 8 | rank << 16 if row else 0
        head = ffi.cast("uint32_t *", ffi.addressof(info))

        def take() -> Any:
            if head[0] != expected:
                return machine.converter.to_python(self._take_word(i), type_, machine)
            array = empty(dims[0] if rank == 1 else unpack(dims, rank), array_dtype)
            take_data(call, i, from_buffer(array))
            return array

        return take


def _word_setter(type_: ValueType, where: str, slot: Any) -> Setter:
    """Return the setter of a word parameter; plain Python numbers are stored in place."""
    slot.kind, slot.word = WORD, 0
    dtype = BY_NAME[type_.dtype]
    word = ffi.addressof(slot, "word")
    low, high = dtype.min, dtype.max
    plain: type = float if dtype.is_float else int
    spelled = {"float32": "float *", "float64": "double *", "int64": "int64_t *"}
    place = ffi.cast(spelled.get(dtype.name, "uint64_t *"), word)
    if dtype.name not in spelled:
        low, high = 1, 0  # nothing is plain
    numpy_dtype, scalar = dtype.numpy, dtype.numpy.type

    def set_word(value: Any, symbols: Symbols) -> None:
        kind: Any = type(value)
        if kind is scalar or (kind is np.ndarray and not value.ndim and value.dtype == numpy_dtype):
            value = value.item()
            kind = type(value)
        if kind is plain and low <= value <= high:
            place[0] = value
        else:
            word[0] = to_word(value, type_, where)

    return set_word


def _array_setter(type_: ValueType, where: str, slot: Any, copies: list[Any]) -> Setter:
    """Return the setter of an array parameter; one like the last needs no second look."""
    row = BY_NAME[type_.dtype]
    dtype, rank = row.numpy, len(type_.dims)
    slot.kind, slot.dtype, slot.rank = ARRAY, row.code, rank
    by_name = any(isinstance(d, str) for d in type_.dims)
    last_shape: tuple[int, ...] | None = None

    def set_array(value: Any, symbols: Symbols) -> None:
        nonlocal last_shape
        if type(value) is ndarray and value.shape == last_shape and value.dtype is dtype:
            try:
                slot.data = from_buffer(value)
                return
            except ValueError:  # its elements do not lie in order
                pass
        last_shape = None  # until all sizes are set, whatever interrupts this
        array = array_argument(value, type_, where, symbols)
        for axis in range(rank):
            slot.dims[axis] = array.shape[axis]
        slot.data = from_buffer(array)
        copies.append(array)
        if not by_name:
            last_shape = array.shape

    return set_array
