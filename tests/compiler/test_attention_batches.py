"""Attention whose batches are told by more than one tensor is one kernel, and does for all sizes
what its operators say.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import relayvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError

HEADS, LENGTH, WIDTH = 3, 5, 4

# Sizes of the batch, the heads and the length of queries, keys, values and mask; how the scores are
# split; names of sizes.
FORMS = {
    "all unknown": ("", ["?, 3, ?"] * 3, "?, 1, 1, ?", "-4, -1, 3, -2"),
    "a mask of unknown sizes alone": ("", ["?, 3, ?"] * 3, "?, ?, ?, ?", "-4, -1, 3, -2"),
    "a mask for each head": ("t", ["?, 3, t"] * 3, "?, 3, 1, t", "-4, -1, 3, -2"),
    "one mask for all": ("t", ["?, 3, t"] * 3, "1, 1, 1, t", "-4, -1, 3, -2"),
    "one mask of unknown length": ("t", ["?, 3, t"] * 3, "1, 1, 1, ?", "-4, -1, 3, -2"),
    "named heads": ("b, h, t", ["b, h, t"] * 3, "?, 1, 1, t", "b, h, t, t"),
    "named heads, named mask": ("b, h, t, m", ["b, h, t"] * 3, "m, 1, 1, ?", "b, h, t, t"),
    "numbers of rows": ("", ["?, 3, 5"] * 3, "?, 1, 1, ?", "-4, -1, 3, -2"),
}


SCORES = {
    False: "nn.batch_matmul(%q3, %k3, transpose_b=True)",
    True: "nn.batch_matmul(%q3, transpose(%k3, axes=[0, 2, 1]), transpose_b=False)",
}


def attention(form: str, turned: bool = False) -> str:
    names, three, mask, split = FORMS[form]
    q, k, v = (f"Tensor[({sizes}, {WIDTH}), float32]" for sizes in three)
    head = f"[{names}]" if names else ""
    return f"""
def @main{head}(%q: {q}, %k: {k}, %v: {v}, %m: Tensor[({mask}), float32]) {{
  let %q3 = reshape(%q, newshape=[-3, -2]);
  let %k3 = reshape(%k, newshape=[-3, -2]);
  let %v3 = reshape(%v, newshape=[-3, -2]);
  let %scores = {SCORES[turned]} * 0.125f;
  let %weights = nn.softmax(reshape(%scores, newshape=[{split}]) + %m);
  nn.batch_matmul(reshape(%weights, newshape=[-3, -2]), %v3, transpose_b=False)
}}
"""


def arguments(batches: tuple[int, ...], heads: int, mask_heads: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    *three, own = batches
    shapes = [(b, heads, LENGTH, WIDTH) for b in three] + [(own, mask_heads, 1, LENGTH)]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def answer(function, args: list[np.ndarray]) -> np.ndarray | None:
    try:
        return np.asarray(function(*args))
    except RelayError:
        return None


@pytest.mark.parametrize("turned", [False, True], ids=["", "keys are turned"])
@pytest.mark.parametrize("form", FORMS)
def test_it_is_one_kernel_and_its_sizes_are_those_of_its_operators(form: str, turned: bool) -> None:
    module = relayvm.parse(attention(form, turned))
    executable = relayvm.compile(module)
    assert turned or len(executable.program().kernels) == 1
    machine = relayvm.VirtualMachine(executable)
    evaluate = relay.create_executor("debug", module).evaluate()
    named = "h" in FORMS[form][0]
    mask_heads = HEADS if form == "a mask for each head" else 1
    ran = refused = 0
    for batches in itertools.product((0, 1, 2, 3), repeat=4):
        if sum(b not in (0, 1, batches[0]) for b in batches) > 1:
            continue
        for heads in (0, 1, HEADS) if named else (HEADS,):
            args = arguments(batches, heads, mask_heads)
            wanted, found = answer(evaluate, args), answer(machine.run, args)
            assert (wanted is None) == (found is None), (batches, heads)
            if wanted is None or found is None:
                refused += 1
                continue
            ran += 1
            assert wanted.shape == found.shape, (batches, heads)
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert ran >= 4
    assert refused >= 4


def test_heads_inside_of_a_batch_are_not_broadcast_as_one() -> None:
    module = relayvm.parse("""
def @main[m, b](%q: Tensor[(?, 1, 4), float32], %k: Tensor[(?, 5, 4), float32],
    %v: Tensor[(b*3, 5, 4), float32], %m: Tensor[(m, 3, 1, 5), float32]) {
  let %s = nn.batch_matmul(%q, %k, transpose_b=True);
  let %w = nn.softmax(reshape(%s, newshape=[-4, -1, 3, -2]) + %m);
  nn.batch_matmul(reshape(%w, newshape=[-3, -2]), %v, transpose_b=False)
}""")
    machine = relayvm.VirtualMachine(relayvm.compile(module))
    evaluate = relay.create_executor("debug", module).evaluate()
    rng = np.random.default_rng(0)
    for q, k, v, m in ((1, 3, 9, 3), (3, 3, 9, 3), (3, 1, 9, 3), (1, 3, 3, 1), (1, 3, 9, 1)):
        shapes = ((q, 1, 4), (k, 5, 4), (v, 5, 4), (m, 3, 1, 5))
        args = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        wanted, found = answer(evaluate, args), answer(machine.run, args)
        assert (wanted is None) == (found is None) == (m * 3 != v)
        if wanted is not None:
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
