"""Passes and the machine keep the order of what can be seen, and trap only where a program does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from effect_programs import effect_program

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import pipeline_names, run_passes

VECTOR = np.array([3, -1, 2, 5], np.int32)
NUMBERS = (0, 2, -1)
STEPS = [
    pipeline_names(4),
    ["partial_evaluate"],
    ["partial_evaluate", "to_graph_normal_form", "fuse_ops"],
    ["to_cps", "partial_evaluate"],
    ["to_cps", "un_cps"],
    ["defunctionalize", "to_cps"],
    ["eliminate_common_subexpressions", "fold_constants", "eliminate_dead_code[inline_once=1]"],
    ["to_basic_block_normal_form", "eliminate_common_subexpressions", "eliminate_dead_code"],
    ["lambda_lift", "inline", "to_graph_normal_form", "to_anf", "fuse"],
]


def outcome(call: Any, number: int) -> tuple[Any, ...]:
    """Return the numbers that a program gives, or the trap."""
    try:
        return tuple(int(v) for v in call(np.int32(number), VECTOR))
    except relayvm.Trap as trap:
        return (trap.code,)


def evaluator(module: relayvm.Module) -> Any:
    return lambda *args: Evaluator(module).call("main", args)


def check(seed: int, expected: list[tuple[Any, ...]], call: Any, what: object) -> None:
    """Compare what is seen; a trap may go where nothing needs the value."""
    for number, want in zip(NUMBERS, expected):
        got = outcome(call, number)
        trapped = len(want) == 1
        assert trapped or got == want, f"{what}: seed {seed} gives {got}, not {want}, for {number}"


@pytest.mark.slow
@pytest.mark.parametrize("steps", STEPS, ids="+".join)
def test_passes_keep_the_order_of_effects(steps: list[str]) -> None:
    for seed in range(25):
        module = infer_types(relayvm.parse(effect_program(seed, 14)))
        expected = [outcome(evaluator(module), n) for n in NUMBERS]
        after = run_passes(module, steps, verify=True)
        check(seed, expected, evaluator(after), steps)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 3])
def test_the_machine_keeps_the_order_of_effects(level: int) -> None:
    for seed in range(100, 106):
        module = infer_types(relayvm.parse(effect_program(seed, 14)))
        expected = [outcome(evaluator(module), n) for n in NUMBERS]
        exe = relayvm.compile(module, opt_level=level, entries=["main"])
        check(seed, expected, relayvm.VirtualMachine(exe).run, f"level {level}")
