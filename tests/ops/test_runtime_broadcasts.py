"""Axes that turn out to have size 1 only at run time, read by whatever is fused behind them."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.ops import OPS

COUNT = 28
LEVELS = (0, 3)
SHAPES = ((3, 4), (5, 20), (4, 34))

# `E` and `F` have the full shape and are made of all operands; `%w` has it by itself.
CONSUMERS = (
    "sum(E)",
    "sum(E, axis=[1])",
    "mean(E, axis=[0])",
    "max(E, axis=[1], keepdims=True) + F",
    "all(less(E, F), axis=[1])",
    "argmax(E, axis=1)",
    "sum(exp(E * 0.01f), axis=[0])",
    "nn.dense(E, F)",
    "nn.dense(E, %w)",
    "nn.matmul(E, F, transpose_b=True)",
    "nn.batch_matmul(stack((E, F)), expand_dims(E, axis=0), transpose_b=True)",
    "take(E, 2, axis=1)",
    "take(E, argmin(F, axis=0), axis=0)",
    "strided_slice(E, begin=[1, 1], end=[3, 4], strides=[1, 2])",
    "split(E, indices_or_sections=2, axis=1)",
    "split(E, indices_or_sections=[1, 3], axis=1)",
    "concatenate((E, F), axis=0)",
    "concatenate((E, %w), axis=1)",
    "sum(concatenate((%w, E), axis=1), axis=[1])",
    "stack((E, F), axis=1)",
    "nn.softmax(E)",
    "nn.layer_norm(E, max(F, axis=[0]), min(%w, axis=[0]))",
    "where(greater(E, F), %w, E)",
    "sum(where(greater(%w, 1f), E, F), axis=[1])",
    "sum(transpose(E) * transpose(F), axis=[1])",
    "reshape(E, newshape=[-1])",
    "(E, sum(F, axis=[0]), take(E, 1, axis=0))",
    "E + sum(F, axis=[0])",
)


@dataclass(frozen=True)
class Program:
    """A function text, and arrays for some calls of it."""

    text: str
    calls: tuple[tuple[np.ndarray, ...], ...]


def _program(number: int) -> Program:
    draw = random.Random(number)
    shape = draw.choice(SHAPES)
    symbols: list[str] = []
    types: list[str] = []
    fixed: list[list[int | None]] = []
    for _ in range(draw.choice((2, 2, 3))):
        rank = draw.choice((2, 2, 2, 1))
        dims, known = [], []
        for size in shape[2 - rank :]:
            kind = draw.random()
            known.append(None if kind < 0.8 else 1 if kind < 0.9 else size)
            if kind >= 0.8:
                dims.append(str(known[-1]))
            elif kind < 0.5:
                dims.append("?")
            else:
                symbols.append(f"n{len(symbols)}")
                dims.append(symbols[-1])
        types.append(f"Tensor[({', '.join(dims)}), float32]")
        fixed.append(known)
    operands = [f"%x{k}" for k in range(len(types))]
    whole = "?, ?" if draw.random() < 0.7 else f"?, {shape[1]}"
    params = [f"{x}: {t}" for x, t in zip(operands, types)] + [f"%w: Tensor[({whole}), float32]"]
    body = CONSUMERS[number % len(CONSUMERS)]
    for name in "EF":
        body = body.replace(name, f"({_chain(draw, operands)})")
    head = f"[{', '.join(symbols)}]" if symbols else ""
    text = f"def @f{number}{head}({', '.join(params)}) {{ {body} }}"
    return Program(text, tuple(_arrays(draw, shape, fixed) for _ in range(4)))


def _chain(draw: random.Random, operands: list[str]) -> str:
    """Return a chain of elementwise operators over all operands, and `%w`: it has their shape."""
    order = [*draw.sample(operands, len(operands)), "%w"]
    if draw.random() < 0.5:
        order.append(draw.choice(operands))
    text = order[0]
    for operand in order[1:]:
        pair = [text, operand] if draw.random() < 0.5 else [operand, text]
        row = draw.choice(("({} + {})", "({} - {})", "({} * {})", "maximum({}, {})"))
        text = row.format(*pair)
    return text


def _arrays(
    draw: random.Random, shape: tuple[int, int], fixed: list[list[int | None]]
) -> tuple[np.ndarray, ...]:
    values = np.random.default_rng(draw.randrange(2**32))
    arrays = []
    for known in fixed:
        sizes = [
            given or draw.choice((1, size)) for given, size in zip(known, shape[2 - len(known) :])
        ]
        arrays.append(values.integers(-4, 5, sizes).astype("float32"))
    return (*arrays, values.integers(-4, 5, shape).astype("float32"))


PROGRAMS = [_program(number) for number in range(COUNT)]


@pytest.fixture(scope="module")
def compiled():
    """Return the evaluator and one machine a level, over all programs as one module."""
    module = relayvm.parse("\n".join(p.text for p in PROGRAMS))
    machines = [relayvm.VirtualMachine(relayvm.compile(module, opt_level=k)) for k in LEVELS]
    return Evaluator(infer_types(module)), machines


def _flat(value):
    if isinstance(value, tuple):
        return [array for field in value for array in _flat(field)]
    return [np.asarray(value)]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(COUNT))
def test_what_broadcasts_at_run_time_is_read_right(compiled, number):
    evaluator, machines = compiled
    for args in PROGRAMS[number].calls:
        wanted = _flat(evaluator.call(f"f{number}", args))
        plain, scheduled = (_flat(m.invoke(f"f{number}", *args)) for m in machines)
        shapes = [a.shape for a in args]
        for right, a, b in zip(wanted, plain, scheduled, strict=True):
            assert right.shape == a.shape
            assert np.allclose(right, a, rtol=1e-4, atol=1e-4), (PROGRAMS[number].text, shapes)
            assert a.tobytes() == b.tobytes(), (PROGRAMS[number].text, shapes)


LONE = """
def @main(%a: Tensor[(?), float64], %b: Tensor[(?), float64]) { sum(%a + %b) }
"""


@pytest.mark.parametrize("opt_level", LEVELS)
def test_a_sum_of_sums_repeats_the_shorter_operand(opt_level):
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(LONE), opt_level=opt_level))
    many = np.array([0.0, 10, 20, 30])
    assert machine.run(np.array([3.0]), many) == 72
    assert machine.run(many, np.array([3.0])) == 72
    assert machine.run(np.array([3.0]), np.empty(0)) == 0


@pytest.mark.parametrize("opt_level", LEVELS)
def test_sizes_that_do_not_broadcast_are_refused_before_anything_is_read(opt_level):
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(LONE), opt_level=opt_level))
    with pytest.raises(relayvm.Trap):
        machine.run(np.ones(3), np.ones(5))


def test_sizes_that_do_not_broadcast_are_named_with_both_values() -> None:
    text = "def @main(%a: Tensor[(?), float32], %b: Tensor[(?), float32]) { exp(%a) + %b }"
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    with pytest.raises(relayvm.Trap, match=r"axis 0 of the shapes do not broadcast .*: 3 and 2"):
        vm.run(np.ones(3, np.float32), np.ones(2, np.float32))


@pytest.mark.parametrize(
    ("call", "factor"),
    [
        ("multiply(take_grad(%g, %d, %i, axis=2, batch_dims=1), %g)", "g"),
        (
            "multiply(take_grad(%g, %d, %i, axis=2, batch_dims=1),"
            ' expand_dims(cast(%i, dtype="float64"), axis=1))',
            "i",
        ),
    ],
)
def test_what_a_program_reads_in_one_order_may_be_broadcast_beside_it(call, factor):
    kind = "Tensor[(?, ?, ?), float64]"
    text = f"def @main(%g: {kind}, %d: {kind}, %i: Tensor[(?, ?), int64]) {{ {call} }}"
    rng = np.random.default_rng(0)
    g, d = rng.normal(0, 1, (2, 2, 3, 4))
    i = rng.integers(0, 4, (2, 4))
    sums = OPS["take_grad"].evaluate([g, d, i], {"axis": 2, "batch_dims": 1})
    result = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text))).run(g, d, i)
    assert np.allclose(result, sums * (g if factor == "g" else i[:, None]))
