"""Gradients of random programs are slopes: of the first and second order, on both engines."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from smooth_programs import NAMED, smooth_program

import relayvm
from relayvm.base.dtypes import FLOAT64
from relayvm.compiler.autodiff import first_order_gradient, gradient
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Call, Constant, Function, TupleGetItem, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ops import OPS

X = np.array([0.4, -0.7, 0.9])
WEIGHTS = Constant(np.array([1.0, -2.0, 0.5]))


def with_main(module: Module, main: Function) -> Module:
    return module.with_functions({**module.functions, "main": main})


def differentiated(module: Module) -> Module:
    main, module = gradient(module["main"], module)
    return with_main(module, main)


def evaluate(module: Module, x: np.ndarray) -> Any:
    return Evaluator(module).call("main", [x])


def slopes(module: Module, step: float) -> list[Any]:
    """Return finite differences along each axis."""
    moves = np.eye(3) * step
    return [(evaluate(module, X + m) - evaluate(module, X - m)) / (2 * step) for m in moves]


@pytest.mark.slow
def test_the_gradient_is_the_slope() -> None:
    for seed in range(40):
        module = infer_types(relayvm.parse(smooth_program(seed, 12)))
        value, (of_x,) = evaluate(infer_types(differentiated(module)), X)
        assert value == evaluate(module, X), seed
        np.testing.assert_allclose(of_x, slopes(module, 1e-6), rtol=1e-4, atol=1e-6, err_msg=seed)


@pytest.mark.slow
def test_the_machine_finds_what_the_evaluator_finds() -> None:
    for seed in (1000, 1001, 1002, 1003):
        module = differentiated(relayvm.parse(smooth_program(seed, 10)))
        value, (of_x,) = evaluate(infer_types(module), X)
        machine = relayvm.VirtualMachine(relayvm.compile(module, entries=["main"]))
        for _ in range(100):
            again, (also,) = machine.run(X)
        held = machine.stats()["held_bytes"]
        for _ in range(2_000):
            machine.run(X)
        # What is held between two searches for cycles differs.
        assert machine.stats()["held_bytes"] < held + (1 << 18), seed
        np.testing.assert_allclose(again, value, rtol=1e-12, err_msg=seed)
        np.testing.assert_allclose(also, of_x, rtol=1e-9, atol=1e-12, err_msg=seed)


@pytest.mark.slow
def test_second_derivatives_are_slopes_of_the_first() -> None:
    for seed in range(8):
        function, module = gradient(*main_of(smooth_program(seed, 6)))
        x = Var("x", TensorType((3,), FLOAT64))
        slope = TupleGetItem(TupleGetItem(Call(function, (x,)), 1), 0)
        first = Function((x,), OPS["sum"](OPS["multiply"](slope, WEIGHTS)))
        once = infer_types(with_main(module, first))
        _, (of_x,) = evaluate(infer_types(differentiated(once)), X)
        np.testing.assert_allclose(of_x, slopes(once, 1e-5), rtol=1e-3, atol=1e-5, err_msg=seed)


def main_of(text: str) -> tuple[Function, Module]:
    module = relayvm.parse(text)
    return module["main"], module


LINES = (
    "{} * {}",
    "tanh({}) + {}",
    "sin({}) / (2f64 + {} * {})",
    "exp(tanh({}))",
    "cumsum({}, axis=0)",
    "where({} < {}, {}, {})",
    "maximum({}, {})",
    "reverse({}, axis=0) - mean({})",
    "split(concatenate(({}, {}), axis=0), indices_or_sections=2).1",
    "nn.softmax({})",
    "take({}, argsort({}))",
    "sum({}) * {}",
)


def straight_line(seed: int) -> str:
    """Return a program that only names values, calls operators and makes tuples."""
    choose = random.Random(seed)
    text = "def @main(%v0: T3) {"
    for line in range(1, 10):
        step = choose.choice(LINES)
        operands = [f"%v{choose.randrange(line)}" for _ in range(step.count("{}"))]
        text += f" let %v{line} = {step.format(*operands)};"
    return f"{text} sum(%v9 * %v7 + %v8) }}".replace("T3", NAMED["T3"])


def test_gradients_of_the_first_order_are_the_same() -> None:
    for seed in range(60):
        module = infer_types(relayvm.parse(straight_line(seed)))
        plain = with_main(module, first_order_gradient(module["main"], module))
        value, (of_x,) = evaluate(infer_types(plain), X)
        again, (also,) = evaluate(infer_types(differentiated(module)), X)
        assert value == again
        np.testing.assert_allclose(of_x, also, rtol=1e-9, atol=1e-12, err_msg=seed)
        np.testing.assert_allclose(of_x, slopes(module, 1e-6), rtol=1e-4, atol=1e-6, err_msg=seed)
