"""`TensorArrayOps` and `StaticTensorArrayOps` against numpy, on the evaluator and the machine."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm import relay
from relayvm.base.dims import ANY
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.ir import structural_equal
from relayvm.ir.prelude import parse_definitions, take_in
from relayvm.ops import OPS
from relayvm.relay.module import IRModule
from relayvm.relay.namespace.ir import load_json, save_json
from relayvm.relay.prelude import (
    TENSOR_ARRAY_DTYPES,
    Prelude,
    StaticTensorArrayOps,
    TensorArrayOps,
    get_tensor_array_shape,
)
from relayvm.relay.tensor_array_text import HIGHEST_RANK

INDICES = "%i: Tensor[(?), int32]"


def prelude_of(dtype: str) -> Prelude:
    prelude = Prelude()
    TensorArrayOps(prelude, dtype).register()
    return prelude


def held(value):
    """Return what tensor values of either engine hold: arrays, None for an empty place."""
    if isinstance(value, (list, tuple)):
        return [held(v) for v in value]
    fields = getattr(value, "fields", None)
    if fields is None:
        return np.asarray(value)
    return np.asarray(fields[0]) if fields else None


def results(prelude: Prelude, text: str, *args):
    """Return the results of `main` on evaluator and machine."""
    base = prelude.mod.module
    module = take_in(base, parse_definitions(text, OPS, base), OPS)
    yield held(Evaluator(infer_types(module)).call("main", args))
    exe = relayvm.compile(module, entries=["main"])
    yield held(relayvm.VirtualMachine(exe).run(*args))


def check(prelude: Prelude, text: str, wanted, *args):
    for got in results(prelude, text, *args):
        if isinstance(wanted, list):
            assert len(got) == len(wanted)
            pairs = list(zip(got, wanted))
        else:
            pairs = [(got, wanted)]
        for g, w in pairs:
            assert (g is None) == (w is None)
            if w is not None:
                assert g.shape == w.shape and g.dtype == w.dtype and np.array_equal(g, w)


def some(shape, dtype):
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


@pytest.mark.parametrize("dtype", TENSOR_ARRAY_DTYPES)
def test_operations_of_every_dtype(dtype):
    prelude, x = prelude_of(dtype), some((3, 2), dtype)
    t = f"%x: Tensor[(?, ?), {dtype}]"
    unstacked = f"@tensor_array_unstack_tensor2_{dtype}(%x)"
    check(prelude, f"def @main({t}) {{ {unstacked} }}", list(x), x)
    check(prelude, f"def @main({t}) {{ @tensor_array_stack_{dtype}({unstacked}) }}", x, x)
    written = f"@tensor_array_write_{dtype}(@tensor_array_{dtype}(2), 1, tensor2_{dtype}(%x))"
    check(prelude, f"def @main({t}) {{ {written} }}", [None, x], x)


@pytest.mark.parametrize("rank", range(1, HIGHEST_RANK + 1))
def test_unstack_and_stack_of_every_rank(rank):
    x = some((3, 2, 1, 2, 1, 2)[:rank], "float32")
    dims = ", ".join("?" * rank)
    unstacked = f"@tensor_array_unstack_tensor{rank}_float32(%x)"
    head = f"def @main(%x: Tensor[({dims}), float32])"
    prelude = prelude_of("float32")
    check(prelude, f"{head} {{ {unstacked} }}", list(x), x)
    check(prelude, f"{head} {{ @tensor_array_stack_float32({unstacked}) }}", x, x)


@pytest.mark.parametrize("rank", range(1, HIGHEST_RANK + 1))
def test_take_concatenate_and_expand_dims_of_every_rank(rank):
    x = some((4, 2, 1, 2, 1, 2)[:rank], "int32")
    dims = ", ".join("?" * rank)
    head = f"def @main(%x: Tensor[({dims}), int32])"
    t = f"tensor{rank}_int32(%x)"
    prelude = prelude_of("int32")
    check(prelude, f"{head} {{ @tensor_take_int32({t}, 1, 3) }}", x[1:3], x)
    joined = np.concatenate([x, x])
    check(prelude, f"{head} {{ @tensor_concatenate_int32({t}, {t}) }}", joined, x)
    if rank < HIGHEST_RANK:
        check(prelude, f"{head} {{ @tensor_expand_dims_int32({t}) }}", x[None], x)


DYNAMIC = {
    "scatter": (
        f"def @main(%x: Tensor[(?, ?), float32], {INDICES}) {{ @tensor_array_scatter_float32("
        "@tensor_array_float32(4), %i, @tensor_array_unstack_tensor2_float32(%x)) }",
        lambda x, i: [x[2], x[0], x[1], None],
        [1, 2, 0],
    ),
    "split": (
        f"def @main(%x: Tensor[(?, ?), float32], {INDICES}) {{ @tensor_array_split_float32("
        "@tensor_array_float32(3), tensor2_float32(%x), %i) }",
        lambda x, i: [x[:1], x[1:1], x[1:]],
        [1, 0, 2],
    ),
    "split and concat": (
        f"def @main(%x: Tensor[(?, ?), float32], {INDICES}) {{ @tensor_array_concat_float32("
        "@tensor_array_split_float32(@tensor_array_float32(2), tensor2_float32(%x), %i)) }",
        lambda x, i: x,
        [1, 2],
    ),
    "gather": (
        f"def @main(%x: Tensor[(?, ?), float32], {INDICES}) {{ @tensor_array_gather_float32("
        "@tensor_array_unstack_tensor2_float32(%x), %i) }",
        lambda x, i: x[i],
        [2, 0, 2, 1],
    ),
    "read": (
        f"def @main(%x: Tensor[(?, ?), float32], {INDICES}) {{ @tensor_array_read_float32("
        "@tensor_array_unstack_tensor2_float32(%x), take(%i, 0)) }",
        lambda x, i: x[i[0]],
        [1],
    ),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_operations_on_arrays_of_any_shape(name):
    text, meaning, indices = DYNAMIC[name]
    x, i = some((3, 2), "float32"), np.array(indices, np.int32)
    check(prelude_of("float32"), text, meaning(x, i), x, i)


def test_an_empty_array_concatenates_to_nothing():
    check(prelude_of("int8"), "def @main() { @tensor_array_concat_int8(array.new(0)) }", None)


def test_a_place_outside_traps():
    text = "def @main(%n: int32) { @tensor_array_read_float32(@tensor_array_float32(2), %n) }"
    prelude = prelude_of("float32")
    with pytest.raises(relayvm.Trap) as caught:
        list(results(prelude, text, 2))
    assert caught.value.code == "index-out-of-range"


SHAPES = [(), (2,), (3, 2), (ANY, 2), (ANY, ANY, 2)]


@pytest.mark.parametrize("batch_dim", [None, 1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_operations_of_one_shape_are_typed(shape, batch_dim):
    prelude = Prelude()
    ops = StaticTensorArrayOps(prelude, "float32", shape, batch_dim)
    ops.register()
    infer_types(prelude.mod.module)
    assert ops.get_type("tensor_t").name == ops.get_name("tensor_t")
    assert ops.get_ctor("tensor_constructor").belong_to == ops.get_type("tensor_t")
    for name in ("tensor_array", "tensor_array_stack", "tensor_get_data", "tensor_array_gather"):
        assert ops.get_global_var(name).name == ops.get_name(name)
    before = dict(prelude.mod.module.functions)
    StaticTensorArrayOps(prelude, "float32", shape, batch_dim).register()
    assert dict(prelude.mod.module.functions) == before


STATIC = {
    "unstack": ("@tensor_array_unstack_float32_3_2(%x)", list),
    "stack": (
        "@tensor_get_data_float32_any_2("
        "@tensor_array_stack_float32_2(@tensor_array_unstack_float32_3_2(%x)))",
        lambda x: x,
    ),
    "gather": (
        "@tensor_array_gather_float32_2(@tensor_array_unstack_float32_3_2(%x), "
        "cast(stack((2, 0), axis=0), dtype='int32'))".replace("'", '"'),
        lambda x: x[[2, 0]],
    ),
    "take": (
        "@tensor_take_float32_3_2(tensor_constructor_float32_3_2(%x), 1, 3)",
        lambda x: x[1:3],
    ),
    "concatenate": (
        "@tensor_concatenate_float32_3_2(tensor_constructor_float32_3_2(%x), "
        "tensor_constructor_float32_3_2(%x + 1f))",
        lambda x: np.concatenate([x, x + 1]),
    ),
    "expand_dims": (
        "@tensor_expand_dims_float32_3_2(tensor_constructor_float32_3_2(%x))",
        lambda x: x[None],
    ),
    "split": (
        "@tensor_array_split_float32_3_2(@tensor_array_float32_any_2(2), "
        "tensor_constructor_float32_3_2(%x), stack((1, 2), axis=0))",
        lambda x: [x[:1], x[1:]],
    ),
    "concat": (
        "@tensor_array_concat_float32_3_2(@tensor_array_split_float32_3_2("
        "@tensor_array_float32_any_2(2), tensor_constructor_float32_3_2(%x), "
        "stack((1, 2), axis=0)))",
        lambda x: x,
    ),
    "scatter": (
        "@tensor_array_scatter_float32_2(@tensor_array_float32_2(4), stack((3, 0, 1), axis=0), "
        "@tensor_array_unstack_float32_3_2(%x))",
        lambda x: [x[1], x[2], None, x[0]],
    ),
    "write and read": (
        "@tensor_array_read_float32_3_2(@tensor_array_write_float32_3_2("
        "@tensor_array_float32_3_2(2), 1, tensor_constructor_float32_3_2(%x)), 1)",
        lambda x: x,
    ),
}


@pytest.fixture(scope="module")
def static_prelude() -> Prelude:
    prelude = Prelude()
    for shape in ((3, 2), (2,), (ANY, 2)):
        StaticTensorArrayOps(prelude, "float32", shape).register()
    return prelude


@pytest.mark.parametrize("name", STATIC)
def test_operations_on_arrays_of_one_shape(name, static_prelude):
    body, meaning = STATIC[name]
    x = some((3, 2), "float32")
    text = f"def @main(%x: Tensor[(3, 2), float32]) {{ {body} }}"
    check(static_prelude, text, meaning(x), x)


def test_shapes_of_indices_values_and_lengths_may_be_given():
    prelude = Prelude()
    ops = StaticTensorArrayOps(prelude, "float32", (ANY, 2))
    ops.register()
    ops.define_tensor_array_scatter((3,), True)
    ops.define_tensor_array_split((3, 2), (2,), True)
    typed = infer_types(prelude.mod.module)
    name = ops.get_name("tensor_array_scatter", {"indices": (3,)})
    assert typed[name].params[1].checked_type.shape == (3,)
    split = typed[ops.get_name("tensor_array_split")]
    assert split.params[2].checked_type.shape == (2,)


def test_the_shape_of_a_tensor_array_is_told_by_its_type():
    prelude = prelude_of("float32")
    static = StaticTensorArrayOps(prelude, "float32", (ANY, 2))
    static.register()
    n = relay.const(3)
    assert get_tensor_array_shape(static.get_global_var("tensor_array")(n), "float32", prelude) == (
        ANY,
        2,
    )
    dynamic = prelude.get_global_var("tensor_array", "float32")
    assert get_tensor_array_shape(dynamic(n), "float32", prelude) is None


@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_a_program_of_the_original_runs(kind):
    mod = IRModule()
    prelude = Prelude(mod)
    tensor_array = prelude.get_global_var("tensor_array", "float32")
    write = prelude.get_global_var("tensor_array_write", "float32")
    stack = prelude.get_global_var("tensor_array_stack", "float32")
    tensor1 = prelude.get_tensor_ctor("tensor1", "float32")
    v = relay.var("v", shape=(2,), dtype="float32")
    first = write(tensor_array(relay.const(2)), relay.const(0), tensor1(v))
    mod["main"] = relay.Function([v], stack(write(first, relay.const(1), tensor1(v))))
    x = np.array([1, 2], np.float32)
    result = relay.create_executor(kind, mod=mod).evaluate()(x)
    assert np.array_equal(result.fields[0].numpy(), [x, x])


WRITES = """
def @go(%ta: Array[tensor_float32_t], %i: int32, %n: int32) -> Array[tensor_float32_t] {
  if (%i == %n) { %ta } else {
    @go(@tensor_array_write_float32(%ta, %i, tensor0_float32(cast(%i, dtype="float32"))),
      %i + 1, %n)
  }
}
def @main(%n: int32) { @tensor_array_read_float32(@go(@tensor_array_float32(%n), 0, %n), %n - 1) }
"""


@pytest.mark.parametrize("opt_level", [0, 3])
def test_writes_in_a_loop_copy_nothing(opt_level):
    base = prelude_of("float32").mod.module
    module = take_in(base, parse_definitions(WRITES, OPS, base), OPS)
    exe = relayvm.compile(module, entries=["main"], opt_level=opt_level)
    steps = []
    for n in (1_000, 100_000):
        vm = relayvm.VirtualMachine(exe)
        assert float(vm.run(n).fields[0]) == n - 1
        assert vm.stats()["copied_items"] == 0
        steps.append(vm.stats()["steps"])
    assert steps[1] <= 101 * steps[0]


def test_an_unknown_dtype_is_refused():
    with pytest.raises(relayvm.RelayError, match="bool"):
        TensorArrayOps(Prelude(), "bool")


@pytest.mark.parametrize("shape", [None, (ANY, 2)])
def test_a_module_of_tensor_arrays_is_written_to_json_and_read(shape):
    prelude = Prelude()
    if shape is None:
        TensorArrayOps(prelude, "int32").register()
    else:
        StaticTensorArrayOps(prelude, "int32", shape).register()
    back = load_json(save_json(prelude.mod))
    assert structural_equal(back.module, prelude.mod.module)
