"""Single rules of the text format that a round trip does not show."""

from __future__ import annotations

import base64
import json
import struct

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import DimVar
from relayvm.base.dtypes import INT8
from relayvm.base.source import Source
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import Call, Constant, Let, Tuple, TupleGetItem
from relayvm.ir.parser import parse_expr, parse_type
from relayvm.ir.printer import print_module, print_type
from relayvm.ir.types import TypeVar
from relayvm.ops import OPS
from tests.ir.programs import parse


def spelled(span) -> str:
    return span.source.text[span.begin : span.end]


def test_graph_binding_shares_and_makes_no_let():
    body = parse("def @main(%x: float32) { %0 = exp(%x); add(%0, %0) }")["main"].body
    assert isinstance(body, Call)
    assert body.args[0] is body.args[1]


def test_sequence_is_a_let_of_an_unnamed_variable():
    body = parse("def @main(%r: ref(bool)) { ref_write(%r, True); 1 }")["main"].body
    assert isinstance(body, Let)
    assert body.var.name == "_"


def test_spans_cover_what_was_written():
    text = "def @main(%x: float32) { let %y = %x * -2f; (add(%y, %x), %y).0 }"
    let = parse(text)["main"].body
    assert isinstance(let, Let)
    assert spelled(let.span) == "let %y = %x * -2f; (add(%y, %x), %y).0"
    assert spelled(let.value.span) == "%x * -2f"
    assert spelled(let.value.args[1].span) == "-2f"
    assert isinstance(let.body, TupleGetItem)
    assert spelled(let.body.tuple_value.span) == "(add(%y, %x), %y)"
    assert spelled(let.body.tuple_value.fields[0].span) == "add(%y, %x)"


def test_attributes_take_the_kind_of_their_schema():
    body = parse('def @main(%x: bool) { cast(%x, dtype="int8") }')["main"].body
    assert body.attrs["dtype"] is INT8
    body = parse("def @main(%x: bool) { clip(%x, a_min=0, a_max=1f) }")["main"].body
    assert [type(v) for v in body.attrs.values()] == [float, float]
    body = parse("def @main(%x: bool) { sum(%x, axis=1, keepdims=1) }")["main"].body
    assert dict(body.attrs) == {"axis": (1,), "keepdims": True}


def test_kind_of_a_type_parameter_comes_from_its_use():
    text = """
      type Use[a, b] { More(Use[a, b]), Row(Tensor[(b,), bool], a) }
      def @f[t, n](%u: Use[t, n]) { 1 }
    """
    params = parse(text)["f"].type_params
    assert [type(p) for p in params] == [TypeVar, DimVar]


def test_definitions_of_the_program_hide_the_library():
    module = parse("type Tree { Leaf } def @map() { Leaf } def @main() { (@map(), @length(Nil)) }")
    assert module.library == {"length", "List"}
    assert len(module.types["Tree"].constructors) == 1


def test_library_brings_what_it_needs():
    module = parse("def @main(%t: Tree[bool]) { @size(%t) }")
    assert {"size", "sum", "map", "rev", "foldl", "Tree", "List"} == module.library
    assert "@foldl" not in print_module(module)
    assert "def @foldl" in print_module(module, library=True)


def test_program_that_uses_no_library_name_has_no_library():
    assert not parse("def @main() { 1 }").library


def test_type_text_means_a_type():
    for text in ("Tensor[(1, ?), int8]", "fn (bool, ()) -> (int32,)", "ref(float16)", "_"):
        assert print_type(parse_type(text)) == text
    with pytest.raises(RelayError):
        parse_type("Tensor[(1), int8] extra")


def test_expression_keeps_unknown_globals_where_there_is_no_library():
    expr = parse_expr("@anything(1)", OPS)
    assert isinstance(expr, Call)


def test_devices_of_old_texts_are_skipped():
    old = """#[version = "0.0.5"]
      def @main(%x {virtual_device=VirtualDevice(device_type=1)}: float32 /* ty=float32 */,
                virtual_device=meta[VirtualDevice][0]) -> float32 {
        %0 = exp(%x) /* ty=float32 span=file.py:3:4 */;
        add(%0, 1f /* ty=float32 */) /* ty=float32 */
      }"""
    new = "def @main(%x: float32) -> float32 { add(exp(%x), 1f) }"
    assert structural_equal(parse(old), parse(new))


def test_constants_in_the_graph_form_of_metadata_are_read():
    data = np.array([[1, -2, 3]], np.float32)
    dump = struct.pack("<QQiiiBBHqqq", 0xDD5E40F096B4A13F, 0, 1, 0, 2, 2, 32, 1, 1, 3, 12)
    document = {
        "root": 1,
        "nodes": [
            {"type_key": ""},
            {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]},
            {"type_key": "Array", "data": [3]},
            {"type_key": "relay.Constant", "attrs": {"data": "0", "span": "0"}},
        ],
        "b64ndarrays": [base64.b64encode(dump + data.tobytes()).decode()],
    }
    text = "def @main() { meta[relay.Constant][0] }\n#[metadata]\n" + json.dumps(document)
    body = parse(text)["main"].body
    assert isinstance(body, Constant)
    np.testing.assert_array_equal(body.data, data)


@pytest.mark.parametrize("text", ["1", "[]", "null", '{"root": 9, "nodes": [], "b64ndarrays": []}'])
def test_other_metadata_is_an_error_with_a_place(text):
    with pytest.raises(RelayError) as raised:
        parse(f"def @main() {{ 1 }}\n#[metadata]\n{text}")
    assert raised.value.code == "bad-metadata"
    assert spelled(raised.value.span) == "#[metadata]"


def test_tuple_of_one_and_parentheses_differ():
    one = parse("def @main() { (1,) }")["main"].body
    assert isinstance(one, Tuple)
    assert isinstance(parse("def @main() { (1) }")["main"].body, Constant)


def test_source_names_stand_in_messages():
    with pytest.raises(RelayError, match=r"model\.relay:1:15"):
        parse_expr(Source("model.relay", "add(1, 2) +   *"), OPS)


def test_a_byte_order_mark_is_no_part_of_a_text():
    module = parse('\ufeff#[version = "0.0.5"]\ndef @main() { 1 }')
    assert list(module.functions) == ["main"]
    with pytest.raises(RelayError) as caught:
        parse("\ufeffdef @main() { %x }")
    assert str(caught.value.span) == "test.rly:1:15"
