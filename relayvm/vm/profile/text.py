"""The tables of a profile, and how they look as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from relayvm.base.diagnostics import quantity

if TYPE_CHECKING:
    from relayvm.vm.profile.model import Profile


@dataclass(frozen=True, slots=True)
class Cell:
    """A number with its text; None sorts below all."""

    text: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows whose last cell is a name and whose others are numbers; `note` says how to read it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    sums: tuple[tuple[Cell, ...], ...] = ()
    note: str = ""


def tables(profile: Profile) -> list[Table]:
    """Return the tables of a profile: kernels, functions, instructions, allocations."""
    return [_kernels(profile), _functions(profile), _instructions(profile), _allocations(profile)]


def shown(profile: Profile) -> str:
    """Return the tables as text; those of kernels come first."""
    engine = f" on `{profile.engine}`" if profile.engine else ""
    steps = quantity(profile.steps, "step")
    first = f"{profile.entry}{engine}: {profile.time_ns / 1000:,.1f} us, {steps}"
    blocks = [_lines(table) for table in tables(profile) if table.rows or table.sums]
    return "\n\n".join("\n".join(block) for block in [[first, *blocks[0]], *blocks[1:]])


def _lines(table: Table) -> list[str]:
    cells = [*table.rows, *table.sums]
    heads = [Cell(column) for column in table.columns]
    widths = [max(len(row[i].text) for row in [heads, *cells]) for i in range(len(heads) - 1)]
    return [
        "  ".join([*(c.text.rjust(w) for c, w in zip(row, widths)), row[-1].text])
        for row in [heads, *cells]
    ]


# --- cells ---------------------------------------------------------------------------------------


def _time(time_ns: float) -> Cell:
    return Cell(f"{time_ns / 1000:,.1f}", time_ns)


def _short(time_ns: float) -> Cell:
    return Cell(f"{time_ns:,.1f}", time_ns)


def _count(count: int) -> Cell:
    return Cell(f"{count:,}", count)


def _share(part: float, whole: float) -> Cell:
    share = 100 * part / whole if whole else 0.0
    return Cell(f"{share:.1f}", share)


def _each(total: float, count: int) -> float:
    return total / count if count else 0.0


def _none() -> Cell:
    return Cell("-")


def _name(name: str) -> Cell:
    return Cell(name)


# --- tables --------------------------------------------------------------------------------------


def _kernels(profile: Profile) -> Table:
    peaks, whole = profile.peaks, profile.time_ns
    columns = ["time us", "%", "calls", "us a call", "Gop/s", "GB/s", "kernel"]
    if peaks is not None:
        columns.insert(-1, "% of peak")
    rows: list[tuple[Cell, ...]] = []
    for row in profile.kernels:
        cells = [_time(row.time_ns), _share(row.time_ns, whole), _count(row.calls)]
        each = _each(row.time_ns, row.calls)
        cells.append(Cell(f"{each / 1000:,.2f}", each))
        cells += [Cell(f"{rate:.2f}", rate) for rate in (row.work_rate, row.byte_rate)]
        if peaks is not None:
            cells.append(_share(row.share_of_peak(peaks), 1))
        rows.append((*cells, _name(row.name)))
    blank = [Cell("")] * (len(columns) - 4)
    taken = profile.kernel_time_ns
    sums = (
        (
            _time(taken),
            _share(taken, whole),
            _count(profile.kernel_calls),
            *blank,
            _name("all kernels"),
        ),
        (
            _time(whole - taken),
            _share(whole - taken, whole),
            Cell(""),
            *blank,
            _name("the machine"),
        ),
    )
    note = "Gop/s: scalar operations that the compiler counted. GB/s: bytes of all operands."
    if peaks is not None:
        note += f" Peak of one core: {peaks.flops / 1e9:.0f} Gop/s, reading " + ", ".join(
            f"{_size(size)} at {rate / 1e9:.0f} GB/s" for size, rate in peaks.read_rates
        )
    return Table("Kernels", tuple(columns), tuple(rows), sums, note)


def _size(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"


def _functions(profile: Profile) -> Table:
    columns = ("total us", "self us", "kernels us", "calls", "self ns a call", "function")
    rows = tuple(
        (
            _time(row.total_ns),
            _time(row.self_ns),
            _time(row.kernel_ns),
            _count(row.calls),
            _short(_each(row.self_ns, row.calls)),
            _name(row.name),
        )
        for row in profile.functions
    )
    note = (
        "self: the machine's time in the function's own instructions, without callees and kernels"
    )
    return Table("Functions", columns, rows, note=note)


def _instructions(profile: Profile) -> Table:
    columns = ("count", "time us", "%", "ns each", "instructions")
    machine_ns = sum(row.time_ns or 0 for row in profile.instructions)
    rows: list[tuple[Cell, ...]] = []
    for row in profile.instructions:
        timed = [_none()] * 3
        if row.time_ns is not None:
            each = _short(_each(row.time_ns, row.count))
            timed = [_time(row.time_ns), _share(row.time_ns, machine_ns), each]
        rows.append((_count(row.count), *timed, _name(row.name)))
    note = "counts are exact; times are the machine's, shared out by a sample of instructions"
    if any(row.time_ns is None for row in profile.instructions):
        note = "counts are exact; in compiled code instructions have no time of their own"
    return Table("Instructions", columns, tuple(rows), note=note)


def _allocations(profile: Profile) -> Table:
    columns = ("objects", "bytes", "allocated")
    rows = tuple(
        (_count(row.count), _none() if row.bytes is None else _count(row.bytes), _name(row.name))
        for row in profile.allocations
    )
    times, cells = quantity(profile.system_calls, "time"), quantity(profile.reused_cells, "cell")
    held = f"at most {quantity(profile.peak_bytes, 'byte')} were held"
    note = f"{held}; the system was asked for more {times}; {cells} took a dead one's memory"
    return Table("Allocations", columns, rows, note=note)
