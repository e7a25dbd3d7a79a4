"""Layers in bfloat16 are those in float32, rounded once: on every engine, in files, backwards."""

import ml_dtypes
import numpy as np
import pytest

import relayvm
from relayvm.base.narrow.arrays import is_bfloat16
from relayvm.base.narrow.bfloat16 import widened
from relayvm.compiler.autodiff import gradient
from relayvm.compiler.entries import bind_params
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Constant
from relayvm.ir.literal import read_number, write_number
from relayvm.ir.visit import post_order

# Name, shapes of the operands, program of them. Each rounds once, so its bits are known.
LAYERS = {
    "dense": (((7, 140), (20, 140)), "nn.dense(%a, %b)"),
    "one row": (((1, 512), (48, 512)), "nn.dense(%a, %b)"),
    "many rows": (((70, 64), (48, 64)), "nn.dense(%a, %b)"),
    "matmul": (((7, 40), (40, 33)), "nn.matmul(%a, %b)"),
    "batches": (((2, 7, 40), (2, 20, 40)), "nn.batch_matmul(%a, %b, transpose_b=True)"),
    "conv2d": (
        ((1, 5, 9, 9), (6, 5, 3, 3)),
        "nn.conv2d(%a, %b, padding=[1, 1, 1, 1], kernel_size=[3, 3], channels=6)",
    ),
    "softmax": (((7, 40),), "nn.softmax(%a)"),
    "layer_norm": (((7, 40), (40,), (40,)), "nn.layer_norm(%a, %b, %c)"),
    "sums": (((7, 400),), "(sum(%a, axis=[1]), mean(%a, axis=[0]), cumsum(%a, axis=1))"),
    "extremes": (((7, 40),), "(max(%a, axis=[1]), min(%a), argmax(%a, axis=[0]))"),
    "products": (((3, 9),), "prod(%a, axis=[1])"),
    "pools": (
        ((1, 2, 6, 6),),
        "(nn.max_pool2d(%a, pool_size=[2, 2]), nn.avg_pool2d(%a, pool_size=[3, 3]))",
    ),
}
NET = """
def @main(%a: Tensor[(4, 6), KIND], %b: Tensor[(5, 6), KIND], %c: Tensor[(5), KIND],
          %d: Tensor[(1, 2, 5, 5), KIND], %e: Tensor[(3, 2, 3, 3), KIND]) {
  let %h = nn.softmax(nn.bias_add(nn.dense(%a, %b), %c)) * 3SUFFIX;
  let %y = nn.max_pool2d(nn.conv2d(%d, %e, kernel_size=[3, 3], channels=3), pool_size=[2, 2]);
  let %t = take(%h, 1, axis=0) + sigmoid(%c) * tanh(%c);
  (sum(log(%h)) + mean(erf(%y)), power(%t * %t + 1SUFFIX, 1.5SUFFIX), cumsum(%h, axis=1))
}
"""


def layer(name, kind):
    shapes, body = LAYERS[name]
    operands = ", ".join(f"%{n}: Tensor[{s}, {kind}]" for n, s in zip("abc", shapes))
    return relayvm.parse(f"def @main({operands}) {{ {body} }}")


def operands(shapes):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in shapes]


def wide(arrays):
    return [widened(a) for a in arrays]


def bits(value):
    """Return what tells two results apart: dtypes and bytes."""
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    return value.dtype, np.asarray(value).tobytes()


def rounded_like(value, wanted):
    if isinstance(value, tuple):
        return tuple(rounded_like(v, w) for v, w in zip(value, wanted, strict=True))
    return np.asarray(value).astype(wanted.dtype)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_that_of_float32_rounded_once(name):
    args = operands(LAYERS[name][0])
    machine = relayvm.VirtualMachine(relayvm.compile(layer(name, "bfloat16")))
    given = machine.run(*args)
    whole = Evaluator(infer_types(layer(name, "float32"))).call("main", wide(args))
    assert bits(given) == bits(rounded_like(whole, given))
    assert bits(given) == bits(Evaluator(infer_types(layer(name, "bfloat16"))).call("main", args))


STEPS = """
def @main(%g: Tensor[(9), bfloat16], %x: Tensor[(9), bfloat16], %u: Tensor[(64), bfloat16],
          %i: Tensor[(64), int64]) {
  let %at = reshape(%i, newshape=(1, 64));
  (scatter_elements(%x, %i, %u, reduction="METHOD"),
   scatter_elements_grad(%g, %x, %i, %u, reduction="METHOD"),
   scatter_nd_grad(%g, %x, %at, %u, mode="METHOD"),
   gather_nd_grad(%u, %x, %at), adv_index_grad(%u, (%x, %i)))
}
"""


@pytest.mark.parametrize("method", ["update", "add", "mul", "mean", "min", "max"])
def test_what_comes_step_by_step_is_rounded_at_each(method):
    module = relayvm.parse(STEPS.replace("METHOD", method))
    args = [*operands(((9,), (9,), (64,))), np.random.default_rng(1).integers(0, 9, 64)]
    given = relayvm.VirtualMachine(relayvm.compile(module)).run(*args)
    assert bits(given) == bits(Evaluator(infer_types(module)).call("main", args))


def differentiated(kind, suffix):
    module = relayvm.parse(NET.replace("KIND", kind).replace("SUFFIX", suffix))
    function, module = gradient(module["main"], module)
    return module.with_functions({**module.functions, "main": function})


@pytest.mark.slow
def test_gradients_are_those_of_float32_within_rounding():
    args = operands(((4, 6), (5, 6), (5,), (1, 2, 5, 5), (3, 2, 3, 3)))
    module = differentiated("bfloat16", "bf16")
    value, slopes = relayvm.VirtualMachine(relayvm.compile(module)).run(*args)
    assert bits((value, slopes)) == bits(Evaluator(infer_types(module)).call("main", args))
    of_single = infer_types(differentiated("float32", "f"))
    _, wanted = Evaluator(of_single).call("main", wide(args))
    for given, whole in zip(slopes, wanted, strict=True):
        assert is_bfloat16(given)
        np.testing.assert_allclose(
            widened(given), whole, rtol=0, atol=0.04 * float(np.abs(whole).max())
        )


CONTROL = """
def @sums(%l: List[bfloat16]) -> bfloat16 {
  @foldl(fn (%s: bfloat16, %x: bfloat16) { %s + %x }, 0bf16, %l)
}
def @halves(%x: bfloat16) -> int64 {
  if (%x > 1bf16) { @halves(%x * 0.5bf16) + 1i64 } else { 0i64 }
}
def @kept(%r: ref(bfloat16), %x: bfloat16) -> bfloat16 {
  let %_ = ref_write(%r, ref_read(%r) * %x);
  ref_read(%r)
}
def @casts(%x: bfloat16, %i: int64) {
  (cast(%x, dtype="int8"), cast(%x, dtype="uint64"), cast(%x, dtype="float16"),
   cast(%x, dtype="float64"), cast(%x, dtype="bool"), cast(%i, dtype="bfloat16"))
}
def @pairs(%l: List[(bfloat16, Tensor[(2), bfloat16])]) {
  @map(fn (%p: (bfloat16, Tensor[(2), bfloat16])) { %p.0 * %p.1 }, %l)
}
"""


@pytest.fixture(scope="module")
def control():
    return relayvm.compile(relayvm.parse(CONTROL))


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
def test_numbers_flow_through_lists_references_and_calls(control, engine):
    vm = relayvm.VirtualMachine(control, engine=engine)
    single = ml_dtypes.bfloat16
    # 256 + 1 is a tie that goes to 256: each addition rounds.
    assert float(vm.invoke("sums", [256.0, 1.0, 1.0])) == 256
    assert float(vm.invoke("sums", [1.0, 1.0, 256.0])) == 258
    assert vm.invoke("halves", single(1e3)) == 10
    assert float(vm.invoke("kept", 3.0, 1.01)) == float(single(3) * single(1.01))
    found = vm.invoke("casts", single(-300.5), 2**53 + 2**45 + 1)
    assert [v.item() if v.dtype != single else float(v) for v in found[:5]] == [
        -128,
        0,
        -300,
        -300,
        True,
    ]
    assert float(found[5]) == 2**53 + 2**46
    first, rest = vm.invoke("pairs", [(1.5, [2, 3]), (single(2), np.ones(2, single))]).fields
    assert [widened(v).tolist() for v in (first, rest.fields[0])] == [[3, 4.5], [2, 2]]


@pytest.fixture(scope="module")
def bound():
    """A program with every element of bfloat16 as a constant of rank 2."""
    every = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16).reshape(256, 256)
    module = relayvm.parse("def @main(%w: Tensor[(256, 256), bfloat16]) { (%w, copy(%w)) }")
    return bind_params(module, {"w": every}), every


def test_constants_of_executables_keep_their_bits(bound, tmp_path):
    module, every = bound
    relayvm.compile(module).save(tmp_path / "w.rvm")
    results = relayvm.VirtualMachine(relayvm.load(tmp_path / "w.rvm")).run()
    assert all(r.dtype == every.dtype and r.tobytes() == every.tobytes() for r in results)


@pytest.mark.parametrize("constants", ["inline", "file"])
def test_constants_of_texts_keep_their_bits(constants, bound, tmp_path):
    module, every = bound
    relayvm.save_text(module, tmp_path / "w.relay", constants)
    body = relayvm.parse(tmp_path / "w.relay")["main"].body
    back = [node.data for node in post_order(body) if isinstance(node, Constant)]
    assert [(d.dtype, d.tobytes()) for d in back] == [(every.dtype, every.tobytes())] * 2


def test_every_finite_literal_comes_back():
    every = np.arange(1 << 16, dtype=np.uint16)[::97].view(ml_dtypes.bfloat16)
    for number in every[np.isfinite(every.astype(np.float32))]:
        text = write_number(np.asarray(number))
        assert text.endswith("bf16")
        sign = text.startswith("-")
        assert read_number(text.lstrip("-"), sign).tobytes() == number.tobytes(), text
