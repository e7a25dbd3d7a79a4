"""Which operators share a primitive function: the cases that the rules are known by."""

from __future__ import annotations

import numpy as np
import pytest
from programs_text import parsed

import relayvm
from relayvm.compiler.passes import run_passes
from relayvm.ir.expr import Call, Function
from relayvm.ir.module import Module
from relayvm.ir.visit import post_order
from relayvm.ops.operator import Operator

X = "%x: Tensor[(10, 20), float32]"
IMAGE = "%x: Tensor[(1, 4, 8, 8), float32]"

CASES = {
    "elementwise and injective": (
        f"def @main({X}) {{ squeeze(exp(add(%x, 1f))) }}",
        [["add", "exp", "squeeze"]],
    ),
    "a convolution takes what follows, not what comes before": (
        f"""def @main({IMAGE}, %w: Tensor[(4, 4, 3, 3), float32]) {{
        %0 = nn.conv2d(add(%x, 1f), %w, padding=[1, 1], kernel_size=[3, 3]);
        add(%0, add(1f, %0)) }}""",
        [["add"], ["add", "add", "nn.conv2d"]],
    ),
    "one of two convolutions takes their sum": (
        f"""def @main({IMAGE}, %v: Tensor[(4, 4, 1, 1), float32],
        %w: Tensor[(4, 4, 3, 3), float32]) {{
        add(nn.conv2d(%x, %v, kernel_size=[1, 1]),
            nn.conv2d(%x, %w, padding=[1, 1], kernel_size=[3, 3])) }}""",
        [["add", "nn.conv2d"], ["nn.conv2d"]],
    ),
    "fields of a concatenation, and what follows": (
        f"def @main({IMAGE}) {{ add(concatenate((transpose(%x), transpose(%x))), 1f) }}",
        [["add", "concatenate", "transpose", "transpose"]],
    ),
    "a tuple as the result": (
        f"def @main({X}) {{ (negative(exp(%x)), transpose(%x)) }}",
        [["exp", "negative"], ["transpose"]],
    ),
    "projections of a split": (
        """def @main(%x: Tensor[(8, 16), float32], %w: Tensor[(12, 16), float32]) {
        %0 = split(nn.dense(%x, %w), indices_or_sections=4, axis=1);
        add(multiply(sigmoid(%0.0), tanh(%0.1)), exp(%0.3)) }""",
        [["add", "exp", "multiply", "sigmoid", "split", "tanh"], ["nn.dense"]],
    ),
    "a projection as the result": (
        """def @main(%x: Tensor[(8, 16), float32], %w: Tensor[(12, 16), float32],
        %v: Tensor[(5, 4), float32]) {
        nn.dense(split(nn.dense(%x, %w), indices_or_sections=3, axis=1).0, %v) }""",
        [["nn.dense"], ["nn.dense"], ["split"]],
    ),
    "a tuple in between": (
        f"""def @main({X}) {{
        %0 = add(%x, 1f); %1 = sqrt(%0);
        exp(concatenate((negative(%0), %1, %0))) }}""",
        [["add", "concatenate", "exp", "negative", "sqrt"]],
    ),
    "parallel injective operators": (
        f"""def @main({X}) {{ %0 = add(%x, 1f);
        multiply(squeeze(%0), transpose(transpose(%0))) }}""",
        [["add", "multiply", "squeeze", "transpose", "transpose"]],
    ),
    "broadcasts into a reduction": (
        'def @main(%x: Tensor[(1, 9), float32]) { sum(cast(less(%x, 0.5f), dtype="float32")) }',
        [["cast", "less", "sum"]],
    ),
    "a reduction ends its group": (
        f"def @main({X}) {{ negative(sum(%x, axis=[1])) }}",
        [["negative"], ["sum"]],
    ),
    "two reductions": (
        f"def @main({X}) {{ sum(max(exp(%x), axis=[1])) }}",
        [["exp", "max"], ["sum"]],
    ),
    "injective operators do not join a contraction in front of them": (
        """def @main(%x: Tensor[(8, 16), float32], %w: Tensor[(12, 16), float32]) {
        transpose(nn.dense(%x, %w)) }""",
        [["nn.dense"], ["transpose"]],
    ),
    "an output that is also read": (
        f"def @main({X}) {{ %0 = exp(%x); (%0, negative(%0)) }}",
        [["exp"], ["negative"]],
    ),
    "an operator whose sizes depend on data": (
        """def @main(%x: Tensor[(4), float32]) {
        negative(cast(argwhere(abs(%x)), dtype="float32")) }""",
        [["abs"], ["cast", "negative"]],
    ),
}


def groups(module: Module) -> list[list[str]]:
    """Return the operators of each primitive function, in alphabetical order."""
    found = []
    for function in module.functions.values():
        for node in post_order(function):
            if isinstance(node, Function) and node.attrs.get("Primitive"):
                calls = [n for n in post_order(node) if isinstance(n, Call)]
                found.append(sorted(n.op.name for n in calls if isinstance(n.op, Operator)))
    return sorted(found)


@pytest.mark.parametrize("name", CASES)
def test_operators_that_belong_together_share_a_function(name):
    text, expected = CASES[name]
    assert groups(run_passes(parsed(text), ["fuse_ops"], verify=True)) == expected


@pytest.mark.parametrize("name", CASES)
def test_taking_groups_apart_gives_the_program_back(name):
    module = run_passes(parsed(CASES[name][0]), ["infer_types"])
    apart = run_passes(module, ["fuse_ops", "defuse_ops"], verify=True)
    assert [type(n) for n in post_order(apart["main"].body)] == [
        type(n) for n in post_order(module["main"].body)
    ]


def test_a_chain_is_cut_where_a_group_would_grow_too_large():
    chain = "%x"
    for _ in range(20):
        chain = f"exp({chain})"
    module = parsed(f"def @main(%x: Tensor[(3), float32]) {{ {chain} }}")
    sizes = [len(g) for g in groups(run_passes(module, ["fuse_ops[max_depth=8]"]))]
    assert sum(sizes) == 20 and max(sizes) == 8


def test_what_may_trap_is_not_moved_behind_a_write():
    text = """def @main(%r: ref(int32), %x: Tensor[(?), float32], %y: Tensor[(3), float32]) {
      add(add(%x, %y), (%y, ref_write(%r, 1)).0) }"""
    assert groups(run_passes(parsed(text), ["fuse_ops"])) == [["add"], ["add"]]


def test_parts_of_results_that_kernels_do_not_take_stay_bound():
    text = """def @main(%x: Tensor[(2, 3), float32]) {
      let %q = ref(expand_dims(%x, axis=0));
      let %parts = split(ref_read(%q), indices_or_sections=2, axis=1);
      ref_write(%q, expand_dims(squeeze(%parts.0, axis=[0]), axis=0));
      (squeeze(%parts.1, axis=[0]), ref_read(%q)) }"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for level in range(4):
        exe = relayvm.compile(parsed(text), opt_level=level)
        second, kept = relayvm.VirtualMachine(exe).run(x)
        np.testing.assert_array_equal(second, x[1:])
        np.testing.assert_array_equal(kept, x[None, :1])
