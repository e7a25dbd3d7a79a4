"""Choices nested in choices cost what they are, not that times their depth."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import relayvm
from relayvm.compiler import lower

LOWER = str(Path(lower.__file__).parent)
LIST = "type L { N, C(L, int32) }"


def ifs(n: int) -> str:
    return f"def @main(%c: bool, %x: int32) -> int32 {{ {'if (%c) { ' * n}%x{'} else { 1 }' * n} }}"


def matches(n: int) -> str:
    arms = "".join(f"match (%x{i}) {{ N => 1, C(%x{i + 1}, %v{i}) => " for i in range(n))
    return f"{LIST} def @main(%x0: L) -> int32 {{ {arms}7{'}' * n} }}"


def rebuilt(n: int) -> str:
    """Cells that are matched, and needed whole on one side of an `if` below."""
    arms = "".join(
        f"match (%x{i}) {{ N => N, C(%x{i + 1}, %v{i}) => if (%v{i} > 0) {{ " for i in range(n)
    )
    ends = "".join(f"}} else {{ %x{i} }} }}" for i in reversed(range(n)))
    return f"{LIST} def @main(%x0: L) -> L {{ {arms}C(N, 7){ends} }}"


def bound(n: int) -> str:
    lets = "let %y = if (%c) { " * n
    return f"def @main(%c: bool, %x: int32) -> int32 {{ {lets}%x{' } else { 1 }; %y + %x' * n} }}"


def lines_run(compile: Callable[[], Any]) -> int:
    """Return how many lines of the lowering run."""
    lines = 0

    def line(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return line

    def call(frame: FrameType, _event: str, _arg: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(LOWER) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        compile()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("program", [ifs, matches, rebuilt, bound], ids=lambda p: p.__name__)
def test_lowering_is_linear_in_the_depth_of_choices(
    program: Callable[[int], str], level: int
) -> None:
    few, many = (relayvm.parse(program(n)) for n in (150, 600))
    work = [lines_run(partial(relayvm.compile, m, opt_level=level)) for m in (few, many)]
    assert work[1] < 4.5 * work[0]


@pytest.mark.parametrize("depth", [1, 2, 40])
def test_deep_choices_compute_what_they_say(depth: int) -> None:
    run = {
        program.__name__: relayvm.VirtualMachine(relayvm.compile(relayvm.parse(program(depth)))).run
        for program in (ifs, bound)
    }
    assert [int(run["ifs"](c, 9)) for c in (True, False)] == [9, 1]
    assert [int(run["bound"](c, 9)) for c in (True, False)] == [9 * (depth + 1), 1 + 9]
