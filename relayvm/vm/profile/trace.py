"""The events of a profile in the trace event format of Chrome and Perfetto."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relayvm.vm.profile.model import Event, Profile

_WHERE = {"pid": 1, "tid": 1}


def trace_json(profile: Profile) -> str:
    """Return JSON text: beginnings and ends of slices, of which each lies within those around it.

    They are pairs, not slices with a duration, since readers round times to nanoseconds: the end of
    a slice could come behind the beginning of the next, and Perfetto leaves such a slice out.
    """
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", **_WHERE, "args": {"name": "relayvm"}},
        {"ph": "M", "name": "thread_name", **_WHERE, "args": {"name": f"@{profile.entry}"}},
    ]
    operands = {row.name: ", ".join(row.operands) for row in profile.kernels}
    open_: list[Event] = []
    for event in profile.events:
        while len(open_) > event.depth:
            rows.append(_end(open_.pop()))
        open_.append(event)
        rows.append(_begin(event, operands))
    rows += map(_end, reversed(open_))
    about = {"entry": profile.entry, "engine": profile.engine, "lost events": profile.lost_events}
    return json.dumps({"traceEvents": rows, "displayTimeUnit": "ns", "otherData": about})


def _begin(event: Event, operands: dict[str, str]) -> dict[str, Any]:
    kind = "kernel" if event.is_kernel else "function"
    row = {
        "ph": "B",
        "name": event.name,
        "cat": kind,
        **_WHERE,
        "ts": _microseconds(event.begin_ns),
    }
    if event.is_kernel and event.name in operands:
        row["args"] = {"operands": operands[event.name]}
    return row


def _end(event: Event) -> dict[str, Any]:
    return {"ph": "E", **_WHERE, "ts": _microseconds(event.end_ns)}


def _microseconds(time_ns: float) -> float:
    return round(time_ns) / 1000
