"""What the machine itself costs: instructions, calls, matches, allocations, calls of kernels.

Each row is a program in Relay whose `main` takes a number of rounds. Its first lines say what a
round is; how often the machine took a step tells whether all rounds were run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import relayvm
from relayvm.base.diagnostics import error
from relayvm.cli.bench.slopes import Slope, lengths, slope
from relayvm.cli.options import read_text

if TYPE_CHECKING:
    from relayvm.vm.executable import Executable
    from relayvm.vm.machine import VirtualMachine

FOLDER = Path(relayvm.__file__).parents[1] / "bench" / "overhead"
KINDS = ("instruction", "call", "match", "allocation", "kernel call", "Python call")
ENGINES = ("interpreter", "jit")
FLOATS = 16
# A safepoint at the latest after so many steps; and no CPU takes a branch in less.
_SLICE = 65536
_LEAST_NS = 0.1
_TRIED = (16, 64)


@dataclass(frozen=True, slots=True)
class Row:
    """A program to be measured.

    A round has `elements` of what is measured and takes `steps` steps, or with `at_least` that many
    or more. `per_step` counts steps in place of rounds. `lengths` or `most` bound the lengths.
    `less` names the row that is what the round does besides. `from_python` calls `main` each round.
    """

    name: str
    kind: str
    what: str
    text: str
    elements: int = 1
    steps: int = 1
    at_least: bool = False
    per_step: bool = False
    lengths: tuple[int, ...] = ()
    most: int | None = None
    less: str = ""
    from_python: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """A row on one engine; `alone` is without what the row it names in `less` does."""

    row: Row
    engine: str
    slope: Slope
    alone: float | None


# --- rows ----------------------------------------------------------------------------------------


def read_rows(folder: Path, only: str = "") -> list[Row]:
    """Return the rows in a folder that have a text in their names, by kind.

    Raises RelayError `unreadable-file` and `bad-option`.
    """
    paths = sorted(folder.glob("*.relay")) if folder.is_dir() else []
    if not paths:
        message = f"`{folder}` has no programs to measure"
        raise error("unreadable-file", message, help="they lie in `bench/overhead` of the sources")
    rows = [read_row(path) for path in paths]
    names = {row.name for row in rows}
    for row in rows:
        if row.less and row.less not in names:
            raise error("bad-option", f"row `{row.name}`: there is no row `{row.less}`")
    needed = {row.less for row in rows if only in row.name}
    chosen = [row for row in rows if only in row.name or row.name in needed]
    if not any(only in row.name for row in rows):
        known = ", ".join(f"`{name}`" for name in sorted(names))
        raise error("bad-option", f"no row has `{only}` in its name; there are {known}")
    # What others are compared with comes first.
    bases = {row.less for row in chosen}
    return sorted(chosen, key=lambda row: (row.name not in bases, KINDS.index(row.kind), row.name))


def read_row(path: Path) -> Row:
    """Return the row in a file: lines `// key: value`, then a program."""
    text = read_text(path)
    head: dict[str, str] = {}
    for line in text.splitlines():
        found = re.fullmatch(r"// (\w+): (.+)", line)
        if found is None:
            break
        head[found[1]] = found[2].strip()
    fields: dict[str, Any] = {"name": path.stem, "text": text}
    for key, value in head.items():
        if key not in _HEAD:
            raise _bad(path, f"`{key}` is not known; there are {', '.join(_HEAD)}")
        try:
            fields |= _HEAD[key](value)
        except ValueError:
            raise _bad(path, f"`{value}` is no value of `{key}`") from None
    for key in ("kind", "what"):
        if key not in fields:
            raise _bad(path, f"`{key}` is missing")
    return Row(**fields)


def _bad(path: Path, problem: str) -> Exception:
    return error("bad-option", f"row `{path}`: {problem}")


def _kind(value: str) -> dict[str, Any]:
    if value not in KINDS:
        raise ValueError(value)
    return {"kind": value}


def _steps(value: str) -> dict[str, Any]:
    count, _, more = value.partition(" ")
    if more not in ("", "or more"):
        raise ValueError(value)
    return {"steps": int(count), "at_least": bool(more)}


def _named(value: str, known: str, field: str) -> dict[str, Any]:
    if value != known:
        raise ValueError(value)
    return {field: True}


_HEAD: dict[str, Callable[[str], dict[str, Any]]] = {
    "kind": _kind,
    "what": lambda value: {"what": value},
    "less": lambda value: {"less": value},
    "steps": _steps,
    "rounds": lambda value: {"elements": int(value)},
    "most": lambda value: {"most": int(value)},
    "lengths": lambda value: {"lengths": tuple(map(int, value.split()))},
    "per": lambda value: _named(value, "step", "per_step"),
    "calls": lambda value: _named(value, "python", "from_python"),
}


# --- measuring -----------------------------------------------------------------------------------


class Measurement:
    """Measures rows on engines, and remembers those that others are compared with."""

    def __init__(self, rounds: int, seconds: float) -> None:
        """`seconds` is about the time of a long run."""
        self.rounds, self.seconds = rounds, seconds
        self.known: dict[tuple[str, str], float] = {}

    def measure(self, row: Row, engines: Sequence[str]) -> Iterator[Measured]:
        """Measure a row; raises RelayError `folded-loop` if it does not run its rounds."""
        executable = relayvm.compile(relayvm.parse(row.text, name=f"{row.name}.relay"))
        for engine in engines:
            found = _measure(row, executable, engine, self.rounds, self.seconds)
            self.known[row.name, engine] = found.ns
            base = self.known.get((row.less, engine))
            alone = None if base is None else found.ns - base / row.elements
            yield Measured(row, engine, found, alone)


def _measure(row: Row, executable: Executable, engine: str, rounds: int, seconds: float) -> Slope:
    vm = relayvm.VirtualMachine(executable, engine=engine, num_threads=1)
    run = _run(row, vm)
    if row.lengths:
        short, long = row.lengths[0], row.lengths[-1]
    else:
        check_rounds(row, vm, run, *_TRIED)  # a folded loop of any length takes no time
        short, long = lengths(run, seconds, row.most)
    steps = check_rounds(row, vm, run, short, long)
    units = steps if row.per_step else (long - short) * row.elements
    found = slope(run, short, long, rounds, units)
    taken = found.ns * units / max(1, steps)
    if taken < _LEAST_NS and not row.from_python:
        raise _folded(row, f"a step takes {taken:.3f} ns, so it is not one branch of its own")
    return found


def _run(row: Row, vm: VirtualMachine) -> Callable[[int], Any]:
    if not row.from_python:
        return vm.run
    x, call = np.linspace(-1, 1, FLOATS, dtype=np.float32), vm.run
    call(x)
    call = vm.run  # the function that the first call has made ready

    def run(length: int) -> None:
        for _ in range(length):
            call(x)

    return run


def check_rounds(
    row: Row, vm: VirtualMachine, run: Callable[[int], Any], short: int, long: int
) -> int:
    """Return the steps that a long run takes more than a short one; raises RelayError `folded-loop`
    where these are not those of all its rounds, or where safepoints are missing.
    """
    steps, _ = _counted(vm, run, short)
    more_steps, more_points = _counted(vm, run, long)
    taken, rounds = more_steps - steps, long - short
    if row.per_step:
        wanted, fits = 1, taken > 0
    else:
        wanted = row.steps * rounds
        fits = taken > 0 and (taken >= wanted if row.at_least else taken == wanted)
    if not fits:
        each = f"{row.steps}{' or more' if row.at_least else ''}"
        message = f"{rounds:,} more rounds took {taken:,} more steps, not {each} each"
        raise _folded(row, message)
    if not row.from_python and more_points + 1 < more_steps // _SLICE:
        message = f"{more_steps:,} steps had {more_points:,} safepoints"
        raise _folded(row, message)
    return taken


def _counted(vm: VirtualMachine, run: Callable[[int], Any], length: int) -> tuple[int, int]:
    before = vm.stats()
    run(length)
    after = vm.stats()
    return after["steps"] - before["steps"], after["safepoints"] - before["safepoints"]


def _folded(row: Row, reason: str) -> Exception:
    return error("folded-loop", f"row `{row.name}`: {reason}")
