"""Laws of the machine on generated programs: equal to the evaluator at every level and in every
mode, the same bits each time, nothing left behind.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from meaning import same_value
from programs import random_program

import relayvm
from relayvm.base.dims import AnyDim
from relayvm.compiler.analysis.call_graph import call_graph, recursive_names
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.host.values import DataValue
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Call, Function, GlobalVar, RefCreate, RefRead, RefWrite
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType
from relayvm.ir.visit import free_vars, post_order
from tests.stress import variants

LEVELS = (0, 1, 2, 3)
PROGRAMS = 5000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 200
BLOCK = 25
FUEL = 16
BLOCKS = [range(start, start + BLOCK) for start in range(0, PROGRAMS, BLOCK)]
SOME = [*BLOCKS[::4]]
by_block = pytest.mark.parametrize("seeds", BLOCKS, ids=lambda block: f"{block.start}")
by_some_blocks = pytest.mark.parametrize("seeds", SOME, ids=lambda block: f"{block.start}")


@dataclass(frozen=True)
class Case:
    """A program with its arguments, compiled at a level that depends on the seed."""

    module: Module
    args: tuple[Any, ...]
    expected: Any
    exe: relayvm.Executable


@lru_cache(maxsize=256)
def case(seed: int) -> Case:
    module, args = random_program(seed, FUEL)
    typed = infer_types(module)
    expected = outcome(lambda: Evaluator(typed).call("main", args))
    return Case(typed, args, expected, compiled(module, LEVELS[seed % len(LEVELS)]))


def compiled(module: Module, level: int) -> relayvm.Executable:
    return relayvm.compile(module, opt_level=level, entries=["main"])


def outcome(run) -> Any:
    """Return a result, or the trap that ended the run."""
    try:
        return run()
    except relayvm.Trap as trap:
        return trap


def result_of(exe: relayvm.Executable, args, vm: relayvm.VirtualMachine | None = None) -> Any:
    vm = vm or relayvm.VirtualMachine(exe)
    return outcome(lambda: vm.run(*(to_machine(exe, arg) for arg in args)))


def to_machine(exe: relayvm.Executable, value: Any) -> Any:
    """Return the value that the machine takes for one of the evaluator."""
    if not isinstance(value, DataValue):
        return value
    name = {"List": "List[int32]"}.get(value.type_name, value.type_name)
    constructor = getattr(exe.adt(name), value.constructor)
    return constructor(*(to_machine(exe, field) for field in value.fields))


def is_close(a: Any, b: Any) -> bool:
    """Return True if floats agree up to the rounding of functions and sums, the rest in all
    bits.
    """
    if isinstance(a, relayvm.Trap) or isinstance(b, relayvm.Trap):
        return type(a) is type(b) and a.code == b.code
    pending = [(a, b)]
    while pending:
        x, y = pending.pop()
        if isinstance(x, np.ndarray):
            if (x.dtype, x.shape) != (y.dtype, y.shape):
                return False
            exact = x.dtype.kind != "f"
            same = x.tobytes() == y.tobytes()
            if not same and (exact or not np.allclose(x, y, rtol=1e-5, atol=1e-5, equal_nan=True)):
                return False
        elif isinstance(x, (tuple, list)):
            if type(x) is not type(y) or len(x) != len(y):
                return False
            pending.extend(zip(x, y))
        elif x.tag != y.tag:
            return False
        else:
            pending.append((tuple(x.fields), tuple(y.fields)))
    return True


def is_same(a: Any, b: Any) -> bool:
    if isinstance(a, relayvm.Trap) or isinstance(b, relayvm.Trap):
        return type(a) is type(b) and a.code == b.code
    return same_value(a, b)


# -- Generated programs ----------------------------------------------------------------------------


@pytest.mark.slow
@by_block
def test_the_machine_gives_what_the_evaluator_gives(seeds):
    for seed in seeds:
        given = case(seed)
        result = result_of(given.exe, given.args)
        assert is_close(given.expected, result), f"{seed}: {given.expected!r}, got {result!r}"


@pytest.mark.slow
@by_block
def test_a_second_run_gives_the_same_bits_and_leaves_nothing_behind(seeds):
    for seed in seeds:
        given = case(seed)
        vm = relayvm.VirtualMachine(given.exe)
        held = vm.stats()["held_bytes"]
        first = result_of(given.exe, given.args, vm)
        second = result_of(given.exe, given.args, vm)
        assert is_same(first, second), seed
        del first, second
        vm.trim()
        assert vm.stats()["held_bytes"] == held, seed


@pytest.mark.slow
@by_block
def test_runs_leave_the_arguments_as_they_are(seeds):
    for seed in seeds:
        given = case(seed)
        arrays = [a for a in given.args if isinstance(a, np.ndarray)]
        before = [a.tobytes() for a in arrays]
        result = result_of(given.exe, given.args)
        for part in result if isinstance(result, tuple) else (result,):
            if isinstance(part, np.ndarray):
                assert not any(np.shares_memory(part, a) for a in arrays), seed
                part[...] = 1
        assert [a.tobytes() for a in arrays] == before, seed


@pytest.mark.slow
@by_some_blocks
def test_a_reloaded_executable_gives_the_same_bits(seeds):
    for seed in seeds:
        given = case(seed)
        loaded = relayvm.load(given.exe.to_bytes(), native=True)
        assert is_same(result_of(given.exe, given.args), result_of(loaded, given.args)), seed


@pytest.mark.slow
@by_some_blocks
def test_uniform_layouts_give_the_same_bits(seeds, monkeypatch):
    monkeypatch.setenv("RELAYVM_UNIFORM", "1")
    for seed in seeds:
        given = case(seed)
        uniform = compiled(given.module, LEVELS[seed % len(LEVELS)])
        assert is_same(result_of(given.exe, given.args), result_of(uniform, given.args)), seed


@pytest.mark.slow
@by_some_blocks
def test_the_lowest_and_the_highest_level_agree(seeds):
    for seed in seeds:
        given = case(seed)
        results = [result_of(compiled(given.module, level), given.args) for level in (0, 3)]
        assert is_close(*results), seed


@pytest.mark.slow
def test_the_torture_build_gives_what_the_evaluator_gives():
    law = "test_the_machine_gives_what_the_evaluator_gives"
    blocks = [f"tests/property/test_machine.py::{law}[{block.start}]" for block in BLOCKS[:2]]
    done = variants.run("stress", "-m", "pytest", *blocks)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert f"{len(blocks)} passed" in done.stdout


@pytest.mark.slow
def test_the_programs_use_all_that_lowering_must_get_right():
    found: set[str] = set()
    for seed in range(200):
        found |= situations(infer_types(random_program(seed, FUEL)[0]))
    assert found == {
        "captured closure",
        "polymorphic call",
        "recursion",
        "reference made",
        "reference read",
        "reference written",
        "tuple of more than 4 fields",
        "unknown dim",
    }


def situations(typed: Module) -> set[str]:
    """Return what a program does, in functions that its entry reaches."""
    found: set[str] = set()
    graph = call_graph(typed)
    reached, pending = set(), ["main"]
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending.extend(graph[name])
    if reached & recursive_names(graph):
        found.add("recursion")
    for name in reached:
        for node in post_order(typed[name]):
            found |= _of_node(typed, node, typed[name])
    return found


def _of_node(module: Module, node, whole: Function) -> set[str]:
    found: set[str] = set()
    match node:
        case Function() if node is not whole and free_vars(node):
            found.add("captured closure")
        case Call(op=GlobalVar()) if module[node.op.name].type_params:
            found.add("polymorphic call")
        case RefCreate():
            found.add("reference made")
        case RefRead():
            found.add("reference read")
        case RefWrite():
            found.add("reference written")
        case _:
            pass
    match node.checked_type:
        case TupleType(fields) if len(fields) > 4:
            found.add("tuple of more than 4 fields")
        case TensorType(shape) if any(isinstance(d, AnyDim) for d in shape):
            found.add("unknown dim")
        case _:
            pass
    return found
