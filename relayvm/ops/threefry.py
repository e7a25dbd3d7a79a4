"""The Threefry-4x64 generator with 20 rounds, and the keys that name its streams.

A key is ten words: four of the seed, two of the path of splits that led to it, two that count, and
two with one bit at the place where the path goes on (none where it is full).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_mul
from relayvm.base.dtypes import UINT64
from relayvm.ops.formulas import Reading

KEY_WORDS = 10
BLOCK_WORDS = 4
_ROUNDS = 20
_INJECTION = 4
_PARITY = 0x1BD11BDAA9FC1A22
_ALL_ONES = (1 << 64) - 1
_ROTATIONS = (
    (14, 16),
    (52, 57),
    (23, 40),
    (5, 37),
    (25, 33),
    (46, 12),
    (58, 22),
    (32, 32),
)

Words = Sequence[Any]


def _rotated(r: Reading, word: Any, bits: int) -> Any:
    left = r.apply("left_shift", word, bits)
    return r.apply("bitwise_or", left, r.apply("right_shift", word, 64 - bits))


def schedule_of(r: Reading, key: Words) -> list[Any]:
    """Return the four words of a key and the fifth, which follows from them."""
    parity = r.const(_PARITY, UINT64)
    for word in key:
        parity = r.apply("bitwise_xor", parity, word)
    return [*key, parity]


def block(r: Reading, schedule: Words, counter: Words, keep: Any = lambda word: word) -> list[Any]:
    """Return the four random words of a counter of four words; `keep` names a value for reuse."""
    x = list(counter)

    def inject(number: int) -> None:
        for i in range(BLOCK_WORDS):
            x[i] = r.apply("add", x[i], schedule[(number + i) % 5])
        x[3] = r.apply("add", x[3], number)

    inject(0)
    for turn in range(_ROUNDS):
        for a, b, bits in zip((0, 2), (1, 3), _ROTATIONS[turn % 8]):
            x[a] = keep(r.apply("add", x[a], x[b]))
            x[b] = keep(r.apply("bitwise_xor", _rotated(r, x[b], bits), x[a]))
        x[1], x[3] = x[3], x[1]
        if turn % _INJECTION == _INJECTION - 1:
            inject(turn // _INJECTION + 1)
            x = [keep(word) for word in x]
    return x


def words_used(count: Dim) -> Dim:
    """Return how far a key counts for `count` words: blocks of four are whole."""
    return dim_mul(blocks_of(count), BLOCK_WORDS)


def blocks_of(count: Dim) -> Dim:
    """Return the number of blocks that hold `count` words."""
    return dim_floordiv(dim_add(count, BLOCK_WORDS - 1), BLOCK_WORDS)


def _select(r: Reading, condition: Any, a: Words, b: Words) -> list[Any]:
    return [r.select(condition, x, y) for x, y in zip(a, b)]


def _next_place(r: Reading, place: Words) -> list[Any]:
    """Return the bit of the path one to the right, over both words."""
    first, second = place
    carried = r.apply("left_shift", first, 63)
    moved = r.apply("bitwise_or", r.apply("right_shift", second, 1), carried)
    return [r.apply("right_shift", first, 1), moved]


def _is_full(r: Reading, key: Words) -> Any:
    return r.apply("equal", r.apply("bitwise_or", key[8], key[9]), 0)


def _words(r: Reading, *values: int) -> list[Any]:
    return [r.const(v, UINT64) for v in values]


def room_for(r: Reading, key: Words, count: Any, keep: Any = lambda word: word) -> list[Any]:
    """Return a key that can still count by `count` (uint64): `key`, or where it cannot the key to
    its right; where the path is full the key is hashed with it, and path and counter begin anew.
    """
    last = r.apply("subtract", r.const(_ALL_ONES, UINT64), count)
    fits = r.apply("less", key[7], last)
    hashed = block(r, schedule_of(r, key[:4]), [*key[4:6], *_words(r, _ALL_ONES, _ALL_ONES)], keep)
    renewed = [*hashed, *_words(r, 0, 0, 0, 0, 1 << 63, 0)]
    path = [r.apply("bitwise_or", key[4 + i], key[8 + i]) for i in range(2)]
    right = [*key[:4], *path, *_words(r, 0, 0), *_next_place(r, key[8:])]
    return _select(r, fits, key, _select(r, _is_full(r, key), renewed, right))


def after(r: Reading, key: Words, count: Any) -> list[Any]:
    """Return a key that has counted by `count` (uint64)."""
    return [*key[:6], r.const(0, UINT64), r.apply("add", key[7], count), *key[8:]]


def split(r: Reading, key: Words, keep: Any = lambda word: word) -> tuple[list[Any], list[Any]]:
    """Return the keys to the left and to the right of a key."""
    hashed = block(r, schedule_of(r, key[:4]), key[4:8], keep)
    fresh = _words(r, 0, 0, 0, 1 << 62, 0)
    renewed_left = [*hashed, *_words(r, 0), *fresh]
    renewed_right = [*hashed, *_words(r, 1 << 63), *fresh]
    place = _next_place(r, key[8:])
    left = [*key[:8], *place]
    path = [r.apply("bitwise_or", key[4 + i], key[8 + i]) for i in range(2)]
    right = [*key[:4], *path, *key[6:8], *place]
    full = _is_full(r, key)
    return _select(r, full, renewed_left, left), _select(r, full, renewed_right, right)


def counter_of(r: Reading, key: Words, number: Any) -> list[Any]:
    """Return the counter of block `number` (uint64) of a key."""
    return [*key[4:7], r.apply("add", key[7], number)]
