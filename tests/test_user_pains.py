"""What users of the original ran into, each as the behaviour that is right.

Rows that other tests hold:

| reported as | the test |
|---|---|
| apache/tvm#15797, an operator that text loses | `tests/ops/test_every_operator_text.py` |
| apache/tvm#13296, the stack overflows in the compiler | `tests/ir/test_deep.py`, and below |
| apache/tvm#8285, memory held until there is none | `tests/vm/test_memory.py`, and below |
| apache/tvm#12302, dynamic axes of all operators | `tests/ops/test_operators_on_the_machine.py` |
| apache/tvm#14351, a run command for each kind of file | `tests/cli/test_file_commands.py` |
| apache/tvm#11264, boxes and sizes that are computed | `tests/ops/test_suppression.py`, and below |
| apache/tvm PR 7210, values that decide sizes | `tests/ops/test_value_operands.py`, and below |

What concerns importers of other frameworks, their layers, and devices that are not there has no
test here.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import relayvm
from relayvm import relay
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.equal import structural_equal
from relayvm.ir.printer import print_module, print_type
from relayvm.vm.library import lib
from tests.compiler.programs_text import parsed, typed

RNG = np.random.default_rng(0)


def compiled(text: str, **options: object) -> relayvm.VirtualMachine:
    return relayvm.VirtualMachine(relayvm.compile(parsed(text), **options))


def result_type(text: str) -> str:
    return print_type(typed(text)["main"].checked_type.ret_type)


@pytest.mark.parametrize("name", ["sin", "cos", "erf", "log2", "sinh", "nn.log_softmax"])
def test_a_function_of_elements_runs_at_sizes_known_only_at_run_time(name):
    """apache/tvm#15832: no shape function, so that the compiler failed."""
    vm = compiled(f"def @main(%x: Tensor[(?, 4), float32]) {{ {name}(%x) }}")
    for rows in (0, 1, 5):
        x = RNG.random((rows, 4), np.float32)
        np.testing.assert_allclose(vm.run(x), relayvm.ops.OPS[name].evaluate([x], {}), rtol=1e-5)


def test_reductions_take_axes_of_unknown_size():
    """apache/tvm#12302: an invalid type of an axis in a schedule."""
    vm = compiled("def @main(%x: Tensor[(?, 3, ?), float32]) { sum(%x + 1f, axis=[0, 2]) }")
    x = RNG.random((4, 3, 5), np.float32)
    np.testing.assert_allclose(vm.run(x), (x + 1).sum((0, 2)), rtol=1e-5)


def test_a_squeeze_made_static_gives_what_the_dynamic_one_gives():
    """apache/tvm#17050: (13, 13, 1, 1) instead of (13, 1, 1, 1)."""
    x = relay.var("x", shape=(1, 13, 1, 1, 1))
    call = relay.squeeze(x, relay.const(np.array([0], np.int64)))
    module = relayvm.IRModule.from_expr(relay.Function([x], call))
    static = relay.transform.DynamicToStatic()(relay.transform.InferType()(module))
    assert "dyn." not in static.astext(show_meta_data=False)
    assert print_type(static["main"].checked_type.ret_type) == "Tensor[(13, 1, 1, 1), float32]"
    given = RNG.random((1, 13, 1, 1, 1), np.float32)
    for program in (module, static):
        result = relay.create_executor("vm", mod=program).evaluate()(given).numpy()
        np.testing.assert_array_equal(result, given[0])


def test_a_size_left_to_be_found_never_shows_in_a_type():
    """apache/tvm#7096: the -1 of a reshape met an unknown size."""
    text = """
    def @main(%x: Tensor[(?, 6), float32], %y: Tensor[(?, 3), float32]) {
      let %r = reshape(%x, newshape=[-1, 3]);
      let %s = reshape(%x, newshape=[0, -1, 2]);
      (%r, add(reshape(%y, newshape=[-1, 3]), %r), %s)
    }
    """
    assert "-1" not in result_type(text)
    x = RNG.random((2, 6), np.float32)
    results = compiled(text).run(x, RNG.random((4, 3), np.float32))
    assert [r.shape for r in results] == [(4, 3), (4, 3), (2, 3, 2)]


@pytest.mark.parametrize("kind", ["graph", "vm", "debug"])
def test_every_executor_takes_programs_of_dynamic_sizes(kind):
    """apache/tvm#15123: the default executor failed deep inside on `Any`."""
    x = relay.var("x", relay.TensorType((relay.Any(), 2), "float32"))
    module = relayvm.IRModule.from_expr(relay.Function([x], relay.concatenate([x, x], axis=0)))
    given = RNG.random((3, 2), np.float32)
    result = relay.create_executor(kind, mod=module).evaluate()(given).numpy()
    np.testing.assert_array_equal(result, np.concatenate([given, given]))


def test_sizes_that_depend_on_data_need_no_other_machine():
    """apache/tvm#14615, apache/tvm#15785: `unique` and counts could not be built."""
    vm = compiled("def @main(%x: Tensor[(?), int32]) { unique(%x, sorted=True) }")
    x = np.array([3, 1, 3, 2, 1], np.int32)
    np.testing.assert_array_equal(vm.run(x)[0][:3], [1, 2, 3])


FLAGGED = [
    ("dyn.reshape", [[6, -1]], {}, "(6, 4), float32"),
    ("dyn.tile", [[1, 2, 1]], {}, "(2, 6, 4), float32"),
    ("dyn.topk", [2], {"ret_type": "values"}, "(2, 3, 2), float32"),
    ("dyn.broadcast_to", [[5, 2, 3, 4]], {}, "(5, 2, 3, 4), float32"),
    ("dyn.squeeze", [[]], {}, "(2, 3, 4), float32"),
    ("dyn.expand_dims", [1], {"num_newaxis": 2}, "(2, 1, 1, 3, 4), float32"),
    ("dyn.strided_slice", [[0, 1, 0], [2, 3, 4], [1, 1, 2]], {}, "(2, 2, 2), float32"),
]


@pytest.mark.parametrize(("name", "values", "attrs", "expected"), FLAGGED)
def test_only_operands_that_decide_on_a_shape_need_be_known(name, values, attrs, expected):
    """apache/tvm PR 7210: one flag for the whole operator had data of any size copied."""
    data = relay.var("x", shape=(2, 3, 4))
    constants = [relay.const(v, "int64") for v in values]
    known = relayvm.ops.OPS[name](data, *constants, **attrs)
    infer = relay.transform.InferType()
    module = infer(relayvm.IRModule.from_expr(relay.Function([data], known)))
    assert print_type(module["main"].checked_type.ret_type) == f"Tensor[{expected}]"
    # Now the data is known and what decides is not: the size is found as the program runs.
    given = RNG.random((2, 3, 4), np.float32)
    params = [
        relay.var(f"s{i}", shape=c.data.shape, dtype="int64") for i, c in enumerate(constants)
    ]
    late = relayvm.ops.OPS[name](relay.const(given), *params, **attrs)
    unknown = relayvm.IRModule.from_expr(relay.Function(params, late))
    assert "?" in print_type(infer(unknown)["main"].checked_type.ret_type)
    results = [
        relay.create_executor("vm", mod=program).evaluate()(*args).numpy()
        for program, args in ((module, [given]), (unknown, [c.data for c in constants]))
    ]
    np.testing.assert_array_equal(*results)


def test_static_parts_run_as_fast_beside_dynamic_ones_as_alone():
    """apache/tvm#15405: three times slower on the machine for dynamic programs."""
    static = "let %h = nn.relu(nn.dense(%x, %w)); let %y = nn.dense(%h, %w) + 1f;"
    types = "%x: Tensor[(4, 8), float32], %w: Tensor[(8, 8), float32]"
    alone = relayvm.compile(parsed(f"def @main({types}) {{ {static} %y }}"))
    beside = relayvm.compile(
        parsed(
            f"def @main({types}, %b: Tensor[(?, 4), float32]) "
            f"{{ {static} (%y, argwhere(%b), nn.softmax(%b)) }}"
        )
    )
    kernels = {kernel.nest for kernel in beside.program().kernels}
    wanted = {kernel.nest for kernel in alone.program().kernels}
    assert wanted and wanted <= kernels


@pytest.mark.skipif(lib.rvm_is_stress_build(), reason="the stress build keeps no memory")
def test_a_loop_of_a_dynamic_cell_plans_and_allocates_nothing_per_step():
    """apache/tvm#7749: seven times slower than it should be, in allocation and copies."""
    vm = compiled("""
    def @go[n](%i: int32, %h: Tensor[(n, 4), float32], %w: Tensor[(4, 4), float32])
        -> Tensor[(n, 4), float32] {
      if (%i == 0) { %h } else { @go(%i - 1, tanh(nn.dense(%h, %w)), %w) }
    }
    def @main[n](%i: int32, %h: Tensor[(n, 4), float32], %w: Tensor[(4, 4), float32]) {
      @go(%i, %h, %w)
    }
    """)
    h, w = RNG.random((3, 4), np.float32), RNG.random((4, 4), np.float32)
    vm.run(10, h, w)
    before = vm.stats()
    vm.run(2_000, h, w)
    after = vm.stats()
    assert after["system_calls"] == before["system_calls"]
    assert after["held_bytes"] == before["held_bytes"]


def test_text_with_constants_needs_nothing_beside_it():
    """apache/tvm#13133: `fromtext` asked for a table of constants."""
    weight = RNG.random((3, 4), np.float32)
    x = relay.var("x", shape=(2, 4))
    module = relayvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, relay.const(weight))))
    again = relay.fromtext(module.astext())
    typed_module = relay.transform.InferType()(module)
    relayvm.ir.assert_structural_equal(typed_module, again)
    given = RNG.random((2, 4), np.float32)
    result = relay.create_executor("vm", mod=again).evaluate()(given).numpy()
    np.testing.assert_allclose(result, given @ weight.T, rtol=1e-5)


def test_programs_survive_text_and_json():
    """apache/tvm#15797: what came from another framework was lost on the way."""
    x = relay.var("x", shape=(2, 3, 8, 8))
    body = relay.nn.conv2d(x, relay.var("w"), kernel_size=(3, 3), channels=4, padding=(1, 1))
    body = relay.split(relay.nn.relu(body), 2, axis=1)[1]
    module = relay.transform.InferType()(
        relayvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    )
    relayvm.ir.assert_structural_equal(relay.fromtext(module.astext()), module)
    relayvm.ir.assert_structural_equal(relayvm.ir.load_json(relayvm.ir.save_json(module)), module)


@pytest.mark.slow
def test_compiling_a_deep_program_needs_little_stack():
    """apache/tvm#13296: the stack of Windows was too small for a detection model."""
    text = "def @main(%x: float32) { " + "add(" * 4_000 + "%x" + ", 1f)" * 4_000 + " }"
    results: list[object] = []
    old = threading.stack_size(512 << 10)
    try:
        thread = threading.Thread(target=lambda: results.append(compiled(text).run(1.0)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old)
    assert float(results[0]) == 4_001


def test_a_function_that_is_only_a_value_is_kept():
    """apache/tvm#4697: globals were pruned that no call names directly."""
    text = """
    def @square(%x: int32) -> int32 { %x * %x }
    def @cube(%x: int32) -> int32 { %x * %x * %x }
    def @pick(%c: bool) -> fn (int32) -> int32 { if (%c) { @square } else { @cube } }
    def @main(%c: bool, %x: int32) -> int32 { @pick(%c)(%x) }
    """
    for level in range(5):
        vm = compiled(text, opt_level=level, entries=["main"])
        assert (int(vm.run(True, 3)), int(vm.run(False, 3))) == (9, 27)


def test_gradients_of_higher_order_run_on_the_machine():
    """apache/tvm#4519: their references had no instructions."""
    x = relay.var("x", shape=(3,))
    function = relay.transform.InferType()(
        relayvm.IRModule.from_expr(relay.Function([x], relay.sum(x * x * x)))
    )["main"]
    slope = relay.transform.gradient(function, mode="higher_order")
    given = np.array([1, -2, 3], np.float32)
    module = relayvm.IRModule.from_expr(slope)
    (_, (result,)) = relay.create_executor("vm", mod=module).evaluate()(given)
    np.testing.assert_allclose(result.numpy(), 3 * given**2, rtol=1e-5)


def test_removing_dead_code_keeps_writes_that_gradients_need():
    """apache/tvm#6803: `ref_write` went, and gradients were wrong."""
    x = relay.var("x", shape=(3,))
    module = relayvm.IRModule.from_expr(relay.Function([x], relay.sum(relay.tanh(x) * x)))
    module = relay.transform.InferType()(module)
    slope = relayvm.IRModule.from_expr(relay.transform.gradient(module["main"]))
    passes = [relay.transform.InferType(), relay.transform.DeadCodeElimination()]
    given = np.array([0.5, -2, 3], np.float32)
    results = []
    for program in (slope, relayvm.transform.Sequential(passes)(slope)):
        (_, (result,)) = relay.create_executor("debug", mod=program).evaluate()(given)
        results.append(result.numpy())
    wanted = np.tanh(given) + given * (1 - np.tanh(given) ** 2)
    np.testing.assert_allclose(results, [wanted, wanted], rtol=1e-5)


DYNAMIC_CHOICE = """
def @main(%x: Tensor[(?, 2), float32], %c: bool) {
  let %y = if (%c) { concatenate((%x, %x), axis=0) } else { negative(%x) };
  (%y, nn.softmax(%y, axis=-1))
}
"""


@pytest.mark.parametrize("level", range(5))
def test_every_level_compiles_every_program(level):
    """apache/tvm#10324: level 0 skipped a pass that lowering needs, and crashed."""
    vm = compiled(DYNAMIC_CHOICE, opt_level=level)
    x = RNG.random((3, 2), np.float32)
    for flag in (True, False):
        wanted = Evaluator(typed(DYNAMIC_CHOICE)).call("main", (x, np.array(flag)))
        for mine, theirs in zip(vm.run(x, flag), wanted):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((2, 3), np.float64), ["`image`", "float64", "float32"]),
        (np.zeros((2, 4), np.float32), ["`image`", "4", "3"]),
        (np.zeros(3, np.float32), ["`image`", "Tensor[(3), ", "Tensor[(2, 3), "]),
    ],
)
def test_a_wrong_argument_is_named_with_both_types(given, words):
    """apache/tvm#16187: the text of an assertion about a struct."""
    vm = compiled("def @main(%image: Tensor[(2, 3), float32], %n: int32) { %image }")
    with pytest.raises(relayvm.RelayError) as caught:
        vm.run(given, 1)
    message = str(caught.value)
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_shapes_of_either_integer_type_mix(dtype):
    """apache/tvm#7896: an int32 could not be stored in a buffer of int64."""
    text = """
    def @main(%x: Tensor[(?, 4), float32], %s: Tensor[(2), int64]) {
      let %size = shape_of(%x, dtype="DTYPE");
      let %y = dyn.reshape(%x, reverse(%size, axis=0));
      (dyn.broadcast_to(sum(%x), cast(%s, dtype="DTYPE")), %y)
    }
    """.replace("DTYPE", dtype)
    x = RNG.random((3, 4), np.float32)
    total, turned = compiled(text).run(x, np.array([2, 5]))
    assert (total.shape, turned.shape) == ((2, 5), (4, 3))
    np.testing.assert_array_equal(turned, x.reshape(4, 3))


def test_levels_agree_on_scales_folded_into_convolutions():
    """apache/tvm#13359, apache/tvm#16211: results changed at level 3."""
    text = """
    def @main(%x: Tensor[(1, 3, 6, 6), float32], %w: Tensor[(4, 3, 3, 3), float32],
              %s: Tensor[(4, 1, 1), float32]) {
      let %y = nn.conv2d(%x * 0.5f, %w, kernel_size=[3, 3], channels=4);
      let %z = nn.relu(%y * %s + 0f) * 1f;
      (%z - %z / 2f, transpose(transpose(%z, axes=[0, 2, 3, 1]), axes=[0, 3, 1, 2]))
    }
    """
    args = [
        RNG.standard_normal(s).astype(np.float32) for s in ((1, 3, 6, 6), (4, 3, 3, 3), (4, 1, 1))
    ]
    wanted = Evaluator(typed(text)).call("main", args)
    for level in range(5):
        for mine, theirs in zip(compiled(text, opt_level=level).run(*args), wanted):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_a_known_size_wins_over_an_unknown_one_and_is_checked():
    """apache/tvm#6594: broadcasting with `Any` lost sizes that are known, or kept wrong ones."""
    text = "def @main(%x: Tensor[(?, 3), float32], %y: Tensor[(2, 3), float32]) { %x + %y }"
    assert result_type(text) == "Tensor[(2, 3), float32]"
    vm = compiled(text)
    y = RNG.random((2, 3), np.float32)
    assert vm.run(np.zeros((2, 3), np.float32), y).shape == (2, 3)
    assert vm.run(np.zeros((1, 3), np.float32), y).shape == (2, 3)
    with pytest.raises(relayvm.Trap) as caught:
        vm.run(np.zeros((5, 3), np.float32), y)
    assert caught.value.code == "run-time-shape"


def test_branches_of_different_sizes_have_an_unknown_one():
    """apache/tvm#5795: types with `Any` in branches could not be unified."""
    text = """
    def @main(%c: bool, %x: Tensor[(2, 3), float32], %y: Tensor[(?, 3), float32]) {
      if (%c) { %x } else { %y }
    }
    """
    assert result_type(text) == "Tensor[(?, 3), float32]"


@pytest.mark.slow
@pytest.mark.skipif(lib.rvm_is_stress_build(), reason="the stress build keeps no memory")
def test_memory_of_one_size_is_there_for_another():
    """apache/tvm#8285: the pool held what it had until there was no more."""
    exe = relayvm.compile(parsed("def @main(%x: Tensor[(?), float32]) { sort(%x + 1f) }"))
    vm = relayvm.VirtualMachine(exe, max_memory=24 << 20)
    for megabytes in (4, 1, 3, 2, 4, 1):
        size = megabytes << 18
        assert vm.run(np.zeros(size, np.float32)).shape == (size,)


def test_threads_share_an_executable_and_results_are_right():
    """octoml/tvm2onnx#45: users shared one machine, which was not safe."""
    exe = relayvm.compile(
        parsed("""
    def @main(%n: int32) -> int32 { if (%n < 2) { %n } else { @main(%n - 1) + @main(%n - 2) } }
    """)
    )
    results: dict[int, int] = {}

    def work(n: int) -> None:
        results[n] = int(relayvm.VirtualMachine(exe).run(n))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict(zip(range(12, 20), [144, 233, 377, 610, 987, 1597, 2584, 4181]))


def test_a_call_and_inputs_set_before_give_the_same():
    """apache/tvm#18108: one way worked where the other failed."""
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    module = relayvm.IRModule.from_expr(relay.Function([x, y], relay.Tuple([x - y, x * y])))
    vm = relayvm.runtime.vm.VirtualMachine(relay.vm.compile(module, "llvm"), relayvm.cpu())
    a, b = np.array([1, 2], np.float32), np.array([3, 5], np.float32)
    direct = [v.numpy() for v in vm.run(a, b)]
    vm.set_input("main", a, y=b)
    assert [v.numpy().tolist() for v in vm.run()] == [v.tolist() for v in direct]
    vm.set_input("main", a, b)
    vm.invoke_stateful("main")
    assert [v.numpy().tolist() for v in vm.get_outputs()] == [v.tolist() for v in direct]


def test_printed_programs_are_equal_to_what_was_printed():
    """apache/tvm#13133: text and program drifted apart."""
    module = infer_types(parsed(DYNAMIC_CHOICE))
    assert structural_equal(infer_types(parsed(print_module(module))), module)
