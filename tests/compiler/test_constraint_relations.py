"""A constraint names an operator or a relation, and promises all operators of the same rule."""

from __future__ import annotations

import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.kinds import RELATIONS, same_rule_name
from relayvm.ir.printer import print_type
from relayvm.ops import OPS

PROGRAM = """
def @f[A, B, C](%x: A, %y: B) -> C where {relation}(A, B, C) {{ {op}(%x, %y) }}
def @main(%x: {dtype}, %y: Tensor[(3), {dtype}]) {{ @f(%x, %y) }}
"""


@pytest.mark.parametrize(
    "relation, op, dtype",
    [
        ("Broadcast", "add", "int32"),
        ("Broadcast", "multiply", "float32"),
        ("subtract", "maximum", "int32"),
        ("BroadcastComp", "less", "int32"),
        ("logical_or", "logical_and", "bool"),
    ],
)
def test_what_is_promised_holds_for_the_same_rule(relation: str, op: str, dtype: str) -> None:
    text = PROGRAM.format(relation=relation, op=op, dtype=dtype)
    module = infer_types(relayvm.parse(text))
    result = "bool" if relation == "BroadcastComp" else dtype
    assert print_type(module["main"].checked_type.ret_type) == f"Tensor[(3), {result}]"


@pytest.mark.parametrize("op", ["less", "logical_and", "nn.dense"])
def test_what_is_promised_holds_for_no_other_rule(op: str) -> None:
    text = PROGRAM.format(relation="Broadcast", op=op, dtype="bool")
    with pytest.raises(RelayError):
        infer_types(relayvm.parse(text))


def test_relations_are_of_operators() -> None:
    assert all(name in OPS for name in RELATIONS.values())
    assert same_rule_name("Broadcast") == same_rule_name("multiply") != same_rule_name("less")
    assert same_rule_name("no.such") == "no.such"
