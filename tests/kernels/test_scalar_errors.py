"""Every scalar function of floats keeps its stated error for operands of all sizes."""

import math

import numpy as np
import pytest
from ml_dtypes import finfo

from relayvm.base.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FLOATS
from relayvm.kernels.scalar_ops import SCALAR_OPS
from tests.kernels.exact_scalars import BINARY, FUSED, UNARY, error_bound, worst_error

INTERVALS = ((-1.5, 1.5), (-9, 9), (-110, 110), (-760, 760))
# Where functions are 0, overflow, vanish, change their formula or leave their domain.
CENTRES = [0.41421356, 0.5, 0.70710678, 0.8, 1.0, 2.0, 2.41421356, 2.5, 3.5, 3.8, 4.0, 5.8, 5.9]
CENTRES += [6.0, 9.01, 9.7, 10.0, 11.09, 16.6, 17.33, 19.06, 20.0, 36.7, 87.34, 88.72, 89.4]
CENTRES += [103.28, 103.97, 700.0, 708.4, 709.78, 710.48, 744.44, 745.13, 800.0, 1e9]
CENTRES += [2.0**17, 2.0**20, 2.0**31, 2.0**-27, 2.0**-54, math.log(2) / 2, 1.5, 2.0**23, 2.0**52]
CENTRES += [k * math.pi / 2 for k in (*range(1, 12), 355, 710, 51819, 245850922)]
# As close to a multiple of pi/2 as a float64 can be, and a float32.
CENTRES += [6381956970095103.0 * 2.0**797, 16367173.0 * 2.0**72]
UNIFORM = {FLOAT16: 100, BFLOAT16: 100, FLOAT32: 800, FLOAT64: 800}
EACH_EXPONENT = {FLOAT16: 16, BFLOAT16: 4, FLOAT32: 8, FLOAT64: 2}
PAIRS = {FLOAT16: 1000, BFLOAT16: 1000, FLOAT32: 4000, FLOAT64: 4000}
FLOAT_OPS = {name for name, op in SCALAR_OPS.items() if FLOAT32 in op.dtypes and op.to is None}
FORMATS = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def _every_exponent(dtype, count, rng):
    """Return positive values, `count` to each power of two that the type has."""
    info = finfo(dtype.numpy)
    powers = np.repeat(np.arange(info.minexp - info.nmant, info.maxexp), count)
    mantissas = rng.uniform(1, 2 - float(info.eps), len(powers))
    mantissas[rng.random(len(powers)) < 0.1] = 1
    return np.ldexp(mantissas, powers).astype(dtype.numpy)


def _edges(dtype):
    """Return values at which functions change, with their neighbours, and the ends of the type."""
    info = finfo(dtype.numpy)
    with np.errstate(over="ignore"):
        centres = np.array(CENTRES).astype(dtype.numpy)
    centres = centres[np.isfinite(centres)]
    parts = [centres + k * np.spacing(centres) for k in range(-2, 3)]
    ends = [info.max, info.tiny, info.smallest_subnormal, info.tiny - info.smallest_subnormal]
    return np.concatenate([*parts, np.array(ends, dtype.numpy)])


def _samples(dtype):
    """Return operands of every size and both signs, dense where functions are hard."""
    rng = np.random.default_rng(11)
    parts = [_every_exponent(dtype, EACH_EXPONENT[dtype], rng), _edges(dtype)]
    parts += [rng.uniform(low, high, UNIFORM[dtype]).astype(dtype.numpy) for low, high in INTERVALS]
    x = np.concatenate(parts)
    x = x[x != 0]
    return x * rng.choice([-1, 1], len(x)).astype(dtype.numpy)


def _pairs(dtype, arity=2):
    """Return operands in random pairing: of every size, close to each other, or whole."""
    rng = np.random.default_rng(12)
    n = PAIRS[dtype]
    pool = _samples(dtype)
    operands = [rng.choice(pool, n) for _ in range(arity)]
    near = rng.random(n) < 0.4
    factors = np.exp2(rng.uniform(-12, 12, n)).astype(dtype.numpy)
    with np.errstate(over="ignore"):
        operands[1] = np.where(near, operands[0] * factors, operands[1])
        whole = rng.random(n) < 0.2
        operands[1] = np.where(whole, np.rint(rng.uniform(-9, 9, n)), operands[1])
    operands[1] = operands[1].astype(dtype.numpy)
    usable = np.isfinite(operands[1]) & (operands[1] != 0)
    return [x[usable] for x in operands]


def _powers(dtype):
    """Return bases and exponents whose powers have every size, those that just overflow too."""
    rng = np.random.default_rng(13)
    info = finfo(dtype.numpy)
    x = np.abs(_samples(dtype))
    x = np.concatenate([x, 1 + rng.uniform(-1, 1, 300) * np.exp2(-rng.uniform(1, info.nmant, 300))])
    x = x[x != 1].astype(dtype.numpy)
    sizes = rng.uniform(info.minexp - info.nmant - 1, info.maxexp + 1, len(x))
    with np.errstate(all="ignore"):
        y = (sizes / np.log2(x.astype(np.float64))).astype(dtype.numpy)
    # Whole exponents of negative bases.
    negative = (rng.random(len(x)) < 0.2) & (np.abs(y) > 1)
    y = np.where(negative, np.rint(y), y)
    usable = np.isfinite(y) & (x != 1)
    return [np.where(negative, -x, x)[usable], y[usable]]


def _check(name, dtype, error, at):
    assert error <= error_bound(name, dtype), f"{name}{at[:-1]} is not {at[-1]!r}: off by {error}"


def test_every_function_of_floats_has_exact_values_here():
    known = {*UNARY, *BINARY, *FUSED}
    assert {n for n in FLOAT_OPS if not SCALAR_OPS[n].predicate} == known


@pytest.mark.slow
@FORMATS
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_float_keep_their_stated_error(name, dtype):
    _check(name, dtype, *worst_error(name, UNARY[name], _samples(dtype)))


@pytest.mark.slow
@FORMATS
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_floats_keep_their_stated_error(name, dtype):
    _check(name, dtype, *worst_error(name, BINARY[name], *_pairs(dtype)))


@pytest.mark.slow
@FORMATS
def test_powers_of_every_size_keep_their_stated_error(dtype):
    _check("power", dtype, *worst_error("power", BINARY["power"], *_powers(dtype)))


@pytest.mark.slow
@FORMATS
def test_fused_multiply_add_of_every_size_rounds_once(dtype):
    a, b, c = _pairs(dtype, 3)
    rng = np.random.default_rng(14)
    with np.errstate(over="ignore", under="ignore"):
        cancels = -(a * b) * (1 + rng.uniform(-1, 1, len(a)) * 2.0**-9).astype(dtype.numpy)
    c = np.where((rng.random(len(a)) < 0.5) & np.isfinite(cancels), cancels, c)
    _check("fma", dtype, *worst_error("fma", FUSED["fma"], a, b, c))
