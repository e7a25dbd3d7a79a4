"""Every function of `relay.op` builds a call that has a type and evaluates to what numpy says."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.ops import OPS
from tests.relay.nn_cases import NN_CASES, SHAPE
from tests.relay.op_cases import CASES, Case

ALL = [*CASES, *NN_CASES]

# What builds no call of one operator, and is tested on its own.
OTHERS = {
    "const",
    "get",
    "Op",
    "OpPattern",
    "copy_shape_func",
    "nn.Constant",
    "annotation.function_on_device",
    "annotation.device_name",
    "memory.flatten_tuple_type",
    "memory.from_tuple_type",
    "memory.to_tuple_type",
    "qnn.op.RequantizeConfig",
    "qnn.op.requantize_config",
    "qnn.op.current_requantize_config",
}


def names_in(space: Any, prefix: str) -> set[str]:
    """Return the public functions of a namespace that are defined in `relay`."""
    listed = getattr(space, "__all__", None) or [
        name
        for name, value in vars(space).items()
        if inspect.isfunction(value) and value.__module__ == space.__name__
    ]
    public = (
        n for n in listed if not n.startswith("_") and not inspect.ismodule(getattr(space, n))
    )
    return {prefix + name for name in public}


def test_every_function_has_an_example() -> None:
    spaces = {
        "": relay.op,
        "nn.": relay.op.nn,
        "image.": relay.op.image,
        "vision.": relay.op.vision,
        "random.": relay.op.random,
        "annotation.": relay.op.annotation,
        "memory.": relay.op.memory,
        "qnn.op.": relay.qnn.op,
    }
    found = set().union(*(names_in(space, prefix) for prefix, space in spaces.items()))
    found = {name for name in found if not name.startswith("register")}
    assert found - OTHERS == {c.name for c in ALL}


def built(case: Case) -> tuple[list[Any], Any]:
    """Return the variables and the call."""
    variables = [
        relay.var(f"x{i}", shape=np.shape(value), dtype=str(np.asarray(value).dtype))
        for i, value in enumerate(case.inputs)
    ]
    result = case.build(*variables)
    return variables, result.astuple() if isinstance(result, relay.TupleWrapper) else result


@pytest.mark.parametrize("kind", ["debug", "vm"])
@pytest.mark.parametrize("case", ALL, ids=str)
def test_a_call_gives_what_is_expected(case: Case, kind: str) -> None:
    variables, call = built(case)
    function = relay.Function(variables, call)
    result = relay.create_executor(kind).evaluate(function)(*case.inputs)
    if isinstance(case.expected, str) and case.expected == SHAPE:
        assert function.params == tuple(variables)
        return
    if not isinstance(case.expected, tuple):
        result, expected = (result,), (case.expected,)
    else:
        expected = case.expected
    assert len(result) == len(expected)
    for given, wanted in zip(result, expected):
        assert given.shape == np.shape(wanted)
        if isinstance(wanted, (np.ndarray, np.generic)):
            assert given.dtype.kind == wanted.dtype.kind
        tolerance = 2e-2 if case.name.startswith("fast") else 1e-5
        np.testing.assert_allclose(given, wanted, rtol=tolerance, atol=tolerance)


def test_an_operator_without_a_row_is_an_error_that_names_it() -> None:
    from relayvm.relay.op.make import call

    with pytest.raises(RelayError) as failure:
        call("no.such.operator")
    assert failure.value.code == "unknown-operator"
    assert "`no.such.operator`" in failure.value.message


def test_expressions_in_the_place_of_attributes_make_dynamic_operators() -> None:
    x = relay.var("x", shape=(2, 3))
    shape = relay.var("shape", shape=(2,), dtype="int64")
    for build, name in (
        (lambda: relay.reshape(x, shape), "dyn.reshape"),
        (lambda: relay.broadcast_to(x, shape), "dyn.broadcast_to"),
        (lambda: relay.zeros(shape, "float32"), "dyn.zeros"),
        (lambda: relay.ones(shape, "float32"), "dyn.ones"),
        (lambda: relay.full(relay.const(1.0), shape), "dyn.full"),
        (lambda: relay.tile(x, shape), "dyn.tile"),
        (lambda: relay.squeeze(x, shape), "dyn.squeeze"),
        (lambda: relay.strided_slice(x, shape, shape), "dyn.strided_slice"),
        (lambda: relay.nn.pad(x, shape), "dyn.nn.pad"),
    ):
        if name not in OPS:
            with pytest.raises(RelayError, match=name):
                build()
            continue
        assert build().op is OPS[name]


def test_constants_become_attributes() -> None:
    x = relay.var("x", shape=(2, 3))
    call = relay.reshape(x, relay.const([3, 2]))
    assert call.op.name == "reshape" and call.attrs.newshape == (3, 2)
    assert relay.strided_slice(x, relay.const([0, 1]), [2, 3]).attrs.begin == (0, 1)
    assert relay.squeeze(x, relay.const([0])).attrs.axis == (0,)


def test_calls_hold_their_default_attributes() -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    call = relay.nn.conv2d(x, relay.var("w"), padding=(1, 2), kernel_size=3, channels=4)
    assert call.attrs.padding == (1, 2, 1, 2)
    assert call.attrs.kernel_size == (3, 3)
    assert call.attrs.groups == 1
    assert relay.nn.batch_matmul(x, x).attrs.transpose_b is True


@pytest.mark.parametrize(
    ("given", "axes", "wanted"),
    [
        (1, 1, (1, 1)),
        (1, 2, (1, 1, 1, 1)),
        ((1,), 2, (1, 1, 1, 1)),
        ((1, 2), 2, (1, 2, 1, 2)),
        ((1, 2, 3, 4), 2, (1, 2, 3, 4)),
        ((1, 2, 3), 3, (1, 2, 3, 1, 2, 3)),
    ],
)
def test_paddings_are_written_out(given: Any, axes: int, wanted: tuple[int, ...]) -> None:
    from relayvm.relay.op.make import padding

    assert padding(given, axes) == wanted


def test_a_padding_of_another_length_is_refused() -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    with pytest.raises(RelayError, match="a list of 1, 2, 4 numbers, not of 3"):
        relay.nn.conv2d(x, relay.var("w"), padding=(1, 2, 3))


def test_numbers_are_no_operands() -> None:
    with pytest.raises(RelayError, match=r"relay\.const"):
        relay.add(relay.var("x"), 1)


def test_operators_with_several_results_are_unpacked() -> None:
    x = relay.var("x", shape=(2, 3))
    left, right = relay.split(x, [1], axis=1)
    result = relay.create_executor().evaluate(relay.Function([x], relay.Tuple([right, left])))
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = result(value)
    np.testing.assert_array_equal(given[0], value[:, 1:])


def test_tuples_of_tensors_are_flattened_and_built() -> None:
    from relayvm.relay.op import memory

    leaf = relay.TensorType((2,), "float32")
    kind = relay.TupleType([leaf, relay.TupleType([leaf, leaf])])
    value = relay.var("t", kind)
    parts = memory.from_tuple_type(kind, value)
    assert memory.flatten_tuple_type(kind) == [leaf] * 3
    rebuilt = memory.to_tuple_type(kind, parts)
    assert [type(f).__name__ for f in rebuilt.fields] == ["TupleGetItem", "Tuple"]


def test_requantize_takes_what_the_configuration_says() -> None:
    x = relay.var("x", shape=(2,), dtype="int32")
    scale, zero = relay.const(1.0), relay.const(0)
    with relay.qnn.op.requantize_config(rounding="TONEAREST"):
        inside = relay.qnn.op.requantize(x, scale, zero, scale, zero)
    outside = relay.qnn.op.requantize(x, scale, zero, scale, zero)
    assert inside.attrs.rounding == "TONEAREST"
    assert outside.attrs.rounding == "None"


def test_wrong_requantize_options_are_refused() -> None:
    with (
        pytest.raises(RelayError, match="no option `speed`"),
        relay.qnn.op.requantize_config(speed="high"),
    ):
        pass


def test_texts_and_calls_agree() -> None:
    x = relay.var("x", shape=(2, 3))
    built_call = relay.Function([x], relay.sum(relay.exp(x), axis=[1]))
    text = '#[version = "0.0.5"]\nfn (%x: Tensor[(2, 3), float32]) { sum(exp(%x), axis=[1]) }'
    assert relayvm.ir.structural_equal(built_call, relay.parse_expr(text))
