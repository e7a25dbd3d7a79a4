"""What a measured call of an entry tells: the time of each of its kernels, and of all the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relayvm.base.abi import Kernel, Operand
from relayvm.vm.file.decode import decode_kernels

if TYPE_CHECKING:
    from relayvm.vm.executable import Executable


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """All calls of one kernel in a measured call of an entry.

    `time_ns` is that of the kernel's code alone: checks of sizes and allocations belong to the
    machine. `work` estimates the scalar operations. `operands` are inputs, then outputs, with the
    sizes that the compiler knew; the others are names.
    """

    name: str
    calls: int
    time_ns: int
    work: int
    operands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """A measured call of `entry`: the kernels that ran, those that took longest first.

    `time_ns` is that of the whole call, without conversions of arguments and results on the host's
    side. `steps` are what `max_steps` limits. Printed, it is a table.
    """

    entry: str
    kernels: tuple[KernelProfile, ...]
    time_ns: int
    steps: int

    @property
    def kernel_time_ns(self) -> int:
        """The time of all kernels together; the machine took the rest."""
        return sum(row.time_ns for row in self.kernels)

    @property
    def kernel_calls(self) -> int:
        """How many times any kernel was called."""
        return sum(row.calls for row in self.kernels)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.entry}: {self.time_ns / 1000:,.1f} us, {self.steps:,} steps"
        yield f"{'time us':>12} {'%':>6} {'calls':>10} {'us a call':>10} {'Gop/s':>7}  kernel"
        for row in self.kernels:
            rate = f"{row.work / row.time_ns:7.2f}" if row.time_ns else f"{'-':>7}"
            each = row.time_ns / 1000 / row.calls
            yield f"{self._time(row.time_ns)} {row.calls:10,} {each:10,.2f} {rate}  {row.name}"
        yield f"{self._time(self.kernel_time_ns)} {self.kernel_calls:10,} {'':18}  all kernels"
        yield f"{self._time(self.time_ns - self.kernel_time_ns)} {'':29}  the machine"

    def _time(self, time_ns: int) -> str:
        percent = 100 * time_ns / self.time_ns if self.time_ns else 0.0
        return f"{time_ns / 1000:12,.1f} {percent:6.1f}"


def profile_of(executable: Executable, entry: str, measured: Any) -> Profile:
    """Return the profile in a `rvm_profile` of the runtime."""
    rows = [
        _kernel_profile(kernel, measured.kernels[number])
        for number, kernel in enumerate(decode_kernels(executable.section))
        if measured.kernels[number].calls
    ]
    rows.sort(key=lambda row: -row.time_ns)
    return Profile(entry, tuple(rows), measured.time_ns, measured.steps)


def _kernel_profile(kernel: Kernel, row: Any) -> KernelProfile:
    operands = tuple(_operand_text(o) for o in kernel.signature.operands)
    return KernelProfile(kernel.name, row.calls, row.time_ns, row.work, operands)


def _operand_text(operand: Operand) -> str:
    return f"{operand.dtype}[{', '.join(map(str, operand.dims))}]"
