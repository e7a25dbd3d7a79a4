"""Functions of quantized values by tables, and types of what is being built."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.relay.frontend.common import infer_type
from relayvm.relay.qnn.op.canonicalizations import create_integer_lookup_op, run_const_expr
from relayvm.relay.qnn.op.legalizations import hardswish_func


def test_constants_are_evaluated() -> None:
    assert run_const_expr(relay.add(relay.const(1.5), relay.const(2.0))) == 3.5


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_table_gives_the_function_of_real_values(dtype: str) -> None:
    values = np.arange(256, dtype=np.uint8).view(dtype)
    x = relay.var("x", shape=(256,), dtype=dtype)
    scale, zero = relay.const(0.05), relay.const(3)
    looked_up = create_integer_lookup_op(
        x, np.tanh, scale, zero, relay.const(1 / 100), zero, in_dtype=dtype, out_dtype=dtype
    )
    result = relay.create_executor().evaluate(relay.Function([x], looked_up))(values)
    real = np.tanh((values.astype(np.float32) - 3) * np.float32(0.05))
    limits = np.iinfo(dtype)
    wanted = np.clip(np.round(real * 100) + 3, limits.min, limits.max)
    assert np.abs(result.astype(int) - wanted).max() <= 1


def test_hardswish_is_0_below_and_the_identity_above() -> None:
    np.testing.assert_allclose(hardswish_func(np.array([-4.0, 0.0, 1.0, 5.0])), [0, 0, 2 / 3, 5])


def test_a_table_over_wide_values_is_refused() -> None:
    x = relay.var("x", shape=(2,), dtype="int16")
    one = relay.const(1.0)
    with pytest.raises(RelayError, match="8 bits, not over `int16`"):
        create_integer_lookup_op(x, np.exp, one, one, one, one, in_dtype="int16")


def test_types_are_inferred_inside_of_a_module() -> None:
    x = relay.var("x", shape=(2,))
    module = relay.fromtext('#[version = "0.0.5"]\ndef @f(%x: int32) -> int32 { %x }')
    assert infer_type(relay.exp(x)).checked_type == relay.TensorType((2,), "float32")
    call = relay.Call(relay.GlobalVar("f"), [relay.const(1)])
    assert infer_type(call, module).checked_type == relay.scalar_type("int32")
