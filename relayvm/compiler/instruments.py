"""What is recorded while passes run: dumps, times, artefacts by stage, reports of faults."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relayvm.base.diagnostics import InternalError, RelayError
from relayvm.base.settings import flag, setting
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module


class Recorder:
    """Follows one run of the pipeline as the environment asks: RELAYVM_DUMP, _TIME and _KEEP."""

    def __init__(self) -> None:
        dumped = setting("RELAYVM_DUMP")
        assert isinstance(dumped, tuple)
        kept = setting("RELAYVM_KEEP")
        assert kept is None or isinstance(kept, Path)
        self.dumped: tuple[str, ...] = dumped
        self.kept = kept
        self.timed = flag("RELAYVM_TIME")
        self.times: list[tuple[str, float]] = []

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Note the time that the `with` block takes as that of the pass."""
        start = time.perf_counter()
        yield
        self.times.append((name, time.perf_counter() - start))

    def record(self, name: str, before: Module, after: Module) -> None:
        """Print and keep the result of a pass."""
        if name in self.dumped or "all" in self.dumped:
            text = "unchanged\n" if after is before else print_module(after, library=True)
            sys.stderr.write(f"// after {name}: {text if after is before else ''}")
            sys.stderr.write("" if after is before else f"\n{text}")
        if self.kept is not None:
            self.kept.mkdir(parents=True, exist_ok=True)
            path = self.kept / f"{len(self.times):02d}-{name}.relay"
            path.write_text(print_module(after, library=True), encoding="utf-8")

    def finish(self) -> None:
        """Print the times of all passes."""
        if self.timed:
            for name, seconds in self.times:
                sys.stderr.write(f"{seconds * 1e3:10.2f} ms  {name}\n")


def report_fault(name: str, module: Module) -> InternalError:
    """Return the error for a pass that failed, after writing the module it failed on to a file."""
    reason = _reason()
    try:
        handle, path = tempfile.mkstemp(prefix=f"relayvm-{name}-", suffix=".relay")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(print_module(module, library=True))
        again = f"; reproduce: relayvm opt --passes={name} {path}"
    except Exception as second:
        again = f"; the module could not be written either: {second}"
    return InternalError(f"pass `{name}` failed: {reason}{again}")


def _reason() -> str:
    """Return what the exception being handled says, on one line."""
    caught = sys.exc_info()[1]
    if isinstance(caught, RelayError):
        return "; ".join(d.message for d in caught.diagnostics)
    return traceback.format_exc(limit=-1).strip().splitlines()[-1]
