"""Programs go to JSON and come back the same; other texts are refused."""

from __future__ import annotations

import copy
import json
import pickle
import random
from collections import Counter

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import BY_NAME, DTYPES
from relayvm.compiler.infer_types import infer_types
from relayvm.ir import build, structural_equal
from relayvm.ir.expr import Call, Constant, Tuple, Var
from relayvm.ir.intrinsics import INTRINSICS, Intrinsic
from relayvm.ir.json import load_json, save_json
from relayvm.ir.types import IncompleteType, RefType, TupleType, TypeVar
from relayvm.ir.visit import post_order
from relayvm.ops import OPS

PROGRAM = """
type Table[A, n] { Row(Tensor[(n, 2), float32], Table[A, n]), End(A), }
extern type Handle
def @both[A, n](%t: Table[A, n], %z: A) -> (Table[A, n], A) { (%t, %z) }
def @main[n](%x: Tensor[(n, n*2 + 1, ?), float32], %l: List[int32], Inline=1) {
  let %y = sum(%x, axis=[0], keepdims=True);
  let %r = ref(%y + nanf);
  ref_write(%r, %y);
  let %f = fn (%a: int32) { if (%a < 3) { %a } else { ref_read(%r); (%a, -0f).0 } };
  match? (%l) { Cons(%h, _) => %f(%h), Nil => %f(3) }
}
"""


def program(typed):
    module = relayvm.parse(PROGRAM)
    return infer_types(module) if typed else module


def test_a_program_comes_back_with_sharing_types_and_spans():
    for typed in (False, True):
        module = program(typed)
        text = save_json(module)
        back = load_json(text, OPS)
        assert structural_equal(module, back) and save_json(back) == text
        old, new = (m.functions["main"] for m in (module, back))
        for a, b in zip(post_order(old), post_order(new)):
            assert type(a) is type(b) and str(a.span) == str(b.span)
            assert structural_equal([a.checked_type], [b.checked_type], map_free_vars=True)
        assert back.library == module.library


ARRAYS = """
def @main(%a: Array[int32]) {
  let %b = array.set(array.push(array.new(3), 1), 0, array.length(%a));
  (@array_map(fn (%x: int32) { %x + 1 }, %b), array.get(%b, 0))
}
"""


@pytest.mark.parametrize("typed", [False, True])
def test_operations_of_arrays_come_back_as_the_same_objects(typed):
    module = relayvm.parse(ARRAYS)
    module = infer_types(module) if typed else module
    back = load_json(save_json(module), OPS)
    assert structural_equal(module, back) and save_json(back) == save_json(module)
    used = {n for f in back.functions.values() for n in post_order(f) if isinstance(n, Intrinsic)}
    assert used == set(INTRINSICS.values())


@pytest.mark.parametrize("name", INTRINSICS)
def test_a_copy_of_an_intrinsic_is_the_intrinsic(name):
    row = INTRINSICS[name]
    assert load_json(save_json(row), OPS) is row
    assert copy.deepcopy(row) is row and pickle.loads(pickle.dumps(row)) is row


def test_what_is_shared_stays_shared():
    x = Var("x")
    shared = Tuple((x,))
    back = load_json(save_json([shared, shared, x]), OPS)
    assert back[0] is back[1] and back[0].fields[0] is back[2]


@pytest.mark.parametrize("dtype", [row.name for row in DTYPES])
def test_constants_come_back_with_their_bits(dtype):
    array = BY_NAME[dtype].array([[0, 1, 1]])
    back = load_json(save_json(Constant(array)), OPS)
    assert back.data.dtype == array.dtype and back.data.tobytes() == array.tobytes()
    assert back.data.shape == (1, 3) and not back.data.flags.writeable


def test_types_patterns_and_plain_values_come_back():
    a = TypeVar("a")
    hole = IncompleteType()
    value = {
        "types": [TupleType((a, RefType(hole), a)), OPS["add"], build.pattern((None, Var("v")))]
    }
    back = load_json(save_json([value, 1.5, float("inf"), -0.0, None, "t", True]), OPS)
    types = back[0]["types"]
    assert types[0].fields[0] is types[0].fields[2] and types[1] is OPS["add"]
    assert back[1:3] == (1.5, float("inf")) and str(back[3]) == "-0.0"
    assert back[4:] == (None, "t", True)


def test_programs_of_any_depth_are_written_and_read():
    expr = Var("x")
    for _ in range(5_000):
        expr = build.let([(Var("v"), Call(OPS["exp"], (expr,)))], expr)
    back = load_json(save_json(expr), OPS)
    assert save_json(back) == save_json(expr)


def test_what_is_no_program_is_not_written():
    with pytest.raises(RelayError, match="a `set` is no part of a program"):
        save_json({"a": {1, 2}})
    with pytest.raises(RelayError, match="keys of a dict are texts"):
        save_json({1: 2})
    with pytest.raises(RelayError, match="a `array` is no part"):
        save_json(np.zeros(2))


def text_of(nodes, root=None):
    return json.dumps(
        {"format": "relayvm-ir", "version": 1, "nodes": nodes, "root": root or {"node": 0}}
    )


WRONG = {
    "no JSON": ("{", "the text is not JSON"),
    "another format": ("{}", "no `format` of `relayvm-ir`"),
    "no nodes": ('{"format": "relayvm-ir", "version": 1}', "no list of nodes"),
    "a node that comes later": (
        text_of([{"class": "TupleGetItem", "tuple_value": {"node": 1}, "index": 0}]),
        "node 0 holds `{node: 1}`, which is no value",
    ),
    "an unknown class": (text_of([{"class": "Nonsense"}]), "node 0 is of class `Nonsense`"),
    "a node that is no object": (text_of([3]), "node 0 is no object"),
    "a field of another class": (
        text_of([{"class": "GlobalVar", "name": "f", "body": 1}]),
        "node 0 has a field `body`, which `GlobalVar` has not",
    ),
    "a value of another kind": (
        text_of([{"class": "GlobalVar", "name": 3}]),
        "node 0 has a wrong value in the field `name`",
    ),
    "a missing field": (text_of([{"class": "Let"}]), "node 0 is no Let"),
    "a constant of another size": (
        text_of([{"class": "Constant", "dtype": "int8", "shape": [3], "data": "AAA="}]),
        "node 0 holds 2 bytes for shape (3,) of int8",
    ),
    "a constant without bytes": (
        text_of([{"class": "Constant", "dtype": "int8", "shape": [], "data": "*"}]),
        "node 0 holds data that are not base64",
    ),
    "a value that is none": (text_of([], {"frob": 1}), "the root holds"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_a_text_that_describes_no_program_is_refused(text, message):
    with pytest.raises(RelayError) as raised:
        load_json(text, OPS)
    assert raised.value.code == "bad-json" and message in raised.value.message


def test_the_error_is_one_line_with_a_way_out():
    with pytest.raises(RelayError) as raised:
        load_json(text_of([{"class": "GlobalVar", "name": 3}]), OPS)
    assert str(raised.value) == (
        "error[bad-json]: node 0 has a wrong value in the field `name`\n"
        "help: `relayvm explain bad-json`"
    )


def test_other_versions_and_unknown_operators_are_told():
    with pytest.raises(RelayError, match="version 2, known is 1"):
        load_json('{"format": "relayvm-ir", "version": 2}', OPS)
    with pytest.raises(RelayError, match="no operator `frob`"):
        load_json(text_of([{"class": "Op", "name": "frob"}]), OPS)


def test_a_module_that_is_wrong_inside_is_refused():
    module = relayvm.parse("def @main(%x: int32) { let %y = %x; %y }")
    document = json.loads(save_json(module))
    let = next(n for n in document["nodes"] if n["class"] == "Let")
    let["var"] = next(n for n in document["nodes"] if n["class"] == "Function")["params"][0]
    with pytest.raises(RelayError) as raised:
        load_json(json.dumps(document), OPS)
    assert raised.value.code == "ill-formed"


def test_changed_texts_give_a_program_or_an_error():
    rng = random.Random(7)
    document = json.loads(save_json(program(typed=False)))
    values = [None, 1, "x", [], {"node": 3}, {"float": "q"}, {"node": 99999}, [{"node": 2}], {}]
    codes = Counter()
    for _ in range(500):
        changed = json.loads(json.dumps(document))
        node = rng.choice(changed["nodes"])
        node[rng.choice(list(node))] = rng.choice(values)
        try:
            load_json(json.dumps(changed), OPS)
        except RelayError as failure:
            codes[failure.code] += 1
    assert codes["bad-json"] > 300
