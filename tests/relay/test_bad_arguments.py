"""Wrong arguments from Python end in an error of the user, never in one of ours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import relayvm
from relayvm import relay
from relayvm.vm.values import DataValue

X = relay.var("x", shape=(1, 1, 4, 4))
CALLS: dict[str, Callable[[], object]] = {
    "padding as a text": lambda: relay.nn.conv2d(X, X, padding="ab"),
    "padding without end": lambda: relay.nn.max_pool2d(X, padding=float("inf")),
    "padding in a padding": lambda: relay.nn.avg_pool2d(X, padding=((1, 2),)),
    "an array as a bound": lambda: relay.clip(X, np.zeros(2), 1.0),
    "an array as a dtype": lambda: relay.sum(X, axis=np.zeros((2, 2))),
    "a program that is no text": lambda: relay.parse({}),
    "an expression that is no text": lambda: relay.parse_expr(3),
    "no program": lambda: relayvm.compile(None),
    "parameters that are no mapping": lambda: relay.build(relay.Function([X], X), params=b"ab"),
    "bindings that are no mapping": lambda: relay.bind(relay.Function([X], X), 1.5),
    "functions that are no mapping": lambda: relayvm.IRModule(5),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_error_is_one_of_the_user(name: str) -> None:
    with pytest.raises((relayvm.RelayError, TypeError)):
        CALLS[name]()


def test_a_section_that_a_file_does_not_have_is_named() -> None:
    exe = relayvm.compile(relayvm.parse("def @main(%x: int32) { %x }"))
    with pytest.raises(relayvm.RelayError, match="no section 'kernel'"):
        exe.section("kernel")


@pytest.mark.filterwarnings("error")
def test_a_value_that_was_never_made_is_dropped_silently() -> None:
    with pytest.raises(AttributeError):
        DataValue("converter", 0, 0, None, None)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (3, "`3` of class `int`"),
        ("InferType", "`'InferType'` of class `str`"),
        (relay.transform.InferType, "call it to make the pass"),
    ],
)
def test_what_is_no_pass_is_named_when_a_sequence_is_made(step: object, text: str) -> None:
    with pytest.raises(relayvm.RelayError) as raised:
        relayvm.transform.Sequential([relay.transform.InferType(), step])
    assert raised.value.code == "wrong-argument" and text in str(raised.value)


@pytest.mark.parametrize(
    ("module", "name", "text"),
    [
        (relay, "zork", "module `relayvm.relay` has no attribute `zork`"),
        (relay, "expnd_dims", "no attribute `expnd_dims`; did you mean `expand_dims`"),
        (relay, "Functoin", "did you mean `Function`"),
        (relay, "trnasform", "did you mean `transform`?"),
        (relay.nn, "sofmax", "did you mean `softmax`"),
        (relay.transform, "InfreType", "did you mean `InferType`"),
        (relayvm, "IRMdoule", "did you mean `IRModule`"),
        (relayvm.transform, "Sequental", "did you mean `Sequential`"),
    ],
)
def test_a_missing_name_is_told_with_those_most_like_it(
    module: object, name: str, text: str
) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(module, name)
    assert text in str(raised.value)
