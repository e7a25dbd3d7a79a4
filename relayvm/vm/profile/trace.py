"""The events of a profile in the trace event format of Chrome and Perfetto."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relayvm.vm.profile.model import Profile

_PROCESS, _THREAD = 1, 1


def trace_json(profile: Profile) -> str:
    """Return JSON text: a row of slices, of which each lies within those around it."""
    where = {"pid": _PROCESS, "tid": _THREAD}
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", **where, "args": {"name": "relayvm"}},
        {"ph": "M", "name": "thread_name", **where, "args": {"name": f"@{profile.entry}"}},
    ]
    kernels = {row.name: row for row in profile.kernels}
    for event in profile.events:
        kind = "kernel" if event.is_kernel else "function"
        row: dict[str, Any] = {"ph": "X", "name": event.name, "cat": kind, **where}
        row["ts"] = round(event.begin_ns / 1000, 4)
        row["dur"] = round((event.end_ns - event.begin_ns) / 1000, 4)
        if event.is_kernel and event.name in kernels:
            row["args"] = {"operands": ", ".join(kernels[event.name].operands)}
        rows.append(row)
    about = {"entry": profile.entry, "engine": profile.engine, "lost events": profile.lost_events}
    return json.dumps({"traceEvents": rows, "displayTimeUnit": "ns", "otherData": about})
