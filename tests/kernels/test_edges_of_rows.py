"""Pads of a few elements are written as scalars beside whole vectors, which nothing masks."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.dims import DimVar, symbol
from relayvm.kernels import compute as te
from relayvm.kernels.lower import Computation
from relayvm.kernels.printer import print_nest
from relayvm.ops.padding import mirror_pad, pad

from .native import Native

SIZE = DimVar("n")


def padded(length, widths, mode, variables=()):
    """Return a tensor of three rows with pads, constant or mirrored."""
    x = te.placeholder("x", (3, length), "float32")
    if mode == "constant":
        value = te.placeholder("value", (), "float32")
        out = pad.facets["compute"](x, value, pad_width=widths, pad_mode=mode)
        return Computation("pad", (x, value), (out,), variables)
    out = mirror_pad.facets["compute"](x, mode=mode.upper(), pad_width=widths)
    return Computation("pad", (x,), (out,), variables)


@pytest.mark.parametrize("mode", ["constant", "reflect", "symmetric"])
@pytest.mark.parametrize("edge", [(1, 1), (0, 3), (4, 2), (5, 1), (9, 9)])
def test_rows_with_edges(mode, edge):
    widths = ((1, 2), edge)
    unknown = Native(padded(symbol(SIZE), widths, mode, (SIZE,)))
    for size in (10, 16, 32, 45):
        x = np.arange(3 * size, dtype=np.float32).reshape(3, size)
        operands = [x, np.array(7, np.float32)] if mode == "constant" else [x]
        options = {"constant_values": 7} if mode == "constant" else {}
        expected = np.pad(x, widths, mode=mode, **options)
        known = Native(padded(size, widths, mode))
        for result in (known.results(operands)[0], unknown.results(operands, (size,))[0]):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_short_edges_need_no_gathers_and_no_masks(mode):
    text = print_nest(Native(padded(64, ((0, 0), (1, 2)), mode)).nest)
    assert "gather" not in text
    assert "mask" not in text
