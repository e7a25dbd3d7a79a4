"""Decisions of matches: few however clauses overlap, and the first clause that fits is taken."""

from __future__ import annotations

import itertools
import random

import pytest

import relayvm
from relayvm.base.diagnostics import Trap
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.inference import match_coverage
from relayvm.compiler.inference.match_coverage import cases_soon_found, pattern_text
from relayvm.compiler.passes import run_passes
from relayvm.compiler.transforms import match_decisions
from relayvm.ir.visit import post_order
from tests.compiler.programs_text import parsed

START = """
type T { A, B, C(T, int32) }
def @made(%k: int32) -> T {
  if (%k == 0) { A } else { if (%k == 1) { B } else { if (%k == 2) { C(A, 5) } else { C(B, 7) } } }
}
"""


def match_text(rows: list[list[str]], mark: str = "") -> str:
    """Return a program that gives the number of the first row that fits, and what it binds."""
    width = len(rows[0])
    params = ", ".join(f"%x{i}: int32" for i in range(width))
    value = ", ".join(f"@made(%x{i})" for i in range(width))
    clauses = ""
    for number, row in enumerate(rows):
        bound = [f"%v{i}" for i, pattern in enumerate(row) if "%v" in pattern]
        row = [pattern.replace("%v", f"%v{i}") for i, pattern in enumerate(row)]
        clauses += f"  ({', '.join(row)}) => {' + '.join([f'%x0 * 1000 + {number}', *bound])},\n"
    return f"{START}def @main({params}) -> int32 {{ match{mark} (({value})) {{\n{clauses}}} }}"


def sparse(width: int) -> list[list[str]]:
    rows = [["A" if i == k else "_" for i in range(width)] for k in range(width)]
    return [*rows, ["_"] * width]


def halves(width: int) -> list[list[str]]:
    """Clauses that look at two far columns: a tree that goes from left to right doubles."""
    half = width // 2
    rows = [["A" if i in (k, k + half) else "_" for i in range(width)] for k in range(half)]
    return [*rows, ["_"] * width]


def all_but_one(width: int) -> list[list[str]]:
    rows = [["B" if i == k else "A" for i in range(width)] for k in range(width)]
    rows += [["A" if i == k else "B" for i in range(width)] for k in range(width)]
    return [*rows, ["_"] * width]


def permutations(width: int) -> list[list[str]]:
    """Rows and columns of a grid: no order of the questions keeps these few."""
    side = max(2, int(width**0.5))
    rows = []
    for offset, step in itertools.product(range(side), range(1, side)):
        chosen = {r * side + (offset + step * r) % side for r in range(side)}
        rows.append(["A" if i in chosen else "_" for i in range(width)])
    return [*rows, ["_"] * width]


def scattered(width: int) -> list[list[str]]:
    random_ = random.Random(width)
    rows = []
    for _ in range(2 * width):
        row = ["_"] * width
        for column in random_.sample(range(width), 3):
            row[column] = random_.choice(["A", "B", "C(_, _)", "C(A, _)", "C(_, %v)", "C(B, %v)"])
        rows.append(row)
    return [*rows, ["_"] * width]


FAMILIES = [sparse, halves, all_but_one, permutations, scattered]


def nodes(rows: list[list[str]]) -> int:
    done = run_passes(parsed(match_text(rows)), ["compile_matches"])
    return sum(sum(1 for _ in post_order(f)) for f in done.functions.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_code_grows_no_faster_than_the_pieces_of_the_patterns(family):
    for width in range(4, 21, 4):
        rows = family(width)
        assert nodes(rows) <= 40 * len(rows) * width + 200, width


def assert_first_fit(rows: list[list[str]], mark: str = "") -> None:
    text = match_text(rows, mark)
    machine = relayvm.VirtualMachine(relayvm.compile(parsed(text)))
    oracle = Evaluator(infer_types(parsed(text)))
    for given in itertools.product(range(4), repeat=len(rows[0])):
        try:
            expected = int(oracle.call("main", given))
        except Trap:
            with pytest.raises(Trap, match="match"):
                machine.run(*given)
        else:
            assert int(machine.run(*given)) == expected, given


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_clause_that_fits_is_taken(family):
    assert_first_fit(family(4))


@pytest.mark.parametrize("mark", ["", "?"])
@pytest.mark.parametrize("family", [halves, scattered])
def test_the_first_clause_that_fits_is_taken_where_clauses_are_tried_in_turn(
    family, mark, monkeypatch
):
    monkeypatch.setattr(match_decisions, "_ALWAYS_ALLOWED", 0)
    monkeypatch.setattr(match_decisions, "_MOST_FOR_EACH", 0)
    rows = family(3) if family is scattered else family(4)
    assert_first_fit(rows[:-1] if mark else rows, mark)


def test_a_match_that_lacks_clauses_stops_the_run_only_where_none_fits():
    assert_first_fit(scattered(3)[:-1], "?")


def missing(rows: list[list[str]]) -> list[str]:
    module = parsed(match_text(rows, "?"))
    match = next(n for n in post_order(module["main"]) if type(n).__name__ == "Match")
    return [pattern_text(p) for p in cases_soon_found(match, module)]


@pytest.mark.parametrize("family", [sparse, halves, permutations])
def test_what_is_not_covered_is_found_for_wide_matches(family):
    for width in (4, 12, 20):
        assert missing(family(width)) == []
        found = missing(family(width)[:-1])
        assert 0 < len(found) <= 20


def test_a_match_that_is_complete_in_other_ways_than_by_its_last_clause_is_found_so():
    width = 12
    rows = [["A" if i == k else "_" for i in range(width)] for k in range(width)]
    rows += [["B" if i < k else "_" for i in range(width)] for k in range(1, width + 1)]
    rows += [["C(_, _)" if i == k else "_" for i in range(width)] for k in range(width)]
    assert missing(rows) == []


def test_an_answer_that_takes_too_long_leaves_the_check_to_the_run(monkeypatch):
    rows = halves(4)[:-1]
    text = match_text(rows)
    with pytest.raises(relayvm.RelayError, match="no clause of the match covers"):
        relayvm.compile(parsed(text))
    monkeypatch.setattr(match_coverage, "MOST_LOOKED_AT", 2)
    machine = relayvm.VirtualMachine(relayvm.compile(parsed(text)))
    assert int(machine.run(0, 1, 0, 1)) == 0
    with pytest.raises(Trap, match="match"):
        machine.run(1, 0, 0, 1)


@pytest.mark.parametrize("kind", ["int32", "(int32, int32)", "List[int32]", "fn (int32) -> int32"])
def test_a_match_without_clauses_ends_the_run_for_values_of_any_type(kind):
    value = {"int32": "%x", "(int32, int32)": "(%x, %x)", "List[int32]": "Cons(%x, Nil)"}
    text = f"""def @main(%x: int32) -> int32 {{
      let %y: {kind} = {value.get(kind, "fn (%z: int32) -> int32 { %z + %x }")};
      let %r: int32 = match? (%y) {{ }};
      %r + 1
    }}"""
    machine = relayvm.VirtualMachine(relayvm.compile(parsed(text)))
    with pytest.raises(Trap, match="match"):
        machine.run(1)
