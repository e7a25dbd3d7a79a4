"""Layers of few bits against bits that are counted word by word, and words against themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.base.dtypes import BY_NAME
from relayvm.base.shapes import ShapeError
from relayvm.ir.types import TensorType
from relayvm.ops import OPS

RNG = np.random.default_rng(3)


def planes(values: np.ndarray, bits: int) -> np.ndarray:
    """Return whether each bit of numbers is set: [bits, ...]."""
    return np.stack([(values.astype(np.int64) >> b) & 1 for b in range(bits)])


def counted(x: np.ndarray, w: np.ndarray, bits: tuple[int, int], unipolar: bool) -> Any:
    """Return for rows of both how many bits meet, those of each pair of planes times its weight."""
    total = np.zeros((len(x), len(w)), np.int64)
    for i, a in enumerate(planes(x, bits[0])):
        for j, b in enumerate(planes(w, bits[1])):
            meet = (a[:, None] & b[None]).sum(-1)
            miss = (a[:, None] & (1 - b[None])).sum(-1)
            total += (meet - miss * unipolar) << (i + j)
    return total


@pytest.mark.parametrize("unipolar", [True, False])
@pytest.mark.parametrize("bits", [(1, 1), (2, 3), (8, 8)])
@pytest.mark.parametrize("word", ["uint8", "uint32"])
def test_a_layer_counts_the_bits_that_meet(
    bits: tuple[int, int], unipolar: bool, word: str
) -> None:
    x, w = (RNG.integers(0, 256, (n, 32)).astype(np.uint8) for n in (3, 4))
    attrs = {"data_bits": bits[0], "weight_bits": bits[1], "unipolar": unipolar}
    attrs |= {"out_dtype": "int32", "pack_dtype": word}
    packed = OPS["nn.bitpack"].evaluate([w], {"bits": bits[1], "bit_axis": 1, "pack_type": word})
    want = counted(x, w, bits, unipolar)
    assert np.array_equal(OPS["nn.bitserial_dense"].evaluate([x, w], attrs), want)
    assert np.array_equal(OPS["nn.bitserial_dense"].evaluate([x, packed], attrs), want)


def test_the_first_of_neighbours_is_the_highest_bit() -> None:
    x = np.zeros((1, 32), np.int32)
    x[0, 0], x[0, 31] = 1, 2
    found = OPS["nn.bitpack"].evaluate([x], {"bits": 2})
    assert found.tolist() == [[[1 << 31, 1]]]


def test_packed_convolutions_are_those_of_the_numbers() -> None:
    x, w = (RNG.integers(0, 4, s).astype(np.uint8) for s in ((2, 8, 4, 5), (3, 8, 2, 2)))
    attrs = {"activation_bits": 2, "weight_bits": 2, "kernel_size": (2, 2), "out_dtype": "int16"}
    attrs |= {"padding": (1, 1), "pack_dtype": "uint8"}
    packed = OPS["nn.bitpack"].evaluate([w], {"bits": 2, "bit_axis": 4, "pack_type": "uint8"})
    plain = OPS["nn.bitserial_conv2d"].evaluate([x, w], attrs)
    signed = 2 * w.astype(np.int64) - 3
    want = OPS["nn.conv2d"].evaluate([x.astype(np.int64), signed], {"padding": (1, 1)})
    assert np.array_equal(plain, want)
    assert np.array_equal(OPS["nn.bitserial_conv2d"].evaluate([x, packed], attrs), want)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("nn.bitpack", [(2, 7)], {"pack_type": "uint8"}, "modulo the bits of a word"),
        ("nn.bitpack", [(2, 8)], {"pack_type": "int8"}, "`pack_type` of `nn.bitpack`"),
        ("nn.bitpack", [(2, 8)], {"bits": 9}, "`bits` of `nn.bitpack` must be 1 to 8, got 9"),
        ("nn.bitpack", [(2, 8)], {"bit_axis": 3}, "`bit_axis` of `nn.bitpack` is 3"),
        ("nn.bitserial_dense", [(2, 8), (3, 8)], {"data_bits": 0}, "`data_bits`"),
        ("nn.bitserial_dense", [(2, 8), (3, 8)], {"out_dtype": "float32"}, "`out_dtype`"),
        ("nn.bitserial_dense", [(2, 8), (3, 2, 1)], {}, "`weight_bits`"),
        ("nn.bitserial_dense", [(2, 8), (3, 1, 1)], {"pack_dtype": "uint16"}, "as `pack_dtype`"),
        ("nn.bitserial_conv2d", [(1, 2, 4, 4), (3, 2, 1, 1)], {}, "`kernel_size`"),
        (
            "nn.bitserial_conv2d",
            [(1, 8, 4, 4), (1, 3, 1, 3, 3)],
            {"kernel_layout": "OIHx"},
            "`kernel_layout` of `nn.bitserial_conv2d`",
        ),
    ],
)
def test_what_cannot_be_is_refused(name: str, shapes: Any, attrs: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        OPS[name].result_type([TensorType(s, BY_NAME["uint8"]) for s in shapes], attrs)
