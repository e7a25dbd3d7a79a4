"""Sizes in inferred types: what joins, what stays, what is solved at calls."""

from __future__ import annotations

import pytest
from inference import result, type_text, typed

from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import ANY, DimVar, symbol
from relayvm.base.dtypes import FLOAT32
from relayvm.compiler.infer_types import needs_check
from relayvm.compiler.inference.dim_flow import is_unsolvable, solve
from relayvm.compiler.inference.holes import DimHole
from relayvm.ir.expr import Let
from relayvm.ir.printer import print_type
from relayvm.ir.types import TensorType, TupleType

GROWING = 'concatenate((%acc, zeros(shape=[1, 4], dtype="float32")), axis=0)'


def test_a_growing_accumulator_of_a_global_function_has_unknown_size():
    text = f"""
    def @loop(%i: int32, %acc) {{ if (%i < 9) {{ @loop(%i + 1, {GROWING}) }} else {{ %acc }} }}
    def @main(%x: Tensor[(0, 4), float32]) {{ @loop(0, %x) }}"""
    assert (
        type_text(text, "loop") == "fn (int32, Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32]"
    )
    assert result(text) == "Tensor[(?, 4), float32]"


def test_a_growing_accumulator_of_a_local_function_has_unknown_size():
    text = f"""
    def @main[n](%x: Tensor[(n, 4), float32]) {{
      let %loop = fn (%i, %acc) {{ if (%i < 9) {{ %loop(%i + 1, {GROWING}) }} else {{ %acc }} }};
      %loop(0, %x)
    }}"""
    assert result(text) == "Tensor[(?, 4), float32]"


def test_an_accumulator_that_keeps_its_size_keeps_it_in_its_type():
    text = """
    def @loop(%i: int32, %acc) { if (%i < 9) { @loop(%i + 1, exp(%acc)) } else { %acc } }
    def @main(%x: Tensor[(3, 4), float32]) { @loop(0, %x) }"""
    assert result(text) == "Tensor[(3, 4), float32]"


def test_a_growing_accumulator_of_foldl_has_unknown_size():
    text = """
    def @main(%xs: List[Tensor[(1, 4), float32]], %start: Tensor[(0, 4), float32]) {
      @foldl(fn (%acc, %x) { concatenate((%acc, %x), axis=0) }, %start, %xs)
    }"""
    assert result(text) == "Tensor[(?, 4), float32]"


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        ("5", "5", "5"),
        ("5", "7", "?"),
        ("5", "?", "?"),
        ("n", "n", "n"),
        ("n", "m", "?"),
        ("n", "5", "?"),
    ],
)
def test_branches_join_sizes(a, b, joined):
    text = f"""
    def @main[n, m](%c: bool, %x: Tensor[({a}), int8], %y: Tensor[({b}), int8],
                    %u: Tensor[(n, m), int8]) {{ if (%c) {{ %x }} else {{ %y }} }}"""
    assert result(text) == f"Tensor[({joined}), int8]"


def test_clauses_join_sizes_inside_tuples():
    text = """
    def @main(%o: Option[Tensor[(5), int8]], %y: Tensor[(7), int8]) {
      match (%o) { Some(%x) => (%x, 1), None => (%y, 2) }
    }"""
    assert result(text) == "(Tensor[(?), int8], int32)"


def test_lists_of_different_lengths_join_the_sizes_of_their_elements():
    text = """
    def @main(%c: bool, %x: Tensor[(5), int8], %y: Tensor[(7), int8]) {
      let %a = Cons(%x, Nil);
      let %b = Cons(%y, Cons(%x, Nil));
      if (%c) { %a } else { %b }
    }"""
    assert result(text) == "List[Tensor[(?), int8]]"


@pytest.mark.parametrize(
    ("a", "b", "sum_"),
    [
        ("n", "n", "n"),
        ("n", "5", "5"),
        ("n", "1", "n"),
        ("?", "5", "5"),
        ("?", "1", "?"),
        ("?", "?", "?"),
    ],
)
def test_broadcast_takes_the_size_that_is_known(a, b, sum_):
    text = f"""
    def @main[n](%x: Tensor[({a}), int8], %y: Tensor[({b}), int8], %u: Tensor[(n), int8]) {{
      %x + %y
    }}"""
    assert result(text) == f"Tensor[({sum_}), int8]"


def test_broadcast_of_two_symbols_stays_symbolic():
    text = "def @main[n, m](%x: Tensor[(n), int8], %y: Tensor[(m), int8]) { %x + %y }"
    assert result(text) == "Tensor[(broadcast(m, n)), int8]"


def test_a_declared_unknown_size_is_not_narrowed_by_its_value():
    text = "def @main(%x: Tensor[(5), int8]) { let %y: Tensor[(?), int8] = %x; %y }"
    assert result(text) == "Tensor[(?), int8]"


def test_an_unknown_size_goes_where_a_size_is_declared():
    text = "def @main(%x: Tensor[(?), int8]) { let %y: Tensor[(5), int8] = %x; %y }"
    assert result(text) == "Tensor[(5), int8]"


def test_a_call_solves_the_sizes_of_the_function():
    text = """
    def @twice[n](%x: Tensor[(n, 3), int8]) { concatenate((%x, %x), axis=0) }
    def @main[m](%a: Tensor[(5, 3), int8], %b: Tensor[(?, 3), int8], %c: Tensor[(m + 1, 3), int8]) {
      (@twice(%a), @twice(%b), @twice(%c), @twice(@twice(%a)))
    }"""
    assert result(text) == (
        "(Tensor[(10, 3), int8], Tensor[(?, 3), int8],"
        " Tensor[(m*2 + 2, 3), int8], Tensor[(20, 3), int8])"
    )


def test_a_known_argument_decides_a_size_that_another_leaves_open():
    text = """
    def @f[n](%x: Tensor[(n), int8], %y: Tensor[(n), int8]) { %x + %y }
    def @main(%a: Tensor[(?), int8], %b: Tensor[(5), int8]) {
      (@f(%a, %b), @f(%b, %a), @f(%a, %a))
    }"""
    assert result(text) == "(Tensor[(5), int8], Tensor[(5), int8], Tensor[(?), int8])"


def test_a_function_without_a_written_result_may_call_itself_at_another_size():
    text = """
    def @f[n](%i: int32, %x: Tensor[(n), int8]) {
      if (%i == 0) { %x } else { @f(%i - 1, concatenate((%x, %x), axis=0)) }
    }
    def @main(%x: Tensor[(3), int8]) { @f(2, %x) }"""
    assert result(text, "f") == "Tensor[(?), int8]"
    assert result(text) == "Tensor[(?), int8]"


def test_a_function_that_recurses_at_its_own_size_keeps_it():
    text = """
    def @f[n](%i: int32, %x: Tensor[(n), int8]) { if (%i == 0) { %x } else { @f(%i - 1, %x + %x) } }
    def @main(%x: Tensor[(3), int8]) { @f(2, %x) }"""
    assert result(text, "f") == "Tensor[(n), int8]"
    assert result(text) == "Tensor[(3), int8]"


def test_a_data_type_carries_a_size():
    text = """
    type Vec[n: ShapeVar] { Vec(Tensor[(n), int8]) }
    def @get[n](%v: Vec[n]) { match (%v) { Vec(%x) => %x } }
    def @main(%x: Tensor[(3), int8], %y: Tensor[(?), int8]) { (@get(Vec(%x)), @get(Vec(%y))) }"""
    assert result(text) == "(Tensor[(3), int8], Tensor[(?), int8])"


def test_a_reference_holds_the_join_of_what_is_written_into_it():
    text = """
    def @main(%x: Tensor[(5), int8], %y: Tensor[(7), int8]) {
      let %r = ref(%x);
      ref_write(%r, %y);
      ref_read(%r)
    }"""
    assert result(text) == "Tensor[(?), int8]"


def test_the_size_of_a_declared_reference_is_fixed():
    text = """
    def @main(%x: Tensor[(5), int8], %y: Tensor[(7), int8]) {
      let %r: ref(Tensor[(5), int8]) = ref(%x);
      ref_write(%r, %y)
    }"""
    with pytest.raises(RelayError) as raised:
        result(text)
    assert raised.value.code == "shape-mismatch"


def test_a_weight_without_type_gets_it_from_the_data():
    text = """
    def @main(%x: Tensor[(3, 784), float32], %w, %b) {
      nn.bias_add(nn.dense(%x, %w, units=10), %b)
    }"""
    assert type_text(text) == (
        "fn (Tensor[(3, 784), float32], Tensor[(10, 784), float32], Tensor[(10), float32])"
        " -> Tensor[(3, 10), float32]"
    )


def test_a_weight_handed_down_a_recursion_gets_its_type_at_its_use():
    text = """
    def @loop(%i, %h, %w) {
      if (%i > 0) { @loop(%i - 1, tanh(nn.dense(%h, %w, units=4)), %w) } else { %h }
    }
    def @main(%x: Tensor[(3, 4), float32], %w) { @loop(3, %x, %w) }"""
    assert type_text(text) == (
        "fn (Tensor[(3, 4), float32], Tensor[(4, 4), float32]) -> Tensor[(3, 4), float32]"
    )


def tensor(*shape):
    return TensorType(shape, FLOAT32)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (tensor(5), tensor(5), False),
        (tensor(5), tensor(ANY), False),
        (tensor(ANY), tensor(ANY), False),
        (tensor(ANY), tensor(5), True),
        (tensor(symbol(DimVar("n"))), tensor(5), True),
        (TupleType((tensor(5), tensor(ANY))), TupleType((tensor(5), tensor(3))), True),
        (TupleType((tensor(5), tensor(3))), TupleType((tensor(ANY), tensor(3))), False),
    ],
)
def test_a_check_is_needed_where_a_size_may_be_another(source, target, expected):
    assert needs_check(source, target) is expected


def test_a_size_is_solved_from_linear_patterns_only():
    n, m = DimHole("n", solves=True), DimHole("m", solves=True)
    v = symbol(DimVar("v"))
    assert solve(symbol(n) * 2 + 1, n, 7) == 3
    assert solve(symbol(n) * 2 + 1, n, v * 2 + 1) == v
    assert solve(symbol(n) * 2, n, 7) is None
    assert solve(symbol(n) + symbol(m), n, 7) is None
    m.value = 3
    assert solve(symbol(n) + symbol(m), n, 7) == 4
    assert is_unsolvable(symbol(n) * 2, 7)
    assert is_unsolvable(symbol(n) + 9, 7)
    assert not is_unsolvable(symbol(n) * 2, 8)


def test_the_size_of_an_operator_result_comes_from_its_operands_not_from_its_use():
    text = """
    def @loop(%i, %h, %w) {
      let %y = tanh(nn.dense(%h, %w, units=4));
      if (%i > 0) { @loop(%i - 1, %y, %w) } else { %h }
    }
    def @main(%x: Tensor[(3, 74), float32], %w) { @loop(3, %x, %w) }"""
    let = typed(text).functions["loop"].body
    assert isinstance(let, Let)
    assert print_type(let.var.type_annotation) == "Tensor[(3, 4), float32]"
