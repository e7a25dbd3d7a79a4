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
        DataValue("converter", 0, 0)
