"""A profile as data: rows of kernels, functions, instructions, allocations; the tree of calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from relayvm.vm.profile import html, text, trace


@dataclass(frozen=True, slots=True)
class Peaks:
    """What one core can do at most: float32 operations a second, and bytes it reads a second again
    and again from so many.

    `read_rates` are pairs of a number of bytes and a rate, ascending.
    """

    flops: float
    read_rates: tuple[tuple[int, float], ...]

    def read_rate(self, size_bytes: float) -> float:
        """Return the rate at which a core reads so many bytes: that of the next larger size."""
        for size, rate in self.read_rates:
            if size_bytes <= size:
                return rate
        return self.read_rates[-1][1]


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """All calls of one kernel in a measured call of an entry.

    `time_ns` is that of the kernel's code alone: checks of sizes and allocations belong to the
    machine. `work` estimates the scalar operations. `operands` are inputs, then outputs, with the
    sizes that the compiler knew; the others are names. `bytes` are those of all operands,
    `new_tensors` and `new_bytes` outputs that took no input's memory.
    """

    name: str
    calls: int
    time_ns: int
    work: int
    operands: tuple[str, ...]
    bytes: int = 0
    new_tensors: int = 0
    new_bytes: int = 0

    @property
    def work_rate(self) -> float:
        """Scalar operations a nanosecond, so 10^9 a second."""
        return self.work / self.time_ns if self.time_ns else 0.0

    @property
    def byte_rate(self) -> float:
        """Bytes of operands a nanosecond, so GB a second."""
        return self.bytes / self.time_ns if self.time_ns else 0.0

    def share_of_peak(self, peaks: Peaks) -> float:
        """Return how near one core's limit it came: that of arithmetic or that of reading,
        whichever is nearer.
        """
        if not self.time_ns or not self.calls:
            return 0.0
        reading = peaks.read_rate(self.bytes / self.calls)
        return max(self.work_rate * 1e9 / peaks.flops, self.byte_rate * 1e9 / reading)


@dataclass(frozen=True, slots=True)
class FunctionProfile:
    """All calls of one function: a loop counts each round.

    `self_ns` is the machine's time in its own instructions, `kernel_ns` that of the kernels that it
    called, `total_ns` that of all until it returned, once where it calls itself.
    """

    name: str
    calls: int
    self_ns: int
    kernel_ns: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class InstructionProfile:
    """All instructions of one class; `time_ns` is estimated from a sample, without kernels' code.

    None on the engine `jit`, where instructions have no time of their own.
    """

    name: str
    count: int
    time_ns: int | None


@dataclass(frozen=True, slots=True)
class AllocationProfile:
    """All objects of one kind that were made; `bytes` is None where sizes are not known."""

    name: str
    count: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class CallNode:
    """A function below its callers, or a kernel; `parent` is its caller's index, -1 for the host.

    A function that is among its own callers goes on in the row that it has there.
    """

    name: str
    is_kernel: bool
    parent: int
    calls: int
    self_ns: float
    total_ns: float


@dataclass(frozen=True, slots=True)
class Event:
    """A function or kernel from its begin to its end, `depth` others around it."""

    name: str
    is_kernel: bool
    begin_ns: float
    end_ns: float
    depth: int


@dataclass(frozen=True, slots=True)
class Profile:
    """A measured call of `entry`, with rows of each kind; those that took longest come first.

    `time_ns` is that of the whole call, without conversions of arguments and results on the host's
    side. `steps` are what `max_steps` limits. `peak_bytes` is the most memory that the machine held
    meanwhile, `system_calls` how often it asked for more, `reused_cells` how many cells took the
    memory of a dead one. `events` are there if they were asked
    for, up to `lost_events`, which were too many. Printed, it is tables.
    """

    entry: str
    kernels: tuple[KernelProfile, ...]
    time_ns: int
    steps: int
    engine: str = ""
    functions: tuple[FunctionProfile, ...] = ()
    instructions: tuple[InstructionProfile, ...] = ()
    allocations: tuple[AllocationProfile, ...] = ()
    calls: tuple[CallNode, ...] = ()
    events: tuple[Event, ...] = ()
    lost_events: int = 0
    peak_bytes: int = 0
    system_calls: int = 0
    reused_cells: int = 0
    peaks: Peaks | None = None

    @property
    def kernel_time_ns(self) -> int:
        """The time of all kernels together; the machine took the rest."""
        return sum(row.time_ns for row in self.kernels)

    @property
    def kernel_calls(self) -> int:
        """How many times any kernel was called."""
        return sum(row.calls for row in self.kernels)

    def with_peaks(self, peaks: Peaks) -> Profile:
        """Return the profile with what one core can do at most, which its tables compare with."""
        return replace(self, peaks=peaks)

    def trace_json(self) -> str:
        """Return the events in the trace event format, which Perfetto and chrome://tracing show."""
        return trace.trace_json(self)

    def html(self) -> str:
        """Return a report as a page that needs nothing else: a flame graph and tables."""
        return html.page(self)

    def tables(self) -> Sequence[text.Table]:
        """Return what it says as tables."""
        return text.tables(self)

    def __str__(self) -> str:
        return text.shown(self)
