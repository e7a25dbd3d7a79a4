"""Every scalar function in every dtype: generated code gives the bits of the numpy meaning."""

import numpy as np
import pytest
from ml_dtypes import finfo

from relayvm.base.dtypes import BOOL, COMPUTED, INT64
from relayvm.base.link import link_object
from relayvm.base.native.cpu import target_cpu
from relayvm.base.target import Target
from relayvm.kernels.codegen.function import nest_functions
from relayvm.kernels.codegen.llvm import compile_object, module_text
from relayvm.kernels.loops import Buffer, Call, Cast, Const, For, Load, Nest, Phase, Store, Var
from relayvm.kernels.scalar_ops import SCALAR_OPS, cast_array
from tests.kernels.images import LoadedImage, same_bits

CASES = [(op, dtype) for op in SCALAR_OPS.values() for dtype in op.dtypes]
CASTS = [(a, b) for a in COMPUTED for b in COMPUTED if a is not b]
COUNT = 496
LANES = 16
TAIL = 16


def _nest(name, sources, result, make):
    """Half of the elements go through vectors, the other half one by one."""
    n = COUNT + TAIL
    operands = [Buffer(f"x{k}", d, (Const(n, INT64),), "input") for k, d in enumerate(sources)]
    output = Buffer("out", result, (Const(n, INT64),), "output")

    def loop(lanes, begin, end):
        i = Var(f"i{lanes}")
        loads = [Load(b, (i,), lanes) for b in operands]
        store = Store(output, (i,), make(loads, lanes))
        return For(i, Const(begin, INT64), Const(end, INT64), lanes, (store,))

    body = (loop(LANES, 0, COUNT), loop(1, COUNT, n))
    return Nest(name, (), (*operands, output), (), (Phase(Var("p"), Const(1, INT64), body),))


def _op_nest(op, dtype):
    result = op.result(dtype)
    return _nest(
        f"{op.name}_{dtype.short}",
        [dtype] * op.arity,
        result,
        lambda loads, lanes: Call(op.name, tuple(loads), result, lanes),
    )


def _cast_nest(a, b):
    return _nest(f"cast_{a.short}_{b.short}", [a], b, lambda loads, lanes: Cast(loads[0], b, lanes))


@pytest.fixture(scope="module")
def image():
    cpu = target_cpu(Target())
    nests = [_op_nest(*c) for c in CASES] + [_cast_nest(*c) for c in CASTS]
    text = module_text("\n".join(nest_functions(n, n.name, ()) for n in nests), cpu)
    data = compile_object(text, cpu, speed=1)
    return LoadedImage(
        link_object(data, cpu.triple, cpu.features, {n.name: (f"{n.name}.0",) for n in nests})
    )


def _values(dtype, seed):
    """Return special values in every pairing with each other, then random ones of all sizes."""
    rng = np.random.default_rng(seed)
    n = COUNT + TAIL
    if dtype is BOOL:
        return rng.random(n) < 0.5
    if dtype.is_float:
        special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -3.0, 2.5, np.inf, -np.inf, np.nan]
        special += [float(dtype.max), float(dtype.min), float(finfo(dtype.numpy).tiny) / 4]
        special += [float(finfo(dtype.numpy).smallest_subnormal), 2.0**17, 2.0**31, 1e22]
        special += [127.5, 128.0, -129.0, 32768.0, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63)]
        wide = rng.standard_normal(n) * np.exp2(rng.uniform(-30, 30, n))
        with np.errstate(over="ignore"):
            values = np.where(rng.random(n) < 0.5, wide, rng.standard_normal(n) * 3)
            values = dtype.array(values)
            # Any bits at all: huge and denormal values, NaNs of every kind.
            drawn = rng.integers(0, 2**63, n, dtype=np.uint64) * np.uint64(2)
            drawn = (drawn >> np.uint64(64 - dtype.bits)).astype(f"uint{dtype.bits}")
            values = np.where(rng.random(n) < 0.7, values, drawn.view(dtype.numpy))
            picks = dtype.array(special)
    else:
        bits = rng.integers(0, 2**63, n, dtype=np.uint64) >> rng.integers(0, 63, n).astype(
            np.uint64
        )
        values = np.where(rng.random(n) < 0.5, bits, ~bits).astype(dtype.numpy)
        picks = np.array([0, 1, 2, 3, 7, dtype.max, dtype.min, dtype.bits, 5], object)
        picks = np.array([int(p) % (1 << dtype.bits) for p in picks], np.uint64)
        picks = picks.astype(dtype.numpy)
    chosen = rng.random(n) < 0.4
    values[chosen] = picks[rng.integers(0, len(picks), n)[chosen]]
    return values


def _check(image, name, operands, expected):
    result = np.empty_like(expected)
    assert image.call(name, [*operands, result]) == 0
    wrong = ~same_bits(result, expected)
    rows = [(*(o[k] for o in operands), result[k], expected[k]) for k in np.nonzero(wrong)[0][:3]]
    assert not wrong.any(), f"{name}: {wrong.sum()} differ, (operands, got, expected): {rows}"


@pytest.mark.slow
@pytest.mark.parametrize("op", SCALAR_OPS.values(), ids=lambda op: op.name)
def test_generated_code_gives_the_bits_of_the_numpy_meaning(image, op):
    for dtype in op.dtypes:
        operands = [_values(dtype, seed) for seed in range(op.arity)]
        _check(image, f"{op.name}_{dtype.short}", operands, op(*operands))


@pytest.mark.slow
@pytest.mark.parametrize("source", COMPUTED, ids=str)
def test_generated_casts_give_the_bits_of_the_numpy_meaning(image, source):
    for target in COMPUTED:
        if target is not source:
            values = _values(source, 7)
            expected = cast_array(values, target)
            _check(image, f"cast_{source.short}_{target.short}", [values], expected)
