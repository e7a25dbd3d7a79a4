"""Generated code of whole nests, naive and scheduled: the bits of the nest interpreter."""

import functools
import platform

import numpy as np
import pytest

from relayvm.base.abi import Access, reason_text, trap_status
from relayvm.base.dims import DimVar, dim_value, symbol
from relayvm.base.dtypes import BY_NAME
from relayvm.base.link import link_object
from relayvm.base.native.cpu import target_cpu
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels import lower
from relayvm.kernels.codegen.function import nest_functions
from relayvm.kernels.codegen.llvm import compile_object, module_text
from relayvm.kernels.interpret import IndexTrap, interpret
from relayvm.kernels.schedule import schedule
from tests.kernels.images import LoadedImage, own_memory, same_bits

N, M = DimVar("n"), DimVar("m")
DN, DM = symbol(N), symbol(M)
SIZES = [(1, 1), (5, 16), (17, 33), (0, 3), (3, 0), (2, 70)]
CASES = {}


def case(make):
    """Register a computation under its function's name."""
    name = make.__name__.strip("_")
    inputs, outputs, *rest = make()
    strided = rest[0] if rest else frozenset()
    CASES[name] = lower.Computation(name, tuple(inputs), tuple(outputs), (N, M), strided)
    return make


def _matrix(name="x", dtype="float32"):
    return te.placeholder(name, (DN, DM), dtype)


@case
def _chain():
    x, y = _matrix(), _matrix("y")
    z = te.compute((DN, DM), lambda i, j: te.scalar("tanh", x[i, j] * 2.0 + y[i, j]))
    return [x, y], [te.compute((DN, DM), lambda i, j: te.scalar("maximum", z[i, j], y[i, j]))]


@case
def _half_chain():
    x = _matrix(dtype="float16")
    return [x], [te.compute((DN, DM), lambda i, j: te.scalar("exp", x[i, j]) * x[i, j])]


@case
def _compare_and_select():
    x, y = _matrix(dtype="int32"), _matrix("y", "int32")
    pick = te.compute((DN, DM), lambda i, j: te.select(x[i, j] < y[i, j], x[i, j], y[i, j] * 3))
    return [x, y], [te.compute((DN, DM), lambda i, j: x[i, j] < y[i, j]), pick]


@case
def _row_and_column_broadcast():
    x, r = _matrix(), te.placeholder("r", (DM,), "float32")
    c = te.placeholder("c", (DN,), "float32")
    return [x, r, c], [te.compute((DN, DM), lambda i, j: x[i, j] * r[j] + c[i])]


@case
def _transpose():
    x = _matrix(dtype="int16")
    return [x], [te.compute((DM, DN), lambda i, j: x[j, i])]


@case
def _row_sums():
    x = _matrix()
    return [x], [te.compute((DN,), lambda i: te.reduce("sum", (DM,), lambda k: x[i, k]))]


@case
def _column_maxima():
    x = _matrix()
    return [x], [te.compute((DM,), lambda j: te.reduce("max", (DN,), lambda k: x[k, j]))]


@case
def _argmax():
    x = _matrix()
    return [x], [te.compute((DN,), lambda i: te.arg_reduce("argmax", (DM,), lambda k: x[i, k]))]


@case
def _any_above():
    x = _matrix()
    zero = te.const(0.5, "float32")
    return [x], [
        te.compute((DN,), lambda i: te.reduce("any", (DM,), lambda k: x[i, k] > zero)),
    ]


@case
def _integer_product():
    x = _matrix(dtype="int8")
    return [x], [te.compute((DN,), lambda i: te.reduce("prod", (DM,), lambda k: x[i, k]))]


@case
def _softmax():
    x = _matrix()
    top = te.compute((DN,), lambda i: te.reduce("max", (DM,), lambda k: x[i, k]))
    e = te.compute((DN, DM), lambda i, j: te.scalar("exp", x[i, j] - top[i]))
    total = te.compute((DN,), lambda i: te.reduce("sum", (DM,), lambda k: e[i, k]))
    return [x], [te.compute((DN, DM), lambda i, j: te.scalar("divide", e[i, j], total[i]))]


@case
def _dense_with_epilogue():
    x, w = _matrix(), te.placeholder("w", (19, DM), "float32")
    b = te.placeholder("b", (19,), "float32")
    d = te.compute((DN, 19), lambda i, j: te.reduce("sum", (DM,), lambda k: x[i, k] * w[j, k]))
    return [x, w, b], [te.compute((DN, 19), lambda i, j: te.scalar("tanh", d[i, j] + b[j]))]


@case
def _dense_of_doubles():
    x, w = _matrix(dtype="float64"), te.placeholder("w", (5, DM), "float64")
    return [x, w], [
        te.compute((DN, 5), lambda i, j: te.reduce("sum", (DM,), lambda k: x[i, k] * w[j, k])),
    ]


@case
def _product_of_matrices():
    x, w = _matrix(), te.placeholder("w", (DM, 40), "float32")
    return [x, w], [
        te.compute((DN, 40), lambda i, j: te.reduce("sum", (DM,), lambda k: x[i, k] * w[k, j])),
    ]


@case
def _product_of_bfloat16():
    x, w = _matrix(dtype="bfloat16"), te.placeholder("w", (9, DM), "bfloat16")

    def wide(t, i, k):
        return te.cast(t[i, k], "float32")

    d = te.compute(
        (DN, 9), lambda i, j: te.reduce("sum", (DM,), lambda k: wide(x, i, k) * wide(w, j, k))
    )
    return [x, w], [te.compute((DN, 9), lambda i, j: te.cast(d[i, j], "bfloat16"))]


@case
def _product_of_bytes():
    x, w = _matrix(dtype="uint8"), te.placeholder("w", (21, DM), "int8")

    def wide(t, i, k):
        return te.cast(t[i, k], "int32")

    return [x, w], [
        te.compute(
            (DN, 21), lambda i, j: te.reduce("sum", (DM,), lambda k: wide(x, i, k) * wide(w, j, k))
        )
    ]


@case
def _weighted_columns():
    x, v = _matrix(), te.placeholder("v", (DM, 40), "float32")
    e = te.compute((DN, DM), lambda i, j: te.scalar("exp", x[i, j]))
    total = te.compute((DN,), lambda i: te.reduce("sum", (DM,), lambda k: e[i, k]))
    p = te.compute((DN, DM), lambda i, j: te.scalar("divide", e[i, j], total[i]))
    return [x, v], [
        te.compute((DN, 40), lambda i, j: te.reduce("sum", (DM,), lambda k: p[i, k] * v[k, j]))
    ]


@case
def _bordered():
    x = _matrix(dtype="int8")
    borders = [("greater", 2), ("less_equal", DM - 4), ("greater_equal", 1), ("less", DM - 1)]

    def element(i, j):
        total = x[i, j]
        for number, (name, border) in enumerate(borders):
            here = te.scalar(name, j, te.dim(border))
            total = total + te.select(here, x[i, j], te.const(number, "int8"))
        return total

    return [x], [te.compute((DN, DM), element)]


@case
def _take_clipped():
    x, i0 = te.placeholder("x", (7, DM), "float32"), te.placeholder("i", (DN,), "int64")
    return [x, i0], [te.compute((DN, DM), lambda i, j: x[te.index(i0[i], 7, "clip"), j])]


@case
def _take_wrapped():
    x, i0 = te.placeholder("x", (7, DM), "float64"), te.placeholder("i", (DN,), "int32")
    return [x, i0], [te.compute((DN, DM), lambda i, j: x[te.index(i0[i], 7, "wrap"), j])]


@case
def _take_trapping():
    x, i0 = te.placeholder("x", (7, DM), "uint8"), te.placeholder("i", (DN,), "int64")
    return [x, i0], [te.compute((DN, DM), lambda i, j: x[te.index(i0[i], 7, "trap"), j])]


@case
def _scalar_operand():
    x, s = _matrix(), te.placeholder("s", (), "float32")
    total = te.compute((), lambda: te.reduce("sum", (DN, DM), lambda i, j: x[i, j]))
    return [x, s], [te.compute((DN, DM), lambda i, j: x[i, j] * s[()]), total]


@case
def _strided_operand():
    x, y = _matrix(), _matrix("y")
    return [x, y], [te.compute((DN, DM), lambda i, j: x[i, j] - y[i, j])], frozenset({1})


@case
def _shifted_copy():
    x = _matrix(dtype="bool")
    return [x], [te.compute((DN, DM), lambda i, j: te.scalar("logical_not", x[i, j]))]


@functools.cache
def nests_for(target):
    """Return all computations by their names, each with its naive nest and with its schedule."""
    return {
        f"{name}_{level}": (computation, nest)
        for name, computation in CASES.items()
        for level, nest in (
            ("naive", lower.lower(computation)),
            ("scheduled", schedule(computation, target)),
        )
    }


NESTS = nests_for(Target())
TARGETS = {"host": Target(), "avx2": Target.parse("cpu -mcpu=x86-64-v3")}
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 1e-38)


def link_nests(target):
    """Return one image with the code of all nests."""
    cpu, nests = target_cpu(target), nests_for(target)
    entries = {
        name: tuple(f"{name}.{p}" for p in range(len(nest.phases)))
        for name, (_, nest) in nests.items()
    }
    text = "\n".join(nest_functions(nest, name, (), cpu) for name, (_, nest) in nests.items())
    data = compile_object(module_text(text, cpu), cpu, speed=1)
    return link_object(data, cpu.triple, cpu.features, entries)


@pytest.fixture(scope="module", params=TARGETS)
def image(request):
    if request.param == "avx2" and platform.machine() != "x86_64":
        pytest.skip("needs x86-64")
    target = TARGETS[request.param]
    return target, LoadedImage(link_nests(target))


def _array(tensor, sizes, rng, share=0.0):
    """Return random elements, a share of which are special values."""
    shape = tuple(dim_value(d, sizes) for d in tensor.shape)
    dtype = BY_NAME[tensor.dtype.name].numpy
    if tensor.dtype.is_float:
        values = rng.standard_normal(shape)
        chosen = np.where(rng.random(shape) < share, rng.choice(SPECIAL, shape), values)
        with np.errstate(all="ignore"):
            return chosen.astype(dtype)
    if tensor.dtype.is_bool:
        return rng.random(shape) < 0.5
    return rng.integers(0, 9, shape).astype(dtype)


def _word(array):
    """Return a rank-0 array as a register slot."""
    slot = np.zeros(8, np.uint8)
    slot[: array.itemsize] = np.frombuffer(array.tobytes(), np.uint8)
    return slot


def _run(image, target, name, arrays, sizes):
    """Return (status, outputs) of a kernel called as the machine calls it."""
    computation, nest = nests_for(target)[name]
    signature = lower.kernel_signature(computation, nest, ())
    dims = [sizes[v] for v in computation.dim_vars]
    memory = []
    for array, buffer in zip(arrays, nest.inputs):
        memory.append(_word(array) if buffer.access is Access.SCALAR else array)
        if buffer.access is Access.STRIDED:
            dims += [s // array.itemsize for s in array.strides]
    outputs = []
    for operand in signature.outputs:
        shape = tuple(dim_value(d, sizes) for d in operand.dims)
        scalar = operand.access is Access.SCALAR
        outputs.append(
            np.full(8, 0xA5, np.uint8) if scalar else np.empty(shape, operand.dtype.numpy)
        )
    extents = [dim_value(d, sizes) for d in signature.phases]
    memory_bytes = own_memory(signature, sizes)
    code = image.call(name, [*memory, *outputs], dims, extents, *memory_bytes)
    results = [
        array[: o.dtype.itemsize_bytes].view(o.dtype.numpy)[0]
        if o.access is Access.SCALAR
        else array
        for array, o in zip(outputs, signature.outputs)
    ]
    return code, results


def check_nest(image, target, name, sizes, share=0.0):
    """Compare a kernel of an image with the interpreter, for each (n, m)."""
    computation, nest = nests_for(target)[name]
    rng = np.random.default_rng(4)
    for n, m in sizes:
        dims = {N: n, M: m}
        arrays = [_array(t, dims, rng, share) for t in computation.inputs]
        arrays = [
            np.broadcast_to(a[:1], a.shape) if k in computation.strided and n else a
            for k, a in enumerate(arrays)
        ]
        try:
            expected = interpret(nest, arrays, {"n": n, "m": m})
        except IndexTrap as trap:
            status, _ = _run(image, target, name, arrays, dims)
            assert status == trap_status("index")
            assert reason_text("index", *image.values) == str(trap)
            continue
        status, results = _run(image, target, name, arrays, dims)
        assert status == 0
        for result, wanted in zip(results, expected):
            assert same_bits(result, wanted).all(), (n, m)


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTS)
def test_generated_code_gives_the_bits_of_the_interpreter(image, name):
    target, code = image
    check_nest(code, target, name, SIZES)
    check_nest(code, target, name, SIZES[1:3], share=0.05)


def test_a_scalar_result_fills_its_whole_slot(image):
    image = image[1]
    x = np.full((2, 2), 0.25, np.float32)
    s = np.array(3.0, np.float32)
    computation, _ = NESTS["scalar_operand_naive"]
    sizes = {N: 2, M: 2}
    arrays = [x, s]
    memory = [x, _word(s), np.empty((2, 2), np.float32), np.full(8, 0xA5, np.uint8)]
    signature = lower.kernel_signature(computation, NESTS["scalar_operand_naive"][1], ())
    extents = [dim_value(d, sizes) for d in signature.phases]
    memory_bytes = own_memory(signature, sizes)
    assert image.call("scalar_operand_naive", memory, [2, 2], extents, *memory_bytes) == 0
    assert memory[3].view(np.uint64)[0] == np.float32(1.0).view(np.uint32)
    assert len(arrays) == 2
