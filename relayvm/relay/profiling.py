"""Measured runs by TVM's names: `runtime.profiling` and `runtime.profiler_vm`."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Union

from relayvm.base.diagnostics import error
from relayvm.relay.machine import VirtualMachine
from relayvm.relay.ndarray import Device, cpu
from relayvm.vm.profile import KernelProfile, Profile

WARM_UPS = 3
DURATION, PERCENT, SHAPES = "Duration (us)", "Percent", "Argument Shapes"
_COLUMNS = ("Name", DURATION, PERCENT, "Device", "Count", SHAPES)


@dataclass(frozen=True)
class Count:
    """A number of things."""

    count: int

    @property
    def value(self) -> int:
        """The number."""
        return self.count


@dataclass(frozen=True)
class Duration:
    """A time in microseconds."""

    duration: float

    @property
    def microseconds(self) -> float:
        """The time."""
        return self.duration


@dataclass(frozen=True)
class Percent:
    """A part of all, as a percentage."""

    percent: float


@dataclass(frozen=True)
class Ratio:
    """A quotient of two amounts."""

    ratio: float


Metric = Union[Count, Duration, Percent, Ratio, str]
_KEYS: dict[str, type] = {
    "count": Count,
    "microseconds": Duration,
    "percent": Percent,
    "ratio": Ratio,
}


class Report:
    """What a measured run tells: a row of metrics for each kernel, and for the device."""

    def __init__(
        self,
        calls: Sequence[Mapping[str, Metric]],
        device_metrics: Mapping[str, Mapping[str, Metric]],
        configuration: Mapping[str, Any],
    ) -> None:
        self.calls = [dict(row) for row in calls]
        self.device_metrics = {name: dict(row) for name, row in device_metrics.items()}
        self.configuration = dict(configuration)

    def csv(self) -> str:
        """Return the rows as CSV, with a head."""
        columns = self._columns()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_plain(row.get(c, "")) for c in columns] for row in self.calls)
        return text.getvalue()

    def table(self, sort: bool = True, aggregate: bool = True, col_sums: bool = True) -> str:
        """Return the rows as text; with `col_sums`, sums of columns and the device below them.

        A row stands for all calls of its kernel already; with `aggregate`, rows of one name are
        joined, and with `sort` those that took longest come first.
        """
        rows = _joined(self.calls) if aggregate else self.calls
        if sort and aggregate:
            rows = sorted(rows, key=lambda row: -_number(row.get(DURATION)))
        lines = [dict(row) for row in rows]
        if col_sums:
            lines.append(_sums(lines))
        lines += [{"Name": "Total", **row} for row in self.device_metrics.values()]
        columns = self._columns()
        cells = [list(columns), *([_shown(row.get(c, "")) for c in columns] for row in lines)]
        cells += [[name, str(value)] for name, value in self.configuration.items()]
        return _aligned(cells, len(columns))

    def json(self) -> str:
        """Return the report as JSON, which `from_json` reads."""
        document = {
            "calls": [_to_json(row) for row in self.calls],
            "device_metrics": {n: _to_json(row) for n, row in self.device_metrics.items()},
            "configuration": self.configuration,
        }
        return json.dumps(document)

    @classmethod
    def from_json(cls, s: str) -> Report:
        """Return the report of a JSON text; raises RelayError `bad-option` where it is none."""
        try:
            document = json.loads(s)
            calls = [_from_json(row) for row in document["calls"]]
            devices = {n: _from_json(row) for n, row in document["device_metrics"].items()}
            return cls(calls, devices, document.get("configuration", {}))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise error("bad-option", "this text is no report in JSON") from None

    def __str__(self) -> str:
        return self.table()

    def _columns(self) -> list[str]:
        names = {name for row in self.calls for name in row}
        known = [c for c in _COLUMNS if c in names or not names]
        return known + sorted(names - set(known))


class VirtualMachineProfiler(VirtualMachine):
    """A machine that can tell where its time goes."""

    def __init__(
        self,
        exe: Any,
        device: Device | Sequence[Device],
        memory_cfg: str | Mapping[Device, str] | None = None,
    ) -> None:
        super().__init__(exe, device, memory_cfg)

    def get_stat(self, sort_by_time: bool = True) -> str:
        """Return nothing: `profile` has taken its place."""
        warnings.warn("`get_stat` tells nothing any more; use `profile`", stacklevel=2)
        return ""

    def profile(
        self,
        *args: Any,
        func_name: str = "main",
        collectors: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> Report:
        """Call a function three times, then once more, and report the last call.

        Without arguments it runs on those that are set. Only times are measured: raises RelayError
        `bad-option` for `collectors` of anything else.
        """
        if collectors:
            kinds = ", ".join(f"`{type(c).__name__}`" for c in collectors)
            raise error("bad-option", f"only times are measured; nothing is collected by {kinds}")
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        for _ in range(WARM_UPS):
            self.invoke_stateful(func_name)
        values = self._inputs.get(func_name, [])
        measured = self.native.profile(*values, entry=func_name)
        return report_of(measured, self.native.num_threads)


def enabled() -> bool:
    """Tell that machines can be measured."""
    return True


def report_of(profile: Profile, num_threads: int = 1) -> Report:
    """Return the report of a measured call on a machine of so many threads."""
    device = str(cpu())
    calls = [_row(row, profile.time_ns, device) for row in profile.kernels]
    whole: dict[str, Metric] = {
        DURATION: Duration(profile.time_ns / 1000),
        PERCENT: Percent(100.0),
        "Device": device,
        "Count": Count(1),
    }
    configuration = {"Executor": "VM", "Number of threads": num_threads}
    return Report(calls, {device: whole}, configuration)


def _row(row: KernelProfile, time_ns: int, device: str) -> dict[str, Metric]:
    return {
        "Name": row.name,
        DURATION: Duration(row.time_ns / 1000),
        PERCENT: Percent(100 * row.time_ns / time_ns if time_ns else 0.0),
        "Device": device,
        "Count": Count(row.calls),
        SHAPES: ", ".join(row.operands),
    }


# --- metrics -----------------------------------------------------------------------------------


def _plain(metric: Any) -> Any:
    """Return the number in a metric; texts are themselves."""
    values = [] if isinstance(metric, str) else list(asdict(metric).values())
    return values[0] if values else metric


def _number(metric: Any) -> float:
    return 0.0 if metric is None or isinstance(metric, str) else float(_plain(metric))


def _shown(metric: Any) -> str:
    value = _plain(metric)
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def _to_json(row: Mapping[str, Metric]) -> dict[str, Any]:
    keys = {kind: key for key, kind in _KEYS.items()}
    return {n: m if isinstance(m, str) else {keys[type(m)]: _plain(m)} for n, m in row.items()}


def _from_json(row: Mapping[str, Any]) -> dict[str, Metric]:
    metrics: dict[str, Metric] = {}
    for name, value in row.items():
        if isinstance(value, str):
            metrics[name] = value
        else:
            ((key, number),) = value.items()
            metrics[name] = _KEYS[key](number)
    return metrics


def _added(a: Metric, b: Metric) -> Metric:
    """Return the sum of two metrics of a kind; of others the one that both are, or none."""
    if isinstance(a, (str, Ratio)) or type(a) is not type(b):
        return a if a == b else ""
    return type(a)(_plain(a) + _plain(b))


def _joined(rows: Sequence[Mapping[str, Metric]]) -> list[dict[str, Metric]]:
    """Return one row for each name and its shapes."""
    joined: dict[Any, dict[str, Metric]] = {}
    for row in rows:
        key = (row.get("Name"), row.get("Device"), row.get(SHAPES))
        old = joined.get(key, {})
        joined[key] = old | {n: _added(old[n], m) if n in old else m for n, m in row.items()}
    return list(joined.values())


def _sums(rows: Sequence[Mapping[str, Metric]]) -> dict[str, Metric]:
    sums: dict[str, Metric] = {}
    for row in rows:
        for name, metric in row.items():
            if not isinstance(metric, (str, Ratio)):
                sums[name] = _added(sums[name], metric) if name in sums else metric
    return {**sums, "Name": "Sum"}


def _aligned(cells: Sequence[Sequence[str]], width: int) -> str:
    """Return rows of cells as lines; columns of numbers stand to the right."""
    full = [row for row in cells if len(row) == width]
    wide = [max(len(row[i]) for row in full) for i in range(width)]
    lines = []
    for row in cells:
        if len(row) != width:
            lines.append(": ".join(row))
            continue
        parts = [row[0].ljust(wide[0]), *(c.rjust(w) for c, w in zip(row[1:], wide[1:]))]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines) + "\n"
