"""Programs that compute shapes from shapes: words of the machine, without kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types

FLATTENED = """
def @main(%x: Tensor[(?, ?, 4), float32]) {
  let %s = shape_of(%x, dtype="int64");
  let %n = take(%s, 0i64, axis=0) * take(%s, 1i64, axis=0);
  dyn.reshape(%x, concatenate((expand_dims(%n, axis=0), reshape(-1i64, newshape=[1])), axis=0))
}
"""
HEADS = """
def @main(%x: Tensor[(?, ?, 12), float32]) {
  let %s = strided_slice(shape_of(%x), begin=[0], end=[2]);
  dyn.reshape(%x, concatenate((%s, stack((3, -1), axis=0)), axis=0))
}
"""
LIKE_ANOTHER = """
def @main[n](%x: Tensor[(n, 6), float32], %y: Tensor[(?, 2), int32]) {
  let %k = floor_divide(ndarray_size(%y), 2);
  (dyn.reshape(%x, stack((2, cast(take(shape_of(%x), 0), dtype="int32"), 3))),
   dyn.reshape(%y, stack((maximum(%k, 0), 2))))
}
"""
IN_A_BRANCH = """
def @main(%x: Tensor[(?, 6), float32], %c: bool) {
  let %s = shape_of(%x);
  if (%c) { dyn.reshape(%x, reverse(%s, axis=0)) } else {
    dyn.reshape(%x, stack((prod(%s), 1)))
  }
}
"""
GROWING = """
def @grow(%i: int32, %x: Tensor[(?), float32]) -> Tensor[(?), float32] {
  if (equal(%i, 0)) { dyn.reshape(%x, shape_of(%x)) } else {
    @grow(%i - 1, concatenate((%x, %x)))
  }
}
def @main(%x: Tensor[(?), float32]) { @grow(3, %x) }
"""
VALUES = """
def @ones(%x: Tensor[(?), float32]) -> Tensor[(?), float32] { dyn.ones(shape_of(%x)) }
def @main(%x: Tensor[(?), float32]) { @hd(@map(@ones, Cons(%x, Nil))) }
"""
CLOSURE = """
def @main(%x: Tensor[(?, ?), float32], %v: float32) {
  let %s = shape_of(%x, dtype="int64");
  let %f = fn (%w: float32) { dyn.full(%w, %s) };
  (%f(%v), dyn.broadcast_to(%v, concatenate((%s, reshape(3i64, newshape=[1])))))
}
"""


def x(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


# Text, arguments, and the kernels that are left: what a loop joins, and what fills new tensors.
CASES: dict[str, tuple[str, tuple[Any, ...], int]] = {
    "flattened": (FLATTENED, (x(2, 3, 4),), 0),
    "heads": (HEADS, (x(2, 3, 12),), 0),
    "like another": (LIKE_ANOTHER, (x(5, 6), np.ones((3, 2), np.int32)), 0),
    "in a branch": (IN_A_BRANCH, (x(5, 6), True), 0),
    "in a branch, empty": (IN_A_BRANCH, (x(0, 6), False), 0),
    "growing": (GROWING, (x(2),), 1),
    "values": (VALUES, (x(2),), 1),
    "closure": (CLOSURE, (x(2, 5), np.float32(7)), 2),
}


def flat(value: Any) -> list[np.ndarray]:
    return [a for v in value for a in flat(v)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("opt_level", [0, 3])
def test_shapes_are_words_and_results_those_of_the_evaluator(name: str, opt_level: int) -> None:
    text, args, kernels = CASES[name]
    module = infer_types(relayvm.parse(text))
    executable = relayvm.compile(module, opt_level=opt_level)
    if opt_level:
        assert len(executable.program().kernels) == kernels
    actual = flat(relayvm.VirtualMachine(executable).run(*args))
    expected = flat(Evaluator(module).call("main", [np.asarray(a) for a in args]))
    for a, b in zip(actual, expected, strict=True):
        assert np.array_equal(a, b)


def test_sizes_that_the_program_left_open_stay_so_for_callers() -> None:
    (entry,) = relayvm.compile(relayvm.parse(FLATTENED)).manifest.entries
    assert entry.parameters[0].type.text == "Tensor[(?, ?, 4), float32]"
    assert entry.parameters[0].type.dims == (None, None, 4)


def test_a_zero_that_would_take_the_place_of_an_axis_stays_a_value() -> None:
    text = """
    def @main[a, b](%x: Tensor[(a, b), float32], %y: Tensor[(?, ?), float32]) {
      dyn.reshape(%y, shape_of(%x))
    }
    """
    module = infer_types(relayvm.parse(text))
    args = [x(0, 0), x(0, 5)]
    wanted = Evaluator(module).call("main", args)
    assert wanted.shape == (0, 5)
    assert relayvm.VirtualMachine(relayvm.compile(module)).run(*args).shape == wanted.shape
