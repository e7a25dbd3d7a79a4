"""Products of small integers: the integers of numpy, whatever the signs, sizes and target."""

from __future__ import annotations

import itertools
import platform

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import DimVar, dim_value, symbol
from relayvm.base.dtypes import INT32, dtype_of
from relayvm.base.link import link_object
from relayvm.base.native.cpu import target_cpu
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels.codegen.function import nest_functions
from relayvm.kernels.codegen.kernel import compile_job
from relayvm.kernels.codegen.llvm import compile_object, module_text
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, kernel_signature
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.pool import Job
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.verify import verify_nest
from tests.cross import needs_aarch64
from tests.kernels.test_aarch64 import Runner

from .images import LoadedImage, own_memory

VARS = tuple(DimVar(name) for name in "mnk")
DTYPES = ("int8", "uint8", "int16")
PAIRS = list(itertools.product(DTYPES, DTYPES))
SIZES = [(1, 16, 64), (4, 7, 130), (3, 20, 33), (0, 3, 5), (2, 0, 9), (5, 9, 0), (9, 34, 200)]
BYTES_OF_ANY_SIGN = Target(cpu="znver4")
PAIRS_OF_WORDS = Target(cpu="skylake-avx512")
BYTES_OF_ONE_SIGN = Target(triple="aarch64-linux-gnu", features="+dotprod")
NO_SUMS = Target(triple="aarch64-linux-gnu")
TARGETS = [BYTES_OF_ANY_SIGN, PAIRS_OF_WORDS, BYTES_OF_ONE_SIGN, NO_SUMS]
RUN_HERE = [Target()]
if platform.machine() == "x86_64":
    RUN_HERE.append(Target(cpu="x86-64-v3"))


def product(dtypes, sizes=None, transposed=True, scaled=False):
    """Return `x [m, k] . y [n, k]^T` as int32, or y as [k, n]; without sizes they are unknown."""
    m, columns, k = sizes or tuple(map(symbol, VARS))
    x = te.placeholder("x", (m, k), dtypes[0])
    y = te.placeholder("y", (columns, k) if transposed else (k, columns), dtypes[1])

    def element(i, j):
        def term(r):
            right = y[(j, r) if transposed else (r, j)]
            return te.cast(x[i, r], INT32) * te.cast(right, INT32)

        return te.reduce("sum", (k,), term)

    out = te.compute((m, columns), element)
    if scaled:
        out = te.compute((m, columns), lambda i, j: te.cast(out[i, j], "float32") * 0.25 + 1.0)
    return Computation("product", (x, y), (out,), () if sizes else VARS)


def arrays(dtypes, sizes, transposed=True, extreme=None):
    """Return operands: random ones, or `least` or `greatest` numbers alone."""
    rng = np.random.default_rng(sum(sizes))
    m, columns, k = sizes
    made = []
    for name, shape in zip(dtypes, ((m, k), (columns, k))):
        row = dtype_of(name)
        array = rng.integers(row.min, row.max + 1, shape).astype(name)
        if extreme:
            array[...] = row.min if extreme == "least" else row.max
        made.append(array)
    return [made[0], made[1] if transposed else made[1].T.copy()]


def expected(x, y, transposed=True):
    """Return the product in int64, cut to 32 bits."""
    wide = y.astype(np.int64)
    return (x.astype(np.int64) @ (wide.T if transposed else wide)).astype(np.int32)


class Built:
    """Computations in native code, in one image."""

    def __init__(self, computations, target, load=LoadedImage):
        cpu = target_cpu(target)
        self.made = {f"k{number}": c for number, c in enumerate(computations)}
        self.nests = {name: schedule(c, target) for name, c in self.made.items()}
        text = "\n".join(nest_functions(n, name, (), cpu) for name, n in self.nests.items())
        entries = {
            k: tuple(f"{k}.{p}" for p in range(len(n.phases))) for k, n in self.nests.items()
        }
        data = compile_object(module_text(text, cpu), cpu, speed=1)
        self.image = load(link_object(data, cpu.triple, cpu.features, entries))

    def run(self, number, operands, sizes):
        name = f"k{number}"
        computation, values = self.made[name], dict(zip(VARS, sizes))
        signature = kernel_signature(computation, self.nests[name], (), (), False)
        (output,) = computation.outputs
        result = np.full([dim_value(d, values) for d in output.shape], 77, output.dtype.numpy)
        dims = [values[v] for v in computation.dim_vars]
        extents = [dim_value(p, values) for p in signature.phases]
        memory = own_memory(signature, values)
        assert self.image.call(name, [*operands, result], dims, extents, *memory) == 0
        return result


def sums_of_lanes(nest):
    """Return how often a nest sums products of neighbouring lanes."""
    return print_nest(nest).count("dot(")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_scheduled_nests_give_the_integers_of_numpy(target):
    for dtypes, transposed in itertools.product(PAIRS, (True, False)):
        nest = schedule(product(dtypes, transposed=transposed), target)
        verify_nest(nest)
        assert parse_nest(print_nest(nest)) == nest
        assert (sums_of_lanes(nest) > 0) == (
            target in (BYTES_OF_ANY_SIGN, PAIRS_OF_WORDS)
            or (target is BYTES_OF_ONE_SIGN and "int16" not in dtypes)
        ), (dtypes, transposed)
        for sizes in SIZES[:4]:
            operands = arrays(dtypes, sizes, transposed)
            (result,) = interpret(nest, operands, dict(zip("mnk", sizes)), None)
            assert (result == expected(*operands, transposed)).all(), (dtypes, sizes)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("extreme", ["least", "greatest"])
def test_extreme_bytes_do_not_saturate(target, extreme):
    for dtypes in itertools.product(("int8", "uint8"), repeat=2):
        sizes = (2, 8, 70)
        nest = schedule(product(dtypes, sizes), target)
        operands = arrays(dtypes, sizes, extreme=extreme)
        (result,) = interpret(nest, operands, {})
        assert (result == expected(*operands)).all(), dtypes


@pytest.mark.slow
@pytest.mark.parametrize("target", RUN_HERE, ids=str)
@pytest.mark.parametrize("transposed", [True, False])
def test_code_for_unknown_sizes_gives_the_integers_of_numpy(target, transposed):
    built = Built([product(dtypes, transposed=transposed) for dtypes in PAIRS], target)
    for number, dtypes in enumerate(PAIRS):
        for sizes in SIZES:
            operands = arrays(dtypes, sizes, transposed)
            result = built.run(number, operands, sizes)
            assert (result == expected(*operands, transposed)).all(), (dtypes, sizes)
        for extreme, k in itertools.product(("least", "greatest"), (64, 95)):
            operands = arrays(dtypes, (5, 17, k), transposed, extreme)
            result = built.run(number, operands, (5, 17, k))
            assert (result == expected(*operands, transposed)).all(), (dtypes, extreme)


@pytest.mark.slow
@pytest.mark.parametrize("target", RUN_HERE, ids=str)
def test_code_for_known_sizes_gives_the_integers_of_numpy(target):
    cases = list(zip(itertools.cycle(PAIRS), SIZES + [(1, 5, 1), (17, 1, 64), (1, 1, 100)]))
    built = Built([product(dtypes, sizes) for dtypes, sizes in cases], target)
    for number, (dtypes, sizes) in enumerate(cases):
        operands = arrays(dtypes, sizes)
        assert (built.run(number, operands, sizes) == expected(*operands)).all(), (dtypes, sizes)


def test_what_follows_a_product_is_computed_in_its_phase():
    built = Built([product(("uint8", "int8"), (6, 20, 70), scaled=True)], Target())
    nest = built.nests["k0"]
    assert len(nest.phases) == 1
    operands = arrays(("uint8", "int8"), (6, 20, 70))
    wanted = expected(*operands).astype(np.float32) * np.float32(0.25) + np.float32(1)
    assert built.run(0, operands, (6, 20, 70)).tobytes() == wanted.tobytes()


def test_bytes_of_one_sign_are_moved_with_one_sum_for_each_row():
    nest = schedule(product(("int8", "int8"), (16, 64, 256)), BYTES_OF_ANY_SIGN)
    assert [buffer.dtype for buffer in (*nest.scratch, *nest.private)] == [INT32]


def test_sums_of_bytes_along_rows_give_the_integers_of_numpy():
    for target, dtype in itertools.product(TARGETS, DTYPES):
        x = te.placeholder("x", (3, 150), dtype)
        out = te.compute(
            (3,), lambda i, x=x: te.reduce("sum", (150,), lambda r: te.cast(x[i, r], INT32))
        )
        nest = schedule(Computation("sums", (x,), (out,)), target)
        verify_nest(nest)
        array = arrays((dtype, dtype), (3, 1, 150), extreme="least")[0]
        (result,) = interpret(nest, [array], {})
        assert (result == array.sum(axis=1, dtype=np.int32)).all(), (target, dtype)


@pytest.mark.parametrize("old, new", [("]:64", "]:16"), ("), 16)", "), 8)"), ("int8[", "int32[")])
def test_sums_of_other_groups_or_numbers_are_refused(old, new):
    text = (
        "nest @m {\n  input in0: int8[64]\n  output out0: int32[16]\n  phase b0 < 1 {\n"
        "    out0[0] = dot(broadcast(int32(0), 16), in0[0]:64, in0[0]:64)\n  }\n}\n"
    )
    verify_nest(parse_nest(text))
    with pytest.raises(RelayError, match="operands of `Dot` do not fit"):
        verify_nest(parse_nest(text.replace(old, new)))


@pytest.mark.cross
@pytest.mark.slow
@needs_aarch64
@pytest.mark.parametrize("target", [BYTES_OF_ONE_SIGN, NO_SUMS], ids=str)
def test_code_for_aarch64_gives_the_integers_of_numpy(target, tmp_path):
    sizes = (5, 18, 71)
    runner = Runner(tmp_path)
    built = Built([product(dtypes, sizes) for dtypes in PAIRS], target, lambda image: image)
    runner.image = built.image
    built.image = runner
    for number, dtypes in enumerate(PAIRS):
        operands = arrays(dtypes, sizes)
        assert (built.run(number, operands, sizes) == expected(*operands)).all(), dtypes


def test_only_kernels_that_sum_bytes_need_more_than_their_level():
    features = {}
    for name, dtypes in (("bytes", ("uint8", "int8")), ("words", ("int32", "int32"))):
        nest = print_nest(schedule(product(dtypes, (2, 16, 64)), BYTES_OF_ANY_SIGN))
        features[name] = compile_job(Job(name, nest, (), "cpu -mcpu=znver4")).features
    assert set(features["bytes"]) - set(features["words"]) == {"avx512vnni"}
