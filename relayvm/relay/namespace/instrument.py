"""Instruments: objects that see each pass before and after it runs."""

from __future__ import annotations

import inspect
import time
from collections.abc import Collection
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from relayvm.relay.lazy import absent
from relayvm.relay.module import IRModule
from relayvm.relay.namespace.transform import PassInfo


class PassInstrument:
    """Base of instruments: subclasses redefine what they care about."""

    def enter_pass_ctx(self) -> None:
        """Note that the context opens."""

    def exit_pass_ctx(self) -> None:
        """Note that the context closes."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Tell whether a pass may run; it may unless an instrument says no."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """See the module before a pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """See the module after a pass."""


def pass_instrument(pi_cls: Any = None) -> Any:
    """Return a class of instruments made of a class that has some of their methods.

    Used as a decorator.
    """

    def create(target: type) -> type[PassInstrument]:
        if not inspect.isclass(target):
            raise TypeError("pi_cls must be a class")

        if issubclass(target, PassInstrument):
            return target
        about = {"__doc__": target.__doc__, "__module__": target.__module__}
        made: type[PassInstrument] = type(target.__name__, (target, PassInstrument), about)
        return made

    return create if pi_cls is None else create(pi_cls)


class _Timing:
    """A pass that ran: name, seconds, and the passes that ran inside."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = time.perf_counter()
        self.seconds = 0.0
        self.inner: list[_Timing] = []

    def lines(self, depth: int) -> list[str]:
        own = self.seconds - sum(inner.seconds for inner in self.inner)
        line = f"{'  ' * depth}{self.name}: {self.seconds * 1e6:.0f}us [{own * 1e6:.0f}us]"
        return [line, *(text for inner in self.inner for text in inner.lines(depth + 1))]


class PassTimingInstrument(PassInstrument):
    """Measures how long each pass takes."""

    def __init__(self) -> None:
        self._roots: list[_Timing] = []
        self._open: list[_Timing] = []

    def enter_pass_ctx(self) -> None:
        """Forget earlier times; `render` shows those of this instrument."""
        self._roots, self._open = [], []
        _last_timing.set(self)

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Start the clock of a pass."""
        timing = _Timing(info.name)
        (self._open[-1].inner if self._open else self._roots).append(timing)
        self._open.append(timing)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Stop the clock of a pass."""
        timing = self._open.pop()
        timing.seconds = time.perf_counter() - timing.start

    @staticmethod
    def render() -> str:
        """Return the times of the passes, those that ran inside of others indented: the whole and
        what the pass itself took.
        """
        timing = _last_timing.get()
        roots = timing._roots if timing is not None else []
        return "".join(f"{line}\n" for root in roots for line in root.lines(0))


_last_timing: ContextVar[PassTimingInstrument | None] = ContextVar("pass_timing", default=None)


class PassPrintingInstrument(PassInstrument):
    """Prints the module before and after passes of these names."""

    def __init__(
        self, print_before_pass_names: Collection[str], print_after_pass_names: Collection[str]
    ) -> None:
        self.print_before_pass_names = print_before_pass_names
        self.print_after_pass_names = print_after_pass_names

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print the module, if the name is one of them."""
        if info.name in self.print_before_pass_names:
            print(f"Print IR before: {info.name}\n{mod}\n\n")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print the module, if the name is one of them."""
        if info.name in self.print_after_pass_names:
            print(f"Print IR after: {info.name}\n{mod}\n\n")


class PrintBeforeAll(PassInstrument):
    """Prints the module before each pass."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print the module."""
        print(f"Before Running Pass: {info}")
        print(mod)


class PrintAfterAll(PassInstrument):
    """Prints the module after each pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print the module."""
        print(f"After Running Pass: {info}")
        print(mod)


class DumpIR(PassInstrument):
    """Writes the module after each pass to a file of a folder."""

    def __init__(self, dump_dir: Path | str, refresh: bool = False) -> None:
        self.dump_dir = Path(dump_dir)
        self.dump_dir.mkdir(parents=True, exist_ok=True)
        if refresh:
            for path in self.dump_dir.glob("*.relay"):
                path.unlink()
        self.counter = 0

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Write the module."""
        name = "".join(c if c.isalnum() or c in "_.-" else "_" for c in info.name)
        path = self.dump_dir / f"{self.counter:03d}_{name}.relay"
        path.write_text(mod.astext(), encoding="utf-8")
        self.counter += 1


__getattr__ = absent("relayvm.instrument")
