"""Inference after an inference: what did not change is kept, and one expression from its parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

import relayvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.infer_types import infer_type_local, infer_types, kept_functions
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import Call, Let
from relayvm.ir.printer import print_type
from relayvm.ir.types import TensorType
from relayvm.ir.visit import post_order, rewrite

PROGRAM = """
def @double(%x: Tensor[(?,), float32]) { %x + %x }
def @main(%x: Tensor[(3,), float32]) { let %y = @double(%x); tanh(%y) }
"""


def parsed(text):
    return infer_types(relayvm.parse(text))


def test_a_typed_module_is_returned_as_it_is() -> None:
    module = parsed(PROGRAM)
    assert infer_types(module) is module
    assert kept_functions(module) == {"double", "main"}


def test_a_changed_body_is_the_only_one_inferred_again() -> None:
    module = parsed(PROGRAM)
    main = module["main"]
    changed = module.with_functions(
        {**module.functions, "main": replace(main, body=main.body.value, checked_type=None)}
    )
    assert kept_functions(changed) == {"double"}
    again = infer_types(changed)
    assert again["double"] is module["double"]
    assert print_type(again["main"].body.checked_type) == "Tensor[(?), float32]"


def test_users_of_a_changed_signature_are_inferred_again() -> None:
    module = parsed(PROGRAM)
    other = relayvm.parse("def @double(%x: Tensor[(3,), int32]) { %x }")
    changed = module.with_functions({**module.functions, "double": other["double"]})
    assert kept_functions(changed) == frozenset()
    with pytest.raises(RelayError) as caught:
        infer_types(changed)
    assert caught.value.code == "type-mismatch"


def test_a_new_body_behind_the_same_signature_leaves_users_alone() -> None:
    module = parsed(PROGRAM)
    double = module["double"]
    same = replace(double, body=double.params[0], checked_type=None)
    changed = module.with_functions({**module.functions, "double": same})
    assert kept_functions(changed) == {"main"}


def test_a_removed_function_is_missed_by_its_users() -> None:
    module = parsed(PROGRAM)
    with pytest.raises(RelayError) as caught:
        infer_types(module.with_functions({"main": module["main"]}))
    assert caught.value.code == "unknown-function"


def test_a_changed_data_type_makes_everything_be_inferred_again() -> None:
    module = parsed("type Box { Box(int32) } def @main(%x: int32) { Box(%x) }")
    other = relayvm.parse("type Box { Box(float32) } def @main(%x: float32) { Box(%x) }")
    assert kept_functions(module.with_types(other.types)) == frozenset()


def test_the_type_of_one_expression_follows_from_those_of_its_parts() -> None:
    module = parsed(PROGRAM)
    for function in module.functions.values():
        for node in post_order(function):
            if isinstance(node, (Call, Let)):
                bare = replace(node, checked_type=None)
                found = infer_type_local(bare, module)
                assert print_type(found) == print_type(node.checked_type)


def test_parts_that_have_a_type_are_not_looked_at_again() -> None:
    module = parsed(PROGRAM)
    let = module["main"].body
    value = let.body
    claimed = replace(value, checked_type=TensorType((7,), value.checked_type.dtype))
    found = infer_type_local(Let(let.var, let.value, claimed), module)
    assert print_type(found) == "Tensor[(7), float32]"


def test_one_expression_that_does_not_fit_its_parts_is_refused() -> None:
    module = parsed(PROGRAM)
    call = module["main"].body.body
    wrong = replace(call, args=call.args + call.args, checked_type=None)
    with pytest.raises(RelayError) as caught:
        infer_type_local(wrong, module)
    assert caught.value.code == "wrong-arity"


def test_a_rewritten_program_infers_to_the_types_of_one_written_so() -> None:
    module = parsed(PROGRAM)
    tanh = module["main"].body.body.op

    def drop(node):
        return node.args[0] if isinstance(node, Call) and node.op is tanh else node

    main = replace(rewrite(module["main"], drop), checked_type=None)
    again = infer_types(module.with_functions({**module.functions, "main": main}))
    written = parsed(PROGRAM.replace("tanh(%y)", "%y"))
    assert structural_equal(again, written)


def test_variables_that_declare_their_types_stay_the_objects_that_they_are() -> None:
    x, y, z = relay.var("x", shape=(2, 3)), relay.var("y", "float32"), relay.var("z")
    body = relay.Let(z, relay.add(x, x), relay.add(z, y))
    module = relayvm.IRModule.from_expr(relay.Function([x, y], body))
    typed = relay.transform.InferType()(module)["main"]
    assert typed.params[0] is x and typed.params[1] is y
    assert relay.analysis.free_vars(typed.body) == [x, y]
    assert x.checked_type == x.type_annotation
    assert typed.body.var is not z and typed.body.var.checked_type == x.type_annotation


def test_a_variable_of_two_functions_stays_the_object_that_the_first_has() -> None:
    x = relay.var("x", shape=(2, 3))
    double, main = relay.GlobalVar("double"), relay.GlobalVar("main")
    functions = {double: relay.Function([x], x + x), main: relay.Function([x], double(x))}
    typed = relay.transform.InferType()(relayvm.IRModule(functions))
    assert typed["double"].params[0] is x and typed["main"].params[0] is not x
    assert typed["main"].body.args[0] is typed["main"].params[0]


def test_a_variable_that_declares_part_of_its_type_gets_the_rest_in_an_object_of_its_own() -> None:
    x = relay.var("x")
    call = relay.Call(relay.Function([x], relay.add(x, relay.const(1.0))), [relay.const(2.0)])
    module = relayvm.IRModule.from_expr(relay.Function([], call))
    typed = relay.transform.InferType()(module)["main"].body.op.params[0]
    assert typed is not x and x.type_annotation is None
    assert str(typed.type_annotation) == "float32"


def test_a_variable_whose_type_was_another_before_is_not_touched() -> None:
    x = relay.var("x", shape=(2, 3))
    old = replace(x, checked_type=relay.TensorType((5,), "float32"))
    typed = relay.transform.InferType()(
        relayvm.IRModule.from_expr(relay.Function([old], old + old))
    )
    assert typed["main"].params[0] is not old
    assert str(typed["main"].params[0].checked_type) == "Tensor[(2, 3), float32]"
    assert str(old.checked_type) == "Tensor[(5), float32]"
