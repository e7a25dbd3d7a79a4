"""Primitive functions that the program gives itself: they run, as kernels where they can."""

from __future__ import annotations

import numpy as np
import pytest
from programs_text import parsed

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.optimize import optimize
from relayvm.compiler.passes import run_passes
from relayvm.ir.expr import Call, Function
from relayvm.ir.visit import free_type_vars, post_order

X = np.array([0.5, -1.0, 2.0], np.float32)
SIGNATURE = "%x: Tensor[(3), float32]"
PARAM = "%p: Tensor[(3), float32], Primitive=1"

PROGRAMS = {
    "a graph": f"def @main({SIGNATURE}) {{ fn ({PARAM}) {{ %0 = exp(%p); add(%0, %0) }}(%x) }}",
    "lets": f"def @main({SIGNATURE}) {{ fn ({PARAM}) {{ let %a = exp(%p); add(%a, %a) }}(%x) }}",
    "a name": f"""def @main({SIGNATURE}) {{ let %f = fn ({PARAM}) {{ exp(%p) }};
        add(%f(%x), %f(%x)) }}""",
    "a global": f"""def @f({PARAM}) -> Tensor[(3), float32] {{ exp(%p) }}
        def @main({SIGNATURE}) {{ add(@f(%x), @f(%x)) }}""",
    "a choice inside": f"""def @main({SIGNATURE}) {{
        fn ({PARAM}) {{ if (True) {{ add(exp(%p), exp(%p)) }} else {{ %p }} }}(%x) }}""",
    "a closure inside": f"""def @main({SIGNATURE}) {{
        fn ({PARAM}) {{ let %g = fn (%y: Tensor[(3), float32]) {{ exp(%y) }};
          add(%g(%p), %g(%p)) }}(%x) }}""",
    "a tuple as parameter": """def @main(%x: Tensor[(3), float32]) {
        fn (%t: (Tensor[(3), float32], Tensor[(3), float32]), Primitive=1) {
          add(exp(%t.0), exp(%t.1)) }((%x, %x)) }""",
    "a value": f"""def @main({SIGNATURE}) {{ let %r = ref(fn ({PARAM}) {{ exp(%p) }});
        let %f = ref_read(%r); add(%f(%x), %f(%x)) }}""",
}


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_primitive_function_of_the_program_runs(name, level):
    exe = relayvm.compile(parsed(PROGRAMS[name]), opt_level=level)
    result = relayvm.VirtualMachine(exe).run(X)
    assert np.allclose(result, 2 * np.exp(X), rtol=1e-6)


@pytest.mark.parametrize("name", ["a graph", "lets", "a name", "a global", "a choice inside"])
def test_a_primitive_function_of_operators_is_one_kernel(name):
    lowered = optimize(parsed(PROGRAMS[name]), entries=["main"]).module
    kernels = [
        node
        for function in lowered.functions.values()
        for node in post_order(function)
        if isinstance(node, Call)
        and isinstance(node.op, Function)
        and node.op.attrs.get("Primitive")
    ]
    assert len(kernels) == 1


def test_what_fuse_ops_makes_compiles():
    text = """def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {
      %0 = nn.relu(add(nn.dense(tanh(%x), %w), 1f)); (sum(%0, axis=[1]), %0) }"""
    x, w = np.ones((2, 3), np.float32), np.full((4, 3), 0.5, np.float32)
    plain = relayvm.VirtualMachine(relayvm.compile(parsed(text))).run(x, w)
    fused = run_passes(parsed(text), ["fuse_ops"])
    again = relayvm.VirtualMachine(relayvm.compile(fused)).run(x, w)
    for a, b in zip(plain, again):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    "body", ["add(%x, %x)", "reshape(concatenate((%x, %x)), newshape=[n * 2])"]
)
def test_fused_groups_of_a_function_of_sizes_evaluate_partially(body):
    result = "n" if body.startswith("add") else "n * 2"
    text = f"""def @f[n](%x: Tensor[(n), float32]) -> Tensor[({result}), float32] {{ {body} }}
      def @main({SIGNATURE}) {{ @f(%x) }}"""
    expected = Evaluator(parsed(text)).call("main", [X])
    after = run_passes(parsed(text), ["fuse_ops", "partial_evaluate", "infer_types"], verify=True)
    assert not free_type_vars(after["main"])
    assert np.array_equal(Evaluator(after).call("main", [X]), expected)
