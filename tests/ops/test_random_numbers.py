"""The generator against published vectors, keys against each other, distributions by moments."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.dtypes import BY_NAME
from relayvm.base.shapes import ShapeError
from relayvm.ir.types import TensorType
from relayvm.ops import OPS
from relayvm.ops.formulas import ARRAYS
from relayvm.ops.threefry import block, schedule_of

FRESH = np.array([5, 0, 0, 0, 0, 0, 0, 0, 1 << 63, 0], np.uint64)
PI = "243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89"
PI_KEY = "452821e638d01377 be5466cf34e90c6c be5466cf34e90c6c c0ac29b7c97c50dd"


def words(text: str) -> list[np.ndarray]:
    return [np.array([int(word, 16)], np.uint64) for word in text.split()]


# Of Random123: (counter, key, result of threefry4x64 with 20 rounds).
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        (
            "0 0 0 0",
            "0 0 0 0",
            "09218ebde6c85537 55941f5266d86105 4bd25e16282434dc ee29ec846bd2e40b",
        ),
        (
            " ".join(["f" * 16] * 4),
            " ".join(["f" * 16] * 4),
            "29c24097942bba1b 0371bbfb0f6f4e11 3c231ffa33f83a1c cd29113fde32d168",
        ),
        (PI, PI_KEY, "a7e8fde591651bd9 baafd0c30138319b 84a5c1a729e685b9 901d406ccebc1ba4"),
    ],
)
def test_blocks_are_the_published_ones(counter: str, key: str, expected: str) -> None:
    result = block(ARRAYS, schedule_of(ARRAYS, words(key)), words(counter))
    assert [int(w[0]) for w in result] == [int(w[0]) for w in words(expected)]


def draw(key: np.ndarray, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    result = OPS["random.threefry_generate"].evaluate([key], {"out_shape": shape})
    assert isinstance(result, tuple)
    return result[0], result[1]


def test_what_is_drawn_in_parts_is_what_is_drawn_at_once() -> None:
    whole = draw(FRESH, 12)[1]
    following, first = draw(FRESH, 4)
    assert np.array_equal(first, whole[:4])
    # The counter goes on by words, blocks are numbered from it.
    assert following[7] == 4
    assert not set(draw(following, 8)[1].tolist()) & set(whole[:4].tolist())


def test_a_worn_counter_moves_along_the_path() -> None:
    worn = FRESH.copy()
    worn[7] = np.uint64(2**64 - 2)
    following, _ = draw(worn, 4)
    assert following.tolist() == [5, 0, 0, 0, 1 << 63, 0, 0, 4, 1 << 62, 0]


def test_a_full_path_makes_a_new_key() -> None:
    full = FRESH.copy()
    full[[7, 8]] = np.uint64(2**64 - 2), np.uint64(0)
    following, _ = draw(full, 4)
    assert following[4:].tolist() == [0, 0, 0, 4, 1 << 63, 0]
    assert following[:4].tolist() != full[:4].tolist()


def test_keys_of_splits_differ_beyond_the_length_of_a_path() -> None:
    key, seen = FRESH, set()
    for _ in range(140):
        left, right = OPS["random.threefry_split"].evaluate([key], {})
        seen.add(tuple(draw(np.asarray(left), 2)[1].tolist()))
        key = np.asarray(right)
    seen.add(tuple(draw(key, 2)[1].tolist()))
    assert len(seen) == 141


def test_numbers_are_spread_as_their_distribution_says() -> None:
    scalars = [np.float64(v).reshape(()) for v in (2, 6)]
    attrs = {"out_shape": (40000,), "out_dtype": "float64"}
    _, even = OPS["random.uniform"].evaluate([FRESH, *scalars], attrs)
    assert even.min() >= 2
    assert even.max() < 6
    assert abs(even.mean() - 4) < 0.03
    assert abs(even.var() - 16 / 12) < 0.03
    _, bell = OPS["random.normal"].evaluate([FRESH, *scalars], attrs)
    assert abs(bell.mean() - 2) < 0.1
    assert abs(bell.std() - 6) < 0.1
    assert abs(np.mean(np.abs(bell - 2) < 6) - 0.6827) < 0.01


def test_choices_follow_their_weights() -> None:
    weights = np.array([[0, 1, 3], [5, -7, 0]], np.int32)
    _, drawn = OPS["random.multinomial"].evaluate([FRESH, weights], {"num_samples": 20000})
    assert np.allclose(np.bincount(drawn[0], minlength=3) / 20000, [0, 0.25, 0.75], atol=0.01)
    assert not drawn[1].any()


@pytest.mark.parametrize(
    ("name", "dtypes", "message"),
    [
        ("random.uniform", ("uint64", "float16", "float16"), "`low`"),
        ("random.normal", ("int64", "float32", "float32"), "must be uint64"),
    ],
)
def test_wrong_dtypes_are_named(name: str, dtypes: tuple[str, ...], message: str) -> None:
    types = [TensorType((10,) if i == 0 else (), BY_NAME[d]) for i, d in enumerate(dtypes)]
    with pytest.raises(ShapeError, match=message):
        OPS[name].result_type(types, {"out_shape": (4,)})
