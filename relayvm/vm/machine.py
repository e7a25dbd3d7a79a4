"""The virtual machine as Python sees it: runs entries of an executable within limits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayvm.base.diagnostics import error
from relayvm.base.host import available_cores
from relayvm.base.settings import flag, setting
from relayvm.vm.calling import Call, busy, quoted
from relayvm.vm.convert import converter_of
from relayvm.vm.late_constants import check_complete
from relayvm.vm.library import ffi, keep_exception, lib
from relayvm.vm.manifest import Entry, Parameter, ValueType
from relayvm.vm.values import Closure

if TYPE_CHECKING:
    from relayvm.vm.executable import Executable
    from relayvm.vm.profile import Profile, Profiler

DEFAULT_MAX_DEPTH = 2_000_000
MAX_THREADS = 1024
NO_LIMIT = (1 << 63) - 1
ENGINES = ("auto", "interpreter", "jit")


class VirtualMachine:
    """Runs the entries of an executable, one call at a time.

    Machines are cheap; executables are shared between threads, machines are not. Kernels that are
    long enough run on up to `num_threads` threads (by default the cores, and never more), with the
    same bits for any number. `max_memory` (bytes), `max_steps` (function entries, kernels by their
    work) and `max_depth` (nested calls) end a run with a `Trap`, after which the machine is usable.
    Raises RelayError `bad-option`.
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
            raise error("bad-option", f"there is no engine `{engine}`; known are {quoted(ENGINES)}")
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
        if self.engine != "interpreter":
            self._use_native()
        lib.rvm_machine_set_threads(self.handle, min(threads, cores), cores)
        lib.rvm_machine_set_poll(self.handle, lib.relayvm_poll, ffi.NULL)
        if flag("RELAYVM_TRACE"):
            self._trace()
        self._calls: dict[str, Call] = {}
        self._profiler: Profiler | None = None
        self._closure_calls: dict[tuple[int, int], tuple[Call, ValueType]] = {}

    def _use_native(self) -> None:
        from relayvm.vm.jit import follow_native, make_native

        if self.engine == "auto":
            follow_native(self.executable, self.handle)
            return
        make_native(self.executable)
        if not lib.rvm_machine_set_native(self.handle):
            raise error("out-of-memory", "there is no address space for the stack of a machine")

    def run(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """Call `main`; see `invoke`."""
        call = self._call("main")
        if type(self).run is VirtualMachine.run:
            self.__dict__["run"] = call.run  # what is prepared is called at once from now on
        return call.run(*args, out=out, **named)

    def invoke(self, name: str, *args: Any, out: Any = None, **named: Any) -> Any:
        """Call an entry by name and return its result.

        Arrays must have the declared dtype and sizes; numpy's and those with `__dlpack__` are
        borrowed for the call and never written. Results are fresh arrays, tuples, data-type values,
        references and functions; the memory of large ones is lent, and comes back when the array
        and its views die, whether the machine is still there or not. With `out`, tensors go into
        the caller's numpy arrays of exactly their dtype and sizes, which are returned: one array,
        or a tuple of arrays and None for a tuple. They are written when the run is over, so an
        argument may be among them, and only if it ended without a trap. (A parameter called `out`
        is given by position.)

        Raises RelayError `unknown-entry`, `wrong-argument` before anything runs (but where a size
        that the type leaves open is not that of `out`), `machine-busy`, and Trap.
        """
        call = self._calls.get(name) or self._call(name)
        if out is None and not named:
            return call.run(*args)
        return call.run(*args, out=out, **named)

    def invoke_many(self, name: str, arguments: Iterable[Sequence[Any]]) -> list[Any]:
        """Call an entry with each tuple of arguments, in order, and return the list of results.

        All are checked before the first runs; then all run in one go, without Python in between.
        Limits hold for each call. A trap ends the row: its `index` is the number of the call, its
        `results` are those of the calls before. Raises what `invoke` raises.
        """
        return self._call(name).many(arguments)

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

    def profile(self, *args: Any, entry: str = "main", events: int = 0, **named: Any) -> Profile:
        """Call an entry and return where its time went: by kernel, function and instruction.

        Only this call is measured, whatever becomes of it, and its result is dropped. Call the
        entry before, so that caches are warm. Counts are exact. Where calls take less than half a
        microsecond, times are those of a sample; with room for `events`, beginnings and ends of
        functions and kernels, all are timed, which slows such calls down. On the engine `jit` the
        first measured call compiles code that counts. (A parameter called `entry` or `events` is
        given by position.) Raises what `invoke` raises.
        """
        from relayvm.vm.profile import MOST_EVENTS, Profiler

        if not isinstance(events, int) or not 0 <= events <= MOST_EVENTS:
            raise error("bad-option", f"`events` is {events!r}, not a number up to {MOST_EVENTS}")
        call = self._call(entry)
        if self._profiler is None:
            self._profiler = Profiler(self)
        measured = self._profiler.new(events)
        call(args, named, profile=measured)
        return self._profiler.read(entry, measured)

    def _call(self, name: str) -> Call:
        call = self._calls.get(name)
        if call is None:
            call = self._calls[name] = Call(self, self._entry(name))
        return call

    def _entry(self, name: str) -> Entry:
        entry = self.executable.manifest.entry(name)
        if entry is None:
            known = quoted(self.executable.entries) or "none"
            raise error("unknown-entry", f"there is no entry `{name}`; there are {known}")
        return entry

    def call_closure(self, closure: Closure, args: Sequence[Any]) -> Any:
        """Call a function value of this machine's executable."""
        type_ = closure.type
        if type_.kind != "function":
            raise error("bad-executable", f"the manifest calls a function `{type_.text}`")
        key = closure.layout, id(type_)
        call, _ = self._closure_calls.get(key) or self._closure_call(key, type_)
        return call(tuple(args), {}, closure=closure)

    def _closure_call(self, key: tuple[int, int], type_: ValueType) -> tuple[Call, ValueType]:
        """Make calls of closures ready; the type is kept, so that its number stays its own."""
        row = self.converter.layout(key[0])
        parameters = tuple(Parameter(f"#{i}", t) for i, t in enumerate(type_.fields[:-1]))
        entry = Entry(type_.text, row.function, parameters, type_.fields[-1])
        made = self._closure_calls[key] = Call(self, entry, of_closures=True), type_
        return made

    def stats(self) -> dict[str, int]:
        """Return counters: bytes held, at most held, and mapped for frames; steps and calls; items
        of arrays that had to be copied because somebody else held the array; cells (tuples,
        constructors, closures) made anew, and in the memory of cells that a match took apart.
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
            "safepoints",
            "copied_items",
            "new_cells",
            "reused_cells",
        )
        return {name: getattr(stats, name) for name in names}

    @property
    def native(self) -> bool:
        """Whether the next call runs native code: with the engine `auto` that comes with time."""
        return bool(lib.rvm_machine_is_native(self.handle))

    def trim(self) -> None:
        """Give memory that is kept for later calls back to the system.

        Raises RelayError `machine-busy` during a call.
        """
        if not lib.rvm_machine_trim(self.handle):
            raise busy()

    def interrupt(self) -> None:
        """End the call that runs now, from any thread, with the trap `interrupted`."""
        lib.rvm_machine_interrupt(self.handle)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a VirtualMachine is neither pickled nor copied; make one where it runs")

    def __repr__(self) -> str:
        return f"VirtualMachine({self.engine}, {quoted(self.executable.entries)})"


def _engine(name: str) -> str:
    """Return the engine that a name means: `auto` is the setting's."""
    return str(setting("RELAYVM_ENGINE")) if name == "auto" else name


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
