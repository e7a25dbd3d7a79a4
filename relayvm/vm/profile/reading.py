"""Measures calls, and reads what the runtime noted into a profile."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from relayvm.base.abi import Kernel, Operand
from relayvm.base.diagnostics import RelayError, error
from relayvm.base.process import lazy_property
from relayvm.vm.isa import BY_OPCODE
from relayvm.vm.library import ffi, lib
from relayvm.vm.profile.classes import allocation_of, class_of
from relayvm.vm.profile.model import (
    AllocationProfile,
    CallNode,
    Event,
    FunctionProfile,
    InstructionProfile,
    KernelProfile,
    Profile,
)
from relayvm.vm.program import FunctionCode, Instr, units

if TYPE_CHECKING:
    from relayvm.vm.machine import VirtualMachine

MOST_EVENTS = 1_000_000
_END = 0xFFFFFFFF
_HOST = "the host"
# A sample of fewer says little about what a sample costs by itself.
_LEAST_SAMPLES = 8
_LEAST_TICKS = 1.0


class Profiler:
    """Measures calls of one machine's entries; what an executable says about itself is kept."""

    def __init__(self, machine: VirtualMachine) -> None:
        self.machine = machine
        self.handle = machine.executable.handle
        self.program = machine.executable.program()

    @lazy_property
    def blocks(self) -> list[tuple[FunctionCode, range]]:
        """The blocks that instrumented code counts."""
        from relayvm.vm.jit.module import blocks

        return [(f, block) for f in self.program.functions for block in blocks(f)]

    def new(self, most_events: int = 0) -> Any:
        """Return an empty `rvm_profile *`; raises RelayError `out-of-memory`."""
        if self.machine.native:
            from relayvm.vm.jit import make_profiled

            try:
                make_profiled(self.machine.executable)
            except RelayError:
                # Native code from a cache runs where nothing can be compiled. Then the interpreter
                # counts, unless native code was asked for.
                if self.machine.engine != "auto":
                    raise
        handle = lib.rvm_profile_new(self.handle, most_events)
        if handle == ffi.NULL:
            raise error("out-of-memory", "there is no memory for a profile")
        return ffi.gc(handle, lib.rvm_profile_free)

    def read(self, entry: str, measured: Any) -> Profile:
        """Return the profile in an `rvm_profile`."""
        nodes = self._nodes(measured)
        # By the order in which they began: many begin at the same tick of the clock.
        events = tuple(event for _, event in sorted(self._events(measured), key=lambda e: e[0]))
        counts = self._counts(measured)
        machine_ns = sum(node.self_ns for node in nodes[1:] if not node.is_kernel)
        return Profile(
            entry=entry,
            kernels=self._kernels(measured, nodes),
            time_ns=measured.time_ns,
            steps=measured.steps,
            engine="jit" if measured.is_native else "interpreter",
            functions=_functions(nodes),
            instructions=_instructions(counts, measured, machine_ns),
            allocations=self._allocations(counts, measured),
            calls=nodes,
            events=events,
            lost_events=measured.lost_events,
            peak_bytes=measured.peak_bytes,
            system_calls=measured.system_calls,
            reused_cells=measured.reused_cells,
        )

    def _name(self, code: int) -> tuple[str, bool]:
        """Return the name of a function or kernel by its code, and whether it is a kernel."""
        functions = self.program.functions
        if code == _END:
            return _HOST, False
        if code < len(functions):
            return functions[code].name, False
        return self.program.kernels[code - len(functions)].name, True

    # --- time -------------------------------------------------------------------------------------

    def _nodes(self, measured: Any) -> tuple[CallNode, ...]:
        rows = [measured.nodes[i] for i in range(measured.num_nodes)]
        names = [self._name(row.code) for row in rows]
        own = _own_ticks(rows, measured.untimed_ticks)
        scale = measured.time_ns / sum(own) if sum(own) else 0.0
        total = [ticks * scale for ticks in own]
        # A caller stands before its callees.
        for i in range(len(rows) - 1, 0, -1):
            total[rows[i].parent] += total[i]
        parents = [-1, *(row.parent for row in rows[1:])]
        return tuple(
            CallNode(*name, parent, row.calls, ticks * scale, whole)
            for name, parent, row, ticks, whole in zip(names, parents, rows, own, total)
        )

    def _events(self, measured: Any) -> Iterator[tuple[int, Event]]:
        """Return events as they end, with the place of their beginnings."""
        ratio = measured.time_ns / measured.ticks if measured.ticks else 0.0
        start, last = measured.first_ticks, 0.0
        waiting: list[tuple[int, int, float]] = []
        for i in range(measured.num_events):
            row = measured.events[i]
            last = (row.ticks - start) * ratio
            if row.code != _END:
                waiting.append((i, row.code, last))
            elif waiting:
                place, code, begin = waiting.pop()
                yield place, Event(*self._name(code), begin, last, len(waiting))
        # What a trap left, or was still at work when there was no room for more.
        while waiting:
            place, code, begin = waiting.pop()
            yield place, Event(*self._name(code), begin, last, len(waiting))

    # --- rows -------------------------------------------------------------------------------------

    def _kernels(self, measured: Any, nodes: tuple[CallNode, ...]) -> tuple[KernelProfile, ...]:
        first = len(self.program.functions)
        times: defaultdict[int, float] = defaultdict(float)
        for i, node in enumerate(nodes):
            if node.is_kernel:
                times[measured.nodes[i].code - first] += node.self_ns
        rows = [
            _kernel_profile(kernel, measured.kernels[number], times[number])
            for number, kernel in enumerate(self.program.kernels)
            if measured.kernels[number].calls
        ]
        return tuple(sorted(rows, key=lambda row: -row.time_ns))

    def _counts(self, measured: Any) -> Counter[Instr]:
        """Return the instructions that ran with their counts; equal ones are one."""
        counts: Counter[Instr] = Counter()
        if measured.is_native:
            for number, (function, block) in enumerate(self.blocks):
                if measured.hits[number]:
                    for i in block:
                        counts[function.code[i]] += measured.hits[number]
        else:
            for number, function in enumerate(self.program.functions):
                unit = lib.rvm_profile_first_unit(self.handle, number)
                for instr in function.code:
                    if instr.name != "label":
                        if measured.hits[unit]:
                            counts[instr] += measured.hits[unit]
                        unit += units(instr)
        return counts

    def _allocations(self, counts: Counter[Instr], measured: Any) -> tuple[AllocationProfile, ...]:
        made: Counter[str] = Counter()
        sizes: dict[str, int | None] = {}
        for instr, count in counts.items():
            found = allocation_of(instr, self.program.layouts)
            if found is not None:
                name, size = found
                made[name] += count
                old = sizes.get(name, 0)
                sizes[name] = None if size is None or old is None else old + size * count
        for number, kernel in enumerate(self.program.kernels):
            row = measured.kernels[number]
            if row.new_tensors:
                name = f"results of {kernel.name}"
                made[name] += row.new_tensors
                sizes[name] = (sizes.get(name) or 0) + row.new_bytes
        rows = [AllocationProfile(name, count, sizes[name]) for name, count in made.items()]
        return tuple(sorted(rows, key=lambda row: (-(row.bytes or 0), -row.count, row.name)))


def _own_ticks(rows: list[Any], untimed: int) -> list[float]:
    """Return the time of each row without its callees: measured intervals, and what the others are
    worth by their number and mean, so that all together took the time they took.
    """
    by_code: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        by_code[row.code][0] += row.ticks
        by_code[row.code][1] += row.timed
    all_timed = sum(row.timed for row in rows)
    mean = sum(row.ticks for row in rows) / all_timed if all_timed else 1.0
    guesses: list[float] = []
    for row in rows:
        ticks, timed = (row.ticks, row.timed) if row.timed else by_code[row.code]
        guesses.append((row.intervals - row.timed) * (ticks / timed if timed else mean))
    scale = untimed / sum(guesses) if sum(guesses) else 0.0
    return [row.ticks + guess * scale for row, guess in zip(rows, guesses)]


def _functions(nodes: tuple[CallNode, ...]) -> tuple[FunctionProfile, ...]:
    calls: Counter[str] = Counter()
    own: defaultdict[str, float] = defaultdict(float)
    kernels: defaultdict[str, float] = defaultdict(float)
    total: defaultdict[str, float] = defaultdict(float)
    for node in nodes:
        if node.is_kernel:
            kernels[nodes[node.parent].name] += node.self_ns
            continue
        calls[node.name] += node.calls
        own[node.name] += node.self_ns
        total[node.name] += node.total_ns
    rows = [
        FunctionProfile(n, calls[n], round(own[n]), round(kernels[n]), round(total[n]))
        for n in calls
    ]
    return tuple(sorted(rows, key=lambda row: -row.total_ns))


def _instructions(
    counts: Counter[Instr], measured: Any, machine_ns: float
) -> tuple[InstructionProfile, ...]:
    by_class: Counter[str] = Counter()
    by_name: Counter[str] = Counter()
    for instr, count in counts.items():
        by_class[class_of(instr.name)] += count
        by_name[instr.name] += count
    if measured.is_native:
        rows = [InstructionProfile(name, count, None) for name, count in by_class.items()]
        return tuple(sorted(rows, key=lambda row: -row.count))
    samples = {row.name: measured.samples[row.opcode] for row in BY_OPCODE}
    means = {n: s.ticks / s.count for n, s in samples.items() if s.count}
    often = [means[n] for n, s in samples.items() if s.count >= _LEAST_SAMPLES]
    cost = min(often, default=0.0)
    usual = sum(s.ticks for s in samples.values()) / max(1, sum(s.count for s in samples.values()))
    times: defaultdict[str, float] = defaultdict(float)
    for name, count in by_name.items():
        times[class_of(name)] += count * max(means.get(name, usual) - cost, _LEAST_TICKS)
    scale = machine_ns / sum(times.values()) if times else 0.0
    rows = [
        InstructionProfile(name, count, round(times[name] * scale))
        for name, count in by_class.items()
    ]
    return tuple(sorted(rows, key=lambda row: -(row.time_ns or 0)))


def _kernel_profile(kernel: Kernel, row: Any, time_ns: float) -> KernelProfile:
    return KernelProfile(
        kernel.name,
        row.calls,
        round(time_ns),
        row.work,
        tuple(_operand_text(o) for o in kernel.signature.operands),
        row.bytes,
        row.new_tensors,
        row.new_bytes,
    )


def _operand_text(operand: Operand) -> str:
    return f"{operand.dtype}[{', '.join(map(str, operand.dims))}]"
