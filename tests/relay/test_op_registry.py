"""Operators as objects: attributes that programs set, and operators that they register."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.relay import op_registry
from relayvm.relay.op.op import OpPattern

PAIR = relay.TensorType((2, 3), "float32")


@pytest.fixture
def name() -> Iterator[str]:
    op_registry.register("custom.op", "An operator of a test.")
    yield "custom.op"
    del op_registry._registered["custom.op"]
    for key in [k for k in op_registry._attributes if k[0] == "custom.op"]:
        del op_registry._attributes[key]


def typed(name: str, *inputs: relay.Expr) -> relay.Type:
    call = relay.Call(relay.op.get(name), list(inputs))
    return relay.testing.run_infer_type(relay.Function(list(inputs), call)).checked_type.ret_type


def test_rows_are_known_as_objects() -> None:
    op = relay.op.get("add")
    assert (op.name, op.num_inputs) == ("add", 2)
    assert [a.name for a in op.arguments] == ["lhs", "rhs"]
    assert op.get_attr("TOpPattern") == OpPattern.BROADCAST
    assert relay.op.get("nn.dense").get_attr("TOpPattern") == OpPattern.OUT_ELEMWISE_FUSABLE
    assert op.get_attr("TOpIsStateful") is False
    assert tvm.ir.Op.get("add") is op
    with pytest.raises(RelayError, match="no operator `nothing`"):
        relay.op.get("nothing")


def test_attributes_are_set_by_level() -> None:
    @tvm.ir.register_op_attr("exp", "ftest")
    def test(x: int) -> int:
        return x + 1

    op = relay.op.get("exp")
    try:
        assert op.has_attr("ftest") and op.get_attr("ftest")(1) == 2
        op.set_attr("ftest", "low", plevel=5)
        assert op.get_attr("ftest") is test
        op.set_attr("ftest", "high", plevel=11)
        assert op.get_attr("ftest") == "high"
    finally:
        op.reset_attr("ftest")
    assert not op.has_attr("ftest")


def test_a_registered_operator_has_the_type_of_its_relation(name: str) -> None:
    op = relay.op.get(name)
    op.set_num_inputs(1)
    op.add_argument("data", "Tensor", "The operand.")
    op.set_attrs_type_key("DictAttrs")
    op.add_type_rel("Identity")
    op.set_support_level(1)
    relay.op.register_pattern(name, OpPattern.ELEMWISE)
    relay.op.register_stateful(name, False)
    assert op.support_level == 1 and op.description == "An operator of a test."
    assert [a.name for a in op.arguments] == ["data"]
    assert op.get_attr("TOpPattern") == OpPattern.ELEMWISE
    assert typed(name, relay.var("x", PAIR)) == PAIR


def test_a_relation_may_be_a_python_function(name: str) -> None:
    op = relay.op.get(name)
    op.set_num_inputs(2)
    op.add_type_rel("Sizes", lambda types, attrs: relay.TensorType(types[1].shape, "int32"))
    result = typed(name, relay.var("x", PAIR), relay.var("y", relay.TensorType((4,), "float32")))
    assert result == relay.TensorType((4,), "int32")


def test_what_a_registered_operator_lacks_is_named(name: str) -> None:
    x = relay.var("x", PAIR)
    op = relay.op.get(name)
    op.set_num_inputs(1)
    with pytest.raises(RelayError, match="`custom.op` has no type relation"):
        typed(name, x)
    with pytest.raises(RelayError, match="no relation `Strange`"):
        op.add_type_rel("Strange")
    op.add_type_rel("Nothing", lambda types, attrs: None)
    with pytest.raises(RelayError, match="`Nothing` gives `custom.op` no type"):
        typed(name, x)
    op.add_type_rel("Identity")
    run = relay.create_executor().evaluate(relay.Function([x], relay.Call(op, [x])))
    with pytest.raises(RelayError, match=r"`custom.op` has no `.numpy`"):
        run(np.zeros((2, 3), np.float32))


def test_rows_of_the_table_stay_as_they_are() -> None:
    with pytest.raises(RelayError, match="is a row of the table"):
        relay.op.get("add").set_num_inputs(3)
    with pytest.raises(RelayError, match="an operator `add` already"):
        relay.op.register("add")


def test_a_program_with_a_registered_operator_is_written_to_json_and_read(name: str) -> None:
    op = relay.op.get(name)
    call = relay.Call(op, [relay.var("x", PAIR)])
    back = tvm.ir.load_json(tvm.ir.save_json(relay.Function(call.args, call)))
    assert back.body.op is op


def test_the_text_of_a_program_with_a_registered_operator_is_read(
    name: str, tmp_path: Path
) -> None:
    op = relay.op.get(name)
    op.set_num_inputs(1)
    op.add_type_rel("Identity")
    x = relay.var("x", PAIR)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], op(x))))
    text = mod.astext()
    for back in (relay.parse(text), relay.fromtext(text), relay.parse(text, "f", tvm.IRModule())):
        assert back["main"].body.op is op
        tvm.ir.assert_structural_equal(mod, back)
    assert relay.parse_expr(f"fn (%x: int32) {{ {name}(%x) }}").body.op is op
    path = tmp_path / "program.relay"
    path.write_text(text, encoding="utf-8")
    taken = tvm.IRModule()
    taken._import(str(path))
    assert taken["main"].body.op is op
