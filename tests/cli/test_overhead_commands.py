"""`relayvm bench overhead`: a line for each row and system, and no row whose rounds are not run."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.cli.bench import overhead, overhead_peers
from relayvm.cli.bench.overhead_peers import Peer
from relayvm.cli.bench.overhead_report import Result, to_json, to_svg
from relayvm.cli.bench.slopes import Slope, confidence, lengths, slope

QUICK = ("bench", "overhead", "--rounds", 3, "--milliseconds", 1)
HEAD = "// kind: instruction\n// what: a round\n"
FOLDED = "def @main(%n: int64) -> int64 { %n * 2i64 }"
LOOP = """
def @main(%n: int64) -> int64 { @loop(0i64, 1i64, %n) }
def @loop(%i: int64, %acc: int64, %n: int64) -> int64 {
  if (%i < %n) { @loop(%i + 1i64, %acc * 3i64, %n) } else { %acc }
}
"""
ROWS = overhead.read_rows(overhead.FOLDER)


def written(folder: Path, text: str, name: str = "row") -> Path:
    (folder / f"{name}.relay").write_text(text)
    return folder


# --- the programs --------------------------------------------------------------------------------


def test_there_is_a_row_for_each_kind() -> None:
    assert {row.kind for row in ROWS} == set(overhead.KINDS) and len(ROWS) >= 28
    assert all(len(row.what) > 10 for row in ROWS)


@pytest.mark.parametrize("engine", overhead.ENGINES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_all_rounds_of_each_row_are_run_with_their_safepoints(
    row: overhead.Row, engine: str
) -> None:
    exe = relayvm.compile(relayvm.parse(row.text))
    vm = relayvm.VirtualMachine(exe, engine=engine)
    run = overhead._run(row, vm)
    short, long = (row.lengths[0], row.lengths[-1]) if row.lengths else (100, 150_000)
    long = min(long, row.most or long, 2000 if row.from_python or row.elements > 1 else long)
    taken = overhead.check_rounds(row, vm, run, short, long)
    assert taken > 0
    assert long < 150_000 or vm.stats()["safepoints"] >= 2


# --- the command ---------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["interpreter", "jit", "both"])
def test_a_line_for_each_row_and_engine(command, engine) -> None:
    done = command(*QUICK, "--only", "integer_xor", "--engine", engine, "--no-peers")
    assert (done.code, done.err) == (0, "")
    head, *lines = done.out.splitlines()
    assert head.split() == ["ns", "95%", "interval", "alone", "row", "system", "what"]
    engines = ["interpreter", "jit"] if engine == "both" else [engine]
    found = [re.match(r" *([-\d.,]+) +\[(.*), (.*)\] +([-\d.]+)? +(\w+) +(\w+) ", x) for x in lines]
    assert [(m[5], m[6]) for m in found if m] == [
        (row, system) for row in ("loop", "integer_xor") for system in engines
    ]
    assert all(m and (m[4] is not None) == (m[5] == "integer_xor") for m in found)


def test_results_are_written_as_json_and_as_a_picture(command, tmp_path) -> None:
    output, plot = tmp_path / "o.json", tmp_path / "o.svg"
    files = ("--output", output, "--plot", plot)
    done = command(*QUICK, "--rows", written(tmp_path, HEAD + LOOP), "--no-peers", *files)
    assert (done.code, done.err) == (0, "")
    rows = json.loads(output.read_text())["rows"]
    assert [(row["row"], row["system"]) for row in rows] == [("row", "interpreter"), ("row", "jit")]
    assert all(row["low"] <= row["ns"] <= row["high"] for row in rows)
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("steps", "program"),
    [
        ("", FOLDED),
        ("// steps: 2\n", LOOP),
        ("// steps: 2 or more\n", LOOP),
        ("// per: step\n", FOLDED),
    ],
)
def test_a_loop_that_is_folded_ends_the_benchmark(command, tmp_path, steps, program) -> None:
    rows = written(tmp_path, HEAD + steps + program)
    done = command(*QUICK, "--rows", rows, "--no-peers", "--engine", "interpreter")
    assert done.code == 1 and done.err.startswith("error[folded-loop]: row `row`: ")
    assert "more rounds took " in done.err
    assert command("explain", "folded-loop").code == 0


def test_rounds_that_are_faster_than_a_branch_are_folded(command, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(overhead, "_LEAST_NS", 1e6)
    done = command(*QUICK, "--rows", written(tmp_path, HEAD + LOOP), "--no-peers")
    assert done.code == 1 and "is not one branch of its own" in done.err


def test_steps_without_safepoints_are_no_rounds() -> None:
    class Machine:
        def stats(self) -> dict[str, int]:
            return {"steps": self.steps, "safepoints": 0}

        steps = 0

    vm = Machine()

    def run(length: int) -> None:
        vm.steps += length

    row = overhead.Row("row", "instruction", "a round", "")
    assert overhead.check_rounds(row, vm, run, 10, 1000) == 990  # type: ignore[arg-type]
    with pytest.raises(RelayError, match="1,000,000 steps had 0 safepoints"):
        overhead.check_rounds(row, vm, run, 10, 1_000_000)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ("// kind: instruction\n", "`what` is missing"),
        ("// what: a\n", "`kind` is missing"),
        ("// kind: sport\n", "`sport` is no value of `kind`"),
        (HEAD + "// steps: many\n", "`many` is no value of `steps`"),
        (HEAD + "// steps: 1 or less\n", "`1 or less` is no value of `steps`"),
        (HEAD + "// colour: red\n", "`colour` is not known; there are kind, what, "),
        (HEAD + "// per: hour\n", "`hour` is no value of `per`"),
        (HEAD + "// less: other\n", "there is no row `other`"),
    ],
)
def test_a_row_says_what_is_wrong_with_it(command, tmp_path, head, problem) -> None:
    done = command(*QUICK, "--rows", written(tmp_path, head + LOOP), "--no-peers")
    assert done.code == 1 and done.err.startswith("error[bad-option]: row ")
    assert problem in done.err


def test_bad_options_are_told(command, tmp_path) -> None:
    done = command(*QUICK, "--only", "nothing", "--no-peers")
    assert done.code == 1 and "no row has `nothing` in its name; there are `array`" in done.err
    done = command(*QUICK, "--rows", tmp_path / "none", "--no-peers")
    assert done.code == 1 and done.err.startswith("error[unreadable-file]")
    done = command("bench", "overhead", "--rounds", 2)
    assert done.code == 1 and "`--rounds` is 2, fewer than 3" in done.err
    done = command(*QUICK, "--no-peers", "--plot", "/nowhere/o.svg")
    assert done.code == 1 and done.err.startswith("error[unwritable-file]") and done.out == ""
    for wrong in (("--engine", "steam"), ("--rounds", "0"), ("--milliseconds", "x")):
        assert command("bench", "overhead", *wrong).code == 2


# --- other systems -------------------------------------------------------------------------------


def test_systems_stand_beside_the_rows_and_missing_ones_are_told(
    command, tmp_path, monkeypatch
) -> None:
    def work(length: int) -> int:
        return sum(range(10 * length))

    found = [
        Peer("Here", "1", "a loop", {"row": work}),
        Peer("Gone", "", "a loop", {}, "No module named 'gone'"),
    ]
    monkeypatch.setattr(overhead_peers, "peers", lambda: found)
    rows = written(tmp_path, HEAD + LOOP)
    done = command(*QUICK, "--rows", rows, "--output", tmp_path / "o.json")
    assert done.code == 0 and "  Here " in done.out
    assert done.err == "note: Gone is left out: No module named 'gone'\n"
    about = json.loads((tmp_path / "o.json").read_text())["about"]
    assert about["systems"] == {"Here": "1"} and list(about["missing"]) == ["Gone"]


def test_a_system_that_fails_is_left_out() -> None:
    def broken() -> dict[str, overhead_peers.Run]:
        raise AttributeError("it has another name now")

    peer = overhead_peers._peer("Numpy", "numpy", "a loop", broken)
    assert peer.missing == "AttributeError: it has another name now"
    peer = overhead_peers._peer("Numpy", "numpy.nothing", "a loop", broken)
    assert "nothing" in peer.missing and not peer.rows
    peer = overhead_peers._peer("Numpy", "numpy", "a loop", dict)
    assert (peer.version, peer.missing) == (np.__version__, "")


@pytest.mark.slow
def test_systems_that_are_installed_run_the_rows() -> None:
    names = {row.name for row in ROWS}
    for peer in overhead_peers.peers():
        assert peer.missing or set(peer.rows) <= names
        for run in peer.rows.values():
            run(4)


# --- figures -------------------------------------------------------------------------------------


def test_a_confidence_interval_holds_the_median_and_follows_the_spread() -> None:
    rng = np.random.default_rng(1)
    narrow, wide = (list(5 + s * rng.standard_normal(101)) for s in (0.1, 1.0))
    for values in (narrow, wide):
        low, high = confidence(values)
        assert low <= float(np.median(values)) <= high
        assert confidence(values) == (low, high)
    assert confidence([3.0] * 9) == (3.0, 3.0)
    spans = [b - a for a, b in map(confidence, (narrow, wide))]
    assert 3 < spans[1] / spans[0] < 30
    hits = 0
    for seed in range(200):
        low, high = confidence(list(np.random.default_rng(seed).exponential(size=25)), seed)
        hits += low <= np.log(2) <= high
    assert hits >= 170


def test_a_slope_is_that_of_rounds_alone(monkeypatch) -> None:
    now = [0.0]

    def run(length: int) -> None:
        now[0] += 5.0 + 3e-9 * length  # a long start, then 3 ns a round

    monkeypatch.setattr("relayvm.cli.bench.slopes.time.process_time", lambda: now[0])
    found = slope(run, 1_000_000, 9_000_000, 5, 8_000_000)
    assert found.ns == pytest.approx(3, rel=1e-6) and found.low <= found.ns <= found.high


def test_lengths_grow_to_the_time_or_the_bound(monkeypatch) -> None:
    now = [0.0]

    def run(length: int) -> None:
        now[0] += 1e-6 * length

    monkeypatch.setattr("relayvm.cli.bench.slopes.time.process_time", lambda: now[0])
    assert lengths(run, 0.01, None) == (4096, 16384)
    assert lengths(run, 0.01, 100) == (16, 64)


def test_names_in_a_picture_are_text() -> None:
    evil = "<script>&\"'"
    results = [
        Result(evil, "call", evil, evil, Slope(3.0, 2.0, 4.0)),
        Result("b", "call", "what", "jit", Slope(5000.0, 4000.0, 6000.0), -0.1),
    ]
    root = ElementTree.fromstring(to_svg(results))
    texts = [t for node in root.iter() if (t := node.text)]
    assert sum(evil in text for text in texts) >= 3
    assert not any(node.tag.endswith("script") for node in root.iter())
    assert json.loads(to_json(results, {}, {}))["rows"][1]["alone"] == -0.1
    ElementTree.fromstring(to_svg([]))
