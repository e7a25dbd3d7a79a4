"""What a run, and calls one after the other, notice of `auto`: gaps in a run and the times of calls
while its program is compiled in the background, beside those of the interpreter.

`python -m bench.test_switch` prints the table alone.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import relayvm
from bench.test_engines import PROGRAM
from relayvm.vm.executable import Executable
from relayvm.vm.library import ffi, lib
from relayvm.vm.machine import VirtualMachine

# Each round of `beat` spins for some 5 us and then calls a kernel, which reads the clock.
BEAT = """
def @spin(%i: int64, %acc: int64) -> int64 {
  if (%i == 0i64) { %acc } else { @spin(%i - 1i64, bitwise_xor(%acc, %i)) }
}
def @beat(%i: int64, %x: Tensor[(2), float32], %acc: int64) -> int64 {
  if (%i == 0i64) { %acc }
  else {
    let %y = %x + 1f;
    @beat(%i - 1i64, %y, @spin(1000i64, %acc))
  }
}
"""
ROUNDS = 400_000
CALLS = 150_000


NOTE = """
#include <stdint.h>
#include <time.h>
int64_t stamps[1 << 20];
int64_t count;
int32_t note(void *const *args, const int64_t *dims, int64_t begin, int64_t end, void *scratch) {
    struct timespec now, own;
    clock_gettime(CLOCK_MONOTONIC, &now);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
    const int64_t i = count++ & ((1 << 19) - 1);
    stamps[2 * i] = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    stamps[2 * i + 1] = own.tv_sec * INT64_C(1000000000) + own.tv_nsec;
    return 0;
}
"""


class Clock:
    """A kernel in C that notes when it was called."""

    def __init__(self, exe: Executable, folder: Path) -> None:
        source, library = folder / "note.c", folder / "note.so"
        source.write_text(NOTE)
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True
        )
        self.library = ctypes.CDLL(str(library))
        names = [kernel.name for kernel in exe.program().kernels]
        note = ctypes.cast(self.library.note, ctypes.c_void_p).value
        place = ffi.new("uint64_t[]", [note])
        assert lib.rvm_kernel_bind(exe.handle, names.index("add"), place, 1)

    def stamps_us(self) -> np.ndarray:
        """Return the times of all calls: of the day, and of the thread."""
        found = (ctypes.c_int64 * (2 * ROUNDS)).in_dll(self.library, "stamps")
        return np.array(found, np.int64).reshape(ROUNDS, 2) / 1000


def fresh() -> Executable:
    """Return a program that no cache holds code for: its text names a number."""
    unique = f"def @unique() -> int64 {{ {time.time_ns()}i64 }}\n"
    return relayvm.compile(relayvm.parse(PROGRAM + BEAT + unique))


def run_us(engine: str) -> tuple[np.ndarray, bool]:
    """Return when the kernel was called in one run, and whether that went on in native code."""
    exe = fresh()
    with tempfile.TemporaryDirectory() as folder:
        clock, vm = Clock(exe, Path(folder)), VirtualMachine(exe, engine=engine, num_threads=1)
        vm.invoke("beat", ROUNDS, np.ones(2, np.float32), 0)
        return clock.stamps_us(), bool(lib.rvm_program_is_native(exe.handle))


def calls_us(engine: str) -> tuple[np.ndarray, int]:
    """Return the times of calls of a program until it has native code, and their number."""
    exe = fresh()
    vm = VirtualMachine(exe, engine=engine, num_threads=1)
    times = np.zeros(CALLS)
    for i in range(CALLS):
        begin = time.perf_counter_ns()
        vm.invoke("spin", 200, 1)
        times[i] = (time.perf_counter_ns() - begin) / 1000
        if i % 256 == 0 and lib.rvm_program_is_native(exe.handle):
            return times[1000:i], i
    return times[1000:], CALLS


RUNS = 6
WINDOW = 64


def switch_us(stamps: np.ndarray) -> float:
    """Return the longest gap of the thread's own time around where rounds become faster for good,
    which is where the run went on in native code.
    """
    own = np.diff(stamps[:, 1])
    medians = np.median(own[: len(own) // WINDOW * WINDOW].reshape(-1, WINDOW), axis=1)
    first = int(np.argmax(medians < (medians[0] + medians[-1]) / 2)) * WINDOW
    return float(own[max(0, first - WINDOW) : first + 2 * WINDOW].max())


def pauses(engine: str) -> str:
    """Return the longest gap between rounds, and what of it the thread itself spent, of the run
    that others disturbed least; gaps of the host's own making are in the interpreter's too.
    """
    longest, own, switches, switched = [], [], [], []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        stamps, native = run_us(engine)
        switches.append(resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw - before)
        gaps = np.diff(stamps, axis=0).max(axis=0)
        longest.append(gaps[0])
        own.append(gaps[1])
        if native:
            switched.append(switch_us(stamps))
    texts = [", ".join(f"{v:.0f}" for v in sorted(values)) for values in (longest, own, switched)]
    return (
        f"{engine:12} the longest pause of each of {RUNS} runs, {len(switched)} of them native at "
        f"their end: {texts[0]} us; of the thread's own time: {texts[1]} us, at the switch: "
        f"{texts[2] or 'none'} us; preempted {switches} times"
    )


def calls(engine: str) -> str:
    """Return the times of short calls, until the program has native code."""
    times, count = calls_us(engine)
    quantiles = ", ".join(f"p{100 * q:g} {np.quantile(times, q):.2f}" for q in (0.5, 0.9, 0.99))
    return f"{engine:12} {count} calls: {quantiles} us"


def report() -> list[str]:
    """Return the lines of the table."""
    os.environ["RELAYVM_CACHE"] = ""  # nothing is compiled already
    gc.disable()
    engines = ("interpreter", "auto")
    lines = [of(engine) for of in (pauses, calls) for engine in engines]
    gc.enable()
    return lines


def test_switch(capsys) -> None:
    lines = report()
    with capsys.disabled():
        print("", *lines, sep="\n  ")
    assert f"{RUNS} of them native" in lines[1]


if __name__ == "__main__":
    print("\n".join(report()))
