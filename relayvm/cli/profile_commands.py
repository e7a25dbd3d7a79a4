"""`relayvm profile`: where the time of a call goes, as tables, as a page and as a trace."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayvm.cli.file_commands import add_call_options, prepare_call
from relayvm.cli.options import add_command, count, writing
from relayvm.vm.profile import MOST_EVENTS

if TYPE_CHECKING:
    from relayvm.vm.profile import Peaks, Profile

# Sizes that fit the first and second cache of common cores, and none.
_READ_BYTES = (16 << 10, 512 << 10, 64 << 20)


def add_commands(commands: Any) -> None:
    """Add the command of this file to the parser."""
    profile = add_command(
        commands,
        "profile",
        "print where the time of a call goes: by kernel, function and instruction",
    )
    add_call_options(profile)
    profile.add_argument(
        "--warm-ups",
        type=count,
        default=3,
        metavar="CALLS",
        help="calls before the one that is measured (default: 3)",
    )
    profile.add_argument(
        "--html",
        type=Path,
        metavar="FILE.html",
        help="write a report with a flame graph, which needs no network",
    )
    profile.add_argument(
        "--trace",
        type=Path,
        metavar="FILE.json",
        help="write each function and kernel with its times, for Perfetto or chrome://tracing",
    )
    profile.add_argument(
        "--peaks",
        action=argparse.BooleanOptionalAction,
        help="measure what one core can do and compare kernels with it (default: for --html)",
    )
    profile.set_defaults(run=run_profile)


def run_profile(options: argparse.Namespace) -> int:
    """Call one function of an executable and print where its time went."""
    vm, entry, inputs = prepare_call(options)
    for _ in range(options.warm_ups):
        vm.invoke(entry.name, **inputs)
    arguments = [inputs[parameter.name] for parameter in entry.parameters]
    events = 0 if options.trace is None else MOST_EVENTS
    profile = vm.profile(*arguments, entry=entry.name, events=events)
    if options.peaks or (options.peaks is None and options.html is not None):
        profile = profile.with_peaks(measure_peaks())
    print(profile)
    _write(profile, options)
    return 0


def _write(profile: Profile, options: argparse.Namespace) -> None:
    if options.html is not None:
        with writing(options.html):
            options.html.write_text(profile.html(), encoding="utf-8")
    if options.trace is not None:
        with writing(options.trace):
            options.trace.write_text(profile.trace_json(), encoding="utf-8")
        if profile.lost_events:
            lost = f"{profile.lost_events:,} of {MOST_EVENTS + profile.lost_events:,}"
            print(f"note: the trace lacks {lost} beginnings and ends", file=sys.stderr)


def measure_peaks() -> Peaks:
    """Return what one core of this machine can do at most."""
    from relayvm.cli.bench.machine_rates import peak_flops, read_rate
    from relayvm.vm.profile import Peaks

    return Peaks(peak_flops(), tuple((size, read_rate(size)) for size in _READ_BYTES))
