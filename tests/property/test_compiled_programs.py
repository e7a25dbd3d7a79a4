"""Generated programs on the machine equal the evaluator, in every mode and after reloading."""

from __future__ import annotations

import numpy as np
import pytest
from meaning import same_value
from programs import random_program
from test_hard_programs import PROGRAMS

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.host.values import DataValue
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes

FUEL = 10


def to_machine(exe, value):
    """Return the value that the machine takes for one of the evaluator."""
    if not isinstance(value, DataValue):
        return value
    name = {"List": "List[int32]"}.get(value.type_name, value.type_name)
    constructor = getattr(exe.adt(name), value.constructor)
    return constructor(*(to_machine(exe, field) for field in value.fields))


def run(exe, args):
    return relayvm.VirtualMachine(exe).run(*(to_machine(exe, a) for a in args))


def is_close(a, b) -> bool:
    """Return True if results agree up to the rounding of scalar functions and sums."""
    pending = [(a, b)]
    while pending:
        x, y = pending.pop()
        if isinstance(x, np.ndarray):
            if (x.dtype, x.shape) != (y.dtype, y.shape):
                return False
            wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
            if not np.allclose(wide_x, wide_y, rtol=1e-4, atol=1e-5, equal_nan=True):
                return False
        elif isinstance(x, (tuple, list)):
            if len(x) != len(y):
                return False
            pending.extend(zip(x, y))
        elif x.tag != y.tag:
            return False
        else:
            pending.append((tuple(x.fields), tuple(y.fields)))
    return True


def check(seed: int, opt_level: int = 3) -> None:
    module, args = random_program(seed, FUEL)
    expected = Evaluator(infer_types(module)).call("main", args)
    exe = relayvm.compile(module, opt_level=opt_level, entries=["main"])
    result = run(exe, args)
    assert is_close(expected, result), f"seed {seed}: {expected!r} and {result!r}"


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 57, 19))
def test_compiled_programs_equal_the_evaluator(start):
    for seed in range(start, start + 19):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 2])
def test_programs_compiled_at_lower_levels_equal_the_evaluator(level):
    for seed in range(100 + 15 * level, 115 + 15 * level):
        check(seed, level)


@pytest.mark.slow
def test_programs_with_uniform_layouts_equal_the_evaluator(monkeypatch):
    monkeypatch.setenv("RELAYVM_UNIFORM", "1")
    for seed in range(200, 225):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("uniform", ["0", "1"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_hard_programs_equal_the_evaluator(name, uniform, monkeypatch):
    monkeypatch.setenv("RELAYVM_UNIFORM", uniform)
    text, args = PROGRAMS[name]
    module = relayvm.parse(text)
    expected = Evaluator(infer_types(module)).call("main", args)
    for level in (0, 3):
        exe = relayvm.compile(module, opt_level=level, entries=["main"])
        assert is_close(expected, run(exe, args)), level


@pytest.mark.slow
def test_reloaded_programs_give_the_same_bits(tmp_path):
    for seed in range(300, 315):
        module, args = random_program(seed, FUEL)
        exe = relayvm.compile(module, entries=["main"])
        path = tmp_path / "program.rvm"
        exe.save(path)
        again = relayvm.load(path, native=True)
        assert again.to_bytes() == exe.to_bytes()
        assert same_value(run(exe, args), run(again, args)), f"seed {seed}"


FORMS = [
    ["to_cps"],
    ["to_graph_normal_form", "fuse_ops"],
    ["to_basic_block_normal_form"],
    ["eta_expand[expand_global_var=1]", "lambda_lift"],
    ["fuse_ops", "inline_primitives", "defuse_ops"],
]


@pytest.mark.slow
@pytest.mark.parametrize("steps", FORMS, ids="+".join)
def test_programs_in_other_forms_compile_to_the_same(steps):
    for seed in range(400, 404):
        module, args = random_program(seed, FUEL)
        expected = Evaluator(infer_types(module)).call("main", args)
        other = run_passes(module, steps)
        for level in (0, 3):
            exe = relayvm.compile(other, opt_level=level, entries=["main"])
            assert is_close(expected, run(exe, args)), f"seed {seed}, level {level}"


@pytest.mark.slow
@pytest.mark.parametrize("steps", [*FORMS, ["defunctionalize"]], ids="+".join)
@pytest.mark.parametrize("name", PROGRAMS)
def test_hard_programs_in_other_forms_compile_to_the_same(name, steps):
    text, args = PROGRAMS[name]
    module = relayvm.parse(text)
    expected = Evaluator(infer_types(module)).call("main", args)
    exe = relayvm.compile(run_passes(module, steps), entries=["main"])
    assert is_close(expected, run(exe, args))
