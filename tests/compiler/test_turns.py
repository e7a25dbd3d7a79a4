"""The arguments of a loop's next turn are computed where they must stand, where that can be."""

from __future__ import annotations

import pytest

import relayvm
from relayvm.vm.machine import VirtualMachine

HEAD = "def @main(%n: int64) -> int64 { @loop(%n, 1i64, 2i64) }\n"
LOOP = """def @loop(%i: int64, %a: int64, %b: int64) -> int64 {{
  if (%i > 0i64) {{ {} }} else {{ %a }}
}}"""
IN_PLACE = {
    "the counter first": "@loop(%i - 1i64, %a + %i, %b)",
    "each reads the one before": "@loop(%i - 1i64, %a * 3i64 + %i, %b - %a)",
    "each reads the one behind": "@loop(%i - 1i64 - (%a - %a), %a + %b, %b * 5i64)",
}
MOVED = {
    "swapped": "@loop(%i - 1i64, %b, %a + %b)",
    "turned": "@loop(%i - 1i64, %b + %i, %a - %b)",
}


def turn(body: str):
    exe = relayvm.compile(relayvm.parse(HEAD + LOOP.format(body)))
    loop = next(f for f in exe.program().functions if f.name == "loop")
    return exe, next(i for i in loop.code if i.name == "tail_call")


@pytest.mark.parametrize("body", IN_PLACE.values(), ids=IN_PLACE)
def test_arguments_stand_where_the_parameters_do(body):
    _, call = turn(body)
    assert call.operands[1] == ("w0", "w1", "w2")


@pytest.mark.parametrize("body", [*IN_PLACE.values(), *MOVED.values()], ids=[*IN_PLACE, *MOVED])
def test_loops_mean_what_they_meant(body):
    exe, _ = turn(body)
    i, a, b = 9, 1, 2
    while i > 0:
        scope = {"i": i, "a": a, "b": b}
        text = body.replace("@loop", "").replace("%", "").replace("i64", "")
        i, a, b = eval(text, scope)
    for engine in ("interpreter", "jit"):
        assert VirtualMachine(exe, engine=engine).run(9) == a


def test_a_list_is_built_and_taken_apart_in_the_place_of_its_parameter():
    text = """
    def @main(%n: int64) -> int64 { @total(@build(%n, Nil), 0i64) }
    def @build(%n: int64, %made: List[int64]) -> List[int64] {
      if (%n == 0i64) { %made } else { @build(%n - 1i64, Cons(%n, %made)) }
    }
    def @total(%l: List[int64], %acc: int64) -> int64 {
      match (%l) { Cons(%h, %t) => @total(%t, %acc * 3i64 + %h), Nil => %acc }
    }
    """
    exe = relayvm.compile(relayvm.parse(text))
    calls = {
        f.name: [i.operands[1] for i in f.code if i.name == "tail_call"]
        for f in exe.program().functions
    }
    assert (calls["build"], calls["total"]) == ([("w0", "o0")], [("o0", "w0")])
    for engine in ("interpreter", "jit"):
        assert VirtualMachine(exe, engine=engine).run(4) == ((1 * 3 + 2) * 3 + 3) * 3 + 4
