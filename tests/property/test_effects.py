"""Passes and the machine keep the order of what can be seen, and trap only where a program does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from effect_programs import UsedTraps, effect_program

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.host.values import Reference
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


Outcome = tuple[Any, int]
Run = Callable[[int], Outcome]


def evaluator(module: relayvm.Module) -> Run:
    """Return what runs a program: to the number that it gives, or the trap, and what the host sees
    in the reference that it lent.
    """

    def run(number: int) -> Outcome:
        held = Reference(np.array(0, np.int32))
        try:
            result = int(Evaluator(module).call("main", (np.int32(number), VECTOR, held)))
        except relayvm.Trap as trap:
            return trap.code, int(held.value)
        return result, int(held.value)

    return run


def machine(module: relayvm.Module, level: int) -> Run:
    exe = relayvm.compile(module, opt_level=level, entries=["main", "cell"])
    vm = relayvm.VirtualMachine(exe)

    def run(number: int) -> Outcome:
        held = vm.invoke("cell")
        try:
            result = int(vm.run(np.int32(number), VECTOR, held))
        except relayvm.Trap as trap:
            return trap.code, int(held.read())
        return result, int(held.read())

    return run


def check(seed: int, expected: list[Outcome], run: Run, what: object, strict: bool) -> None:
    """Compare what is seen; a trap may be left out where nothing needs the value."""
    for number, want in zip(NUMBERS, expected):
        if not strict and isinstance(want[0], str):
            continue
        got = run(number)
        assert got == want, f"{what}: seed {seed} gives {got}, not {want}, for {number}"


@pytest.mark.slow
@pytest.mark.parametrize("steps", STEPS, ids="+".join)
def test_passes_keep_the_order_of_effects(steps: list[str]) -> None:
    for seed in range(25):
        module = infer_types(relayvm.parse(effect_program(seed, 14)))
        expected = [evaluator(module)(n) for n in NUMBERS]
        after = run_passes(module, steps, verify=True)
        check(seed, expected, evaluator(after), steps, strict=False)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 3])
def test_the_machine_keeps_the_order_of_effects(level: int) -> None:
    for seed in range(100, 106):
        module = infer_types(relayvm.parse(effect_program(seed, 14)))
        expected = [evaluator(module)(n) for n in NUMBERS]
        check(seed, expected, machine(module, level), f"level {level}", strict=False)


# Programs that stop, of those whose values that may trap are used at once.
TRAPPING = (5, 10, 12, 15, 34, 86, 185, 241)


@pytest.mark.slow
@pytest.mark.parametrize("steps", STEPS, ids="+".join)
def test_passes_keep_traps_and_the_effects_before_them(steps: list[str]) -> None:
    for seed in TRAPPING:
        module = infer_types(relayvm.parse(effect_program(seed, 14, UsedTraps)))
        expected = [evaluator(module)(n) for n in NUMBERS]
        assert any(isinstance(code, str) and held for code, held in expected)
        after = run_passes(module, steps, verify=True)
        check(seed, expected, evaluator(after), steps, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 3])
def test_the_machine_keeps_traps_and_the_effects_before_them(level: int) -> None:
    for seed in TRAPPING[::2]:
        module = infer_types(relayvm.parse(effect_program(seed, 14, UsedTraps)))
        expected = [evaluator(module)(n) for n in NUMBERS]
        check(seed, expected, machine(module, level), f"level {level}", strict=True)
