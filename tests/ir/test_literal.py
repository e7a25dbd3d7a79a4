"""Literals: each means one array, and every number comes back from its text with the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import DTYPES
from relayvm.base.source import Source
from relayvm.ir.build import const
from relayvm.ir.expr import Constant
from relayvm.ir.literal import LiteralError, read_number, read_string, write_number, write_string
from relayvm.ir.parser import parse_expr
from relayvm.ir.printer import print_expr
from relayvm.ops import OPS


def literal(text: str) -> np.ndarray:
    expr = parse_expr(Source("test.rly", text), OPS)
    assert isinstance(expr, Constant)
    return expr.data


@pytest.mark.parametrize(
    "text, dtype, value",
    [
        ("1", "int32", 1),
        ("2147483648", "int64", 2147483648),
        ("-2147483648", "int32", -2147483648),
        ("--5", "int32", 5),
        ("7i64", "int64", 7),
        ("-128i8", "int8", -128),
        ("255u8", "uint8", 255),
        ("18446744073709551615u64", "uint64", 18446744073709551615),
        ("1f", "float32", 1.0),
        ("1.5f64", "float64", 1.5),
        ("1e-3f16", "float16", np.float16(1e-3)),
        ("inff", "float32", np.inf),
        ("-inff64", "float64", -np.inf),
        ("True", "bool", True),
    ],
)
def test_literal_means(text, dtype, value):
    data = literal(text)
    assert data.dtype == dtype
    assert data.shape == ()
    assert data == value


def test_minus_zero_keeps_its_sign():
    assert np.signbit(literal("-0f"))


@pytest.mark.parametrize("text", ["1.5", "1u7", "300u8", "1f8", "1" * 500])
def test_meaningless_number_is_an_error(text):
    with pytest.raises(LiteralError):
        read_number(text, False)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.is_bool], ids=str)
@given(bits=st.integers(0, 2**64 - 1))
def test_every_bit_pattern_survives_the_text(dtype, bits):
    data = np.array(bits & (1 << dtype.bits) - 1, f"uint{dtype.bits}").view(dtype.numpy)
    again = parse_expr(print_expr(Constant(data)), OPS)
    assert isinstance(again, Constant)
    assert again.data.dtype == data.dtype
    assert again.data.tobytes() == data.tobytes()


def test_nan_with_another_payload_goes_to_the_metadata():
    canonical, other = (np.array(b, np.uint32).view(np.float32) for b in (0x7FC00000, 0x7FC00001))
    assert write_number(canonical) == "nanf"
    assert write_number(other) is None


def test_float_text_is_the_shortest():
    assert write_number(np.array(0.1, np.float32)) == "0.1f"
    assert write_number(np.array(1e30, np.float32)) == "1e+30f"
    assert write_number(np.array(3, np.float64)) == "3f64"


@given(st.text())
def test_every_string_survives_the_text(text):
    written = write_string(text)
    assert "\n" not in written
    assert read_string(written) == text


def test_const_narrows_what_numpy_widens():
    assert const(1).data.dtype == np.int32
    assert const(1.5).data.dtype == np.float32
    assert const([True]).data.dtype == np.bool_
    assert const(np.zeros(2, np.int16)).data.dtype == np.int16
    assert const(1, "float16").data.dtype == np.float16


def test_const_refuses_what_does_not_fit():
    with pytest.raises(RelayError, match="2147483648 does not fit into int32"):
        const(2**31)
    with pytest.raises(RelayError, match="no element type"):
        const("text")


@pytest.mark.parametrize("text", ["1e40f", "1e999f", "65520f16", "1e309f64"])
def test_a_float_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(LiteralError, match=r"does not fit into float\d+; infinity is `inff`"):
        read_number(text, False)
