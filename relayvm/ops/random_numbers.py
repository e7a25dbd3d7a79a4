"""Random numbers as functions of explicit keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_mul
from relayvm.base.dtypes import FLOAT32, FLOAT64, INT32, INT64, UINT64, DType
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops import threefry
from relayvm.ops.axes import product, require_known, require_least, require_rank, sizes_of
from relayvm.ops.bisection import LEVELS, first_place, search_levels
from relayvm.ops.formulas import ARRAYS, SCALARS, Reading
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import flattened, unflattened
from relayvm.ops.schema import AnyTensor, Dims, Float, Numeric, SameDtype
from relayvm.ops.threefry import BLOCK_WORDS, KEY_WORDS

_KEY = TensorType((KEY_WORDS,), UINT64)
# The bits of a word that become the fraction of a number in [0, 1).
_FRACTION = {FLOAT32: 23, FLOAT64: 52}
_WORK = 150
# Words in a vector, and words that are made together.
_LANES, _TOGETHER = 8, 64
# Choices that one round makes.
_SAMPLES = 1 << 10


def _require_key(key: TensorType, name: str) -> None:
    if key.dtype is not UINT64:
        raise ShapeError(f"`key` of `{name}` must be uint64, got {key.dtype}", "dtype-mismatch")
    require_rank(key, 1, 1, f"`key` of `{name}`")
    require_equal(key.shape[0], KEY_WORDS, f"words of `key` of `{name}` and of a key")


def _require_scalars(name: str, dtype: DType, *given: tuple[str, TensorType]) -> None:
    if dtype not in _FRACTION:
        message = f"`out_dtype` of `{name}` must be float32 or float64, got {dtype}"
        raise ShapeError(message, "dtype-mismatch")
    for operand, tensor in given:
        require_rank(tensor, 0, 0, f"`{operand}` of `{name}`")
        if tensor.dtype is not dtype:
            message = f"`{operand}` of `{name}` must be {dtype}, got {tensor.dtype}"
            raise ShapeError(message, "dtype-mismatch")


# -- Words from a key -----------------------------------------------------------------------------


def drawn_arrays(key: Array, count: int) -> tuple[Array, Array]:
    """Return the key that follows, and `count` random words."""
    used = np.array(threefry.words_used(count), np.uint64)
    ready = threefry.room_for(ARRAYS, [key[i : i + 1] for i in range(KEY_WORDS)], used)
    numbers = np.arange(*sizes_of((threefry.blocks_of(count),)), dtype=np.uint64)
    counter = threefry.counter_of(ARRAYS, ready, numbers)
    schedule = threefry.schedule_of(ARRAYS, ready[:BLOCK_WORDS])
    words = threefry.block(ARRAYS, schedule, counter)
    rows = [np.broadcast_to(word, numbers.shape) for word in words]
    following = threefry.after(ARRAYS, ready, used)
    return np.concatenate([w.reshape(1) for w in following]), np.stack(rows, 1).reshape(-1)[:count]


def drawn_tensors(key: Tensor, count: Dim) -> tuple[Tensor, Tensor]:
    """Return the same as definitions: the key that follows, and a vector of `count` words."""
    blocks = threefry.blocks_of(count)

    def build(w: Writer, key: Memory, following: Memory, words: Memory) -> None:
        ready = w.scratch((KEY_WORDS,), UINT64)
        used = te.cast(te.dim(threefry.words_used(count)), UINT64)
        with w.phase():
            given = [key[te.dim(i)] for i in range(KEY_WORDS)]
            for i, word in enumerate(threefry.room_for(SCALARS, given, used, w.let)):
                ready[te.dim(i)] = word
            own = [ready[te.dim(i)] for i in range(KEY_WORDS)]
            for i, word in enumerate(threefry.after(SCALARS, own, used)):
                following[te.dim(i)] = word
        with w.phase(dim_floordiv(dim_add(count, _TOGETHER - 1), _TOGETHER)) as number:
            own = [ready[te.dim(i)] for i in range(KEY_WORDS)]
            _draw(w, own, words, count, w.let(number * _TOGETHER))

    kinds = [((KEY_WORDS,), UINT64), ((count,), UINT64)]
    following, words = te.program(kinds, [key], build, dim_mul(blocks, _WORK), "random")
    return following, words


def _draw(w: Writer, key: list[ScalarExpr], words: Memory, count: Dim, begin: ScalarExpr) -> None:
    """Write `_TOGETHER` words from `begin` on, of those below `count`.

    Each lane of a vector makes two neighbouring blocks, which are a column of all that is made.
    """
    schedule = [w.let(s) for s in threefry.schedule_of(SCALARS, key[:BLOCK_WORDS])]
    room = w.room((_LANES, _LANES), UINT64)
    with w.lanes(_LANES) as j:
        rows: list[ScalarExpr] = []
        for which in range(_LANES // BLOCK_WORDS):
            place = begin // BLOCK_WORDS + (j * (_LANES // BLOCK_WORDS) + which)
            counter = threefry.counter_of(SCALARS, key, te.cast(place, UINT64))
            rows += threefry.block(SCALARS, schedule, counter, w.let)
        columns = w.turned(rows)
        is_whole = w.let(begin + _TOGETHER <= te.dim(count))
        with w.when(is_whole):
            for lane, column in enumerate(columns):
                words[w.shifted(j, begin + lane * _LANES)] = column
        with w.otherwise():
            for lane, column in enumerate(columns):
                room[lane, j] = column
    with w.when(te.scalar("logical_not", is_whole)), w.loop(begin, te.dim(count)) as k:
        words[k] = room[te.index(k - begin, _TOGETHER, "clip")]


# -- Words and keys -------------------------------------------------------------------------------


@operator("random.threefry_generate", fusion=Fusion.OPAQUE, no_gradient="bits have no derivative")
def threefry_generate(key: AnyTensor, *, out_shape: Dims) -> TupleType:
    """The key that follows `key`, and random 64-bit words in the shape `out_shape`.

    `random.threefry_key` makes a key. Block i of four words is Threefry-4x64 with 20 rounds of the
    first four words of the key, at the counter made of the next four with i added to the last. The
    key that follows counts from behind the words drawn; where that is beyond 2**64 - 2 the path of
    the key gets a 1 first, as `random.threefry_split` does on the right.

    >>> %k = uint64 [0, 0, 0, 0, 0, 0, 0, 0, 9223372036854775808, 0]
    >>> random.threefry_generate(%k, out_shape=[2]).1
    [657963966844654903, 6166588228550287621]
    """
    _require_key(key, "random.threefry_generate")
    shape = require_known(out_shape, "`out_shape` of `random.threefry_generate`")
    return TupleType((_KEY, TensorType(shape, UINT64)))


@threefry_generate.numpy
def _(key: Array, *, out_shape: Dims) -> tuple[Array, Array]:
    shape = sizes_of(out_shape)
    following, words = drawn_arrays(key, math.prod(shape))
    return following, words.reshape(shape)


@threefry_generate.compute
def _(key: Tensor, *, out_shape: Dims) -> tuple[Tensor, Tensor]:
    following, words = drawn_tensors(key, product(out_shape))
    return following, te.compute(out_shape, lambda *i: words[flattened(i, out_shape)], "words")


@operator("random.threefry_split", fusion=Fusion.OPAQUE, no_gradient="bits have no derivative")
def threefry_split(key: AnyTensor) -> TupleType:
    """Two keys whose streams are independent of each other; `key` must not be used again.

    The path of the first gets a 0 and that of the second a 1 at the place that the last two words
    mark, which moves on. Where the path is full, its hash with the key is the new key.

    >>> %k = uint64 [7, 0, 0, 0, 0, 0, 0, 5, 9223372036854775808, 0]
    >>> random.threefry_split(%k).1
    [7, 0, 0, 0, 9223372036854775808, 0, 0, 5, 4611686018427387904, 0]
    """
    _require_key(key, "random.threefry_split")
    return TupleType((_KEY, _KEY))


@threefry_split.numpy
def _(key: Array) -> tuple[Array, Array]:
    left, right = threefry.split(ARRAYS, [key[i : i + 1] for i in range(KEY_WORDS)])
    return np.concatenate(left), np.concatenate(right)


@threefry_split.compute
def _(key: Tensor) -> tuple[Tensor, ...]:
    def build(w: Writer, key: Memory, left: Memory, right: Memory) -> None:
        with w.phase():
            given = [key[te.dim(i)] for i in range(KEY_WORDS)]
            for result, words in zip((left, right), threefry.split(SCALARS, given, w.let)):
                for i, word in enumerate(words):
                    result[te.dim(i)] = word

    kinds = [((KEY_WORDS,), UINT64)] * 2
    return te.program(kinds, [key], build, _WORK, "split")


# -- Distributions --------------------------------------------------------------------------------


def _unit(r: Reading, word: Any, dtype: DType) -> Any:
    """Return the number in [0, 1) that the high bits of a word are the fraction of."""
    bits = _FRACTION[dtype]
    whole = r.cast(r.apply("right_shift", word, 64 - bits), dtype)
    return r.apply("multiply", whole, 2.0**-bits)


def _uniform(r: Reading, word: Any, low: Any, high: Any, dtype: DType) -> Any:
    unit = _unit(r, word, dtype)
    scaled = r.apply("multiply", unit, r.apply("subtract", high, low))
    return r.apply("add", scaled, low)


def _normal(r: Reading, words: tuple[Any, Any], mean: Any, scale: Any, dtype: DType) -> Any:
    first, second = (_unit(r, word, dtype) for word in words)
    log = r.apply("log", r.apply("subtract", r.const(1.0, dtype), first))
    radius = r.apply("sqrt", r.apply("multiply", log, -2.0))
    wave = r.apply("sin", r.apply("multiply", second, 2 * math.pi))
    scaled = r.apply("multiply", r.apply("multiply", radius, wave), scale)
    return r.apply("add", scaled, mean)


@operator("random.uniform", fusion=Fusion.OPAQUE)
def uniform(
    key: AnyTensor, low: Float, high: SameDtype, *, out_shape: Dims, out_dtype: DType = FLOAT32
) -> TupleType:
    """The key that follows `key`, and numbers spread evenly over [low, high).

    The highest 23 bits of a word of `random.threefry_generate` (52 for float64) divided by 2**23
    (2**52) are u, the result is `u * (high - low) + low`.

    >>> %k = uint64 [0, 0, 0, 0, 0, 0, 0, 0, 9223372036854775808, 0]
    >>> %l = float32 0
    >>> %h = float32 8388608
    >>> random.uniform(%k, %l, %h, out_shape=[2]).1
    [299207, 2804239]
    """
    _require_key(key, "random.uniform")
    _require_scalars("random.uniform", out_dtype, ("low", low), ("high", high))
    shape = require_known(out_shape, "`out_shape` of `random.uniform`")
    return TupleType((_KEY, TensorType(shape, out_dtype)))


@uniform.numpy
def _(
    key: Array, low: Array, high: Array, *, out_shape: Dims, out_dtype: DType
) -> tuple[Array, Array]:
    shape = sizes_of(out_shape)
    following, words = drawn_arrays(key, math.prod(shape))
    return following, _uniform(ARRAYS, words, low, high, out_dtype).reshape(shape)


@uniform.compute
def _(
    key: Tensor, low: Tensor, high: Tensor, *, out_shape: Dims, out_dtype: DType
) -> tuple[Tensor, Tensor]:
    following, words = drawn_tensors(key, product(out_shape))

    def element(*i: te.ScalarExpr) -> te.ScalarExpr:
        word = words[flattened(i, out_shape)]
        result: te.ScalarExpr = _uniform(SCALARS, word, low[()], high[()], out_dtype)
        return result

    return following, te.compute(out_shape, element, "uniform")


@operator("random.normal", fusion=Fusion.OPAQUE)
def normal(
    key: AnyTensor, mean: Float, scale: SameDtype, *, out_shape: Dims, out_dtype: DType = FLOAT32
) -> TupleType:
    """The key that follows `key`, and normally distributed numbers.

    From the numbers u of `random.uniform` over [0, 1), twice as many as results: that of u[i] and
    u[n + i] is `mean + scale * sqrt(-2 log(1 - u[i])) * sin(2 pi u[n + i])`.

    >>> %k = uint64 [0, 0, 0, 0, 0, 0, 0, 0, 9223372036854775808, 0]
    >>> %m = float32 1
    >>> %s = float32 2
    >>> random.normal(%k, %m, %s, out_shape=[1]).1
    [1.4651877]
    """
    _require_key(key, "random.normal")
    _require_scalars("random.normal", out_dtype, ("mean", mean), ("scale", scale))
    shape = require_known(out_shape, "`out_shape` of `random.normal`")
    return TupleType((_KEY, TensorType(shape, out_dtype)))


@normal.numpy
def _(
    key: Array, mean: Array, scale: Array, *, out_shape: Dims, out_dtype: DType
) -> tuple[Array, Array]:
    shape = sizes_of(out_shape)
    count = math.prod(shape)
    following, words = drawn_arrays(key, 2 * count)
    pair = words[:count], words[count:]
    return following, _normal(ARRAYS, pair, mean, scale, out_dtype).reshape(shape)


@normal.compute
def _(
    key: Tensor, mean: Tensor, scale: Tensor, *, out_shape: Dims, out_dtype: DType
) -> tuple[Tensor, Tensor]:
    count = product(out_shape)
    following, words = drawn_tensors(key, dim_mul(count, 2))

    def element(*i: te.ScalarExpr) -> te.ScalarExpr:
        place = flattened(i, out_shape)
        pair = words[place], words[place + te.dim(count)]
        result: te.ScalarExpr = _normal(SCALARS, pair, mean[()], scale[()], out_dtype)
        return result

    return following, te.compute(out_shape, element, "normal")


# -- Choices --------------------------------------------------------------------------------------


@operator("random.multinomial", fusion=Fusion.OPAQUE, no_gradient="choices are integers")
def multinomial(key: AnyTensor, probs: Numeric, *, num_samples: int = 1) -> TupleType:
    """The key that follows `key`, and for each row of weights `probs` `num_samples` indices drawn
    in proportion to them, as int32.

    Weights need not sum to 1; those that are negative or NaN count as 0. With float32 sums s of the
    weights up to each, and u from `random.uniform`, the index drawn is that of the first s above
    `u * s[-1]`, or 0 where there is none.

    >>> %k = uint64 [0, 0, 0, 0, 0, 0, 0, 0, 9223372036854775808, 0]
    >>> %p = float32 [0, 1, 2]
    >>> random.multinomial(%k, %p, num_samples=4).1
    [1, 2, 1, 2]
    """
    _require_key(key, "random.multinomial")
    require_rank(probs, 1, 99, "`probs` of `random.multinomial`")
    require_least("random.multinomial", "num_samples", num_samples, 0)
    return TupleType((_KEY, TensorType((*probs.shape[:-1], num_samples), INT32)))


def _weight(r: Reading, given: Any) -> Any:
    weight = r.cast(given, FLOAT32)
    return r.select(r.apply("greater", weight, 0.0), weight, r.const(0.0, FLOAT32))


@multinomial.numpy
def _(key: Array, probs: Array, *, num_samples: int) -> tuple[Array, Array]:
    outer = probs.shape[:-1]
    rows = math.prod(outer)
    following, words = drawn_arrays(key, rows * num_samples)
    u = _unit(ARRAYS, words, FLOAT32).reshape(rows, num_samples)
    weights = _weight(ARRAYS, probs).reshape(rows, probs.shape[-1])
    sums = np.add.accumulate(weights, 1, dtype=np.float32)
    last = sums[:, -1:] if weights.shape[1] else np.zeros((rows, 1), np.float32)
    behind = sums[:, None, :] > (u * last)[:, :, None]
    first = behind.argmax(-1) if weights.shape[1] else np.zeros((rows, num_samples))
    return following, first.astype(np.int32).reshape(*outer, num_samples)


@multinomial.compute
def _(key: Tensor, probs: Tensor, *, num_samples: int) -> tuple[Tensor, Tensor]:
    outer, size = probs.shape[:-1], probs.shape[-1]
    rows = product(outer)
    following, words = drawn_tensors(key, dim_mul(rows, num_samples))

    def build(w: Writer, words: Memory, probs: Memory, result: Memory) -> None:
        sums, levels = w.scratch((rows, size), FLOAT32), search_levels(w, size)
        with w.walk_lines(rows, size, (te.const(0.0, FLOAT32), None)) as (row, k, (total,)):
            weight = _weight(SCALARS, probs[unflattened(row, outer) + (k,)])
            total.value = total.value + weight
            sums[row, k] = total.value
        with w.parts(rows, num_samples, _SAMPLES) as (row, begin, end):
            steps, last = levels(), w.cell(te.const(0.0, FLOAT32))
            with w.when(te.dim(size) > 0):
                last.value = sums[row, te.index(te.dim(size) - 1, size, "clip")]
            whole, first = last.value, w.let(row * num_samples)

            def draw(j: ScalarExpr) -> None:
                u = _unit(SCALARS, words[w.shifted(j, first)], FLOAT32)
                bound = w.let(u * whole)
                is_before = lambda at: te.scalar("logical_not", sums[row, at] > bound)  # noqa: E731
                found = first_place(w, size, steps, is_before)
                found = te.select(found < te.dim(size), found, te.const(0, INT64))
                result[unflattened(row, outer) + (j,)] = te.cast(found, INT32)

            w.vectors(begin, end, draw)

    shape = (*outer, num_samples)
    work = dim_mul(rows, dim_add(dim_mul(size, 4), num_samples * LEVELS))
    (drawn,) = te.program([(shape, INT32)], [words, probs], build, work, "multinomial")
    return following, drawn


OPERATORS = (multinomial, normal, threefry_generate, threefry_split, uniform)
