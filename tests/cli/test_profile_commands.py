"""`relayvm profile`: tables on the terminal, a report as a page, a trace; bad options are told."""

from __future__ import annotations

import json

import pytest

from relayvm.cli import profile_commands
from relayvm.vm.profile import Peaks


@pytest.fixture
def given(arrays) -> list[str]:
    return [f"--input={name}={path}" for name, path in arrays.items()]


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
def test_profile_prints_a_table_for_each_kind_of_row(command, executable, given, engine) -> None:
    done = command("profile", executable, *given, "--engine", engine)
    assert (done.code, done.err) == (0, "")
    kernels, functions, instructions, allocations = done.out.split("\n\n")
    first, head, *rows = kernels.splitlines()
    assert first.startswith(f"main on `{engine}`: ") and head.split()[-1] == "kernel"
    assert [row.split()[2] for row in rows[:-2]] == ["1"], "only the last call is measured"
    assert "nn_dense" in rows[0] and rows[-1].endswith("the machine")
    assert functions.splitlines()[-1].endswith("  main") or "  main\n" in functions
    assert "kernel calls" in instructions and "results of " in allocations


def test_profile_takes_the_limits_and_tells_the_errors_of_run(command, executable) -> None:
    assert command("profile", executable, "--random", "--warm-ups", 0, "--entry", "first").code == 0
    done = command("profile", executable, "--random", "--max-memory", 10)
    assert done.code == 1 and done.err.startswith("error[out-of-memory]")
    done = command("profile", executable, "--entry", "nothing")
    assert done.code == 1 and "there are `main`, `first`, `divide`" in done.err


def test_a_page_and_a_trace_are_written(command, executable, given, tmp_path) -> None:
    page, trace = tmp_path / "profile.html", tmp_path / "profile.json"
    files = ("--html", page, "--trace", trace, "--no-peaks")
    done = command("profile", executable, *given, *files)
    assert (done.code, done.err) == (0, "")
    assert page.read_text().startswith("<!DOCTYPE html>") and "nn_dense" in page.read_text()
    slices = [row for row in json.loads(trace.read_text())["traceEvents"] if row["ph"] == "B"]
    assert {row["cat"] for row in slices} == {"function", "kernel"}


def test_peaks_are_measured_for_a_page_and_if_asked_for(
    command, executable, given, tmp_path, monkeypatch
) -> None:
    peaks = Peaks(1e11, ((1 << 14, 2e11), (1 << 26, 1e10)))
    monkeypatch.setattr(profile_commands, "measure_peaks", lambda: peaks)
    assert "% of peak" not in command("profile", executable, *given).out
    assert "% of peak" in command("profile", executable, *given, "--peaks").out
    page = tmp_path / "profile.html"
    assert "% of peak" in command("profile", executable, *given, "--html", page).out
    assert "Peak of one core: 100 Gop/s, reading 16 KiB at 200 GB/s" in page.read_text()


def test_a_trace_that_has_no_room_says_what_it_lacks(
    command, executable, given, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(profile_commands, "MOST_EVENTS", 1)
    done = command("profile", executable, *given, "--trace", tmp_path / "t.json")
    assert done.code == 0 and done.err.startswith("note: the trace lacks ")
    assert len(json.loads((tmp_path / "t.json").read_text())["traceEvents"]) == 4


@pytest.mark.parametrize("option", ["--html", "--trace"])
def test_a_file_that_cannot_be_written_is_told(command, executable, given, option) -> None:
    done = command("profile", executable, *given, option, "/nowhere/file", "--no-peaks")
    assert done.code == 1 and done.err.startswith("error[unwritable-file]: `/nowhere/file`")
    assert command("profile", executable, *given, option).code == 2
