"""Inference after an inference: what did not change is kept, and one expression from its parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

import relayvm
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
