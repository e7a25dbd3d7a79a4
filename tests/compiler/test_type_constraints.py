"""Constraints between type parameters: solved at each use, assumed inside, written as text."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.kinds import check_kind
from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.printer import print_module, print_type
from relayvm.ir.types import FuncType, Kind, TypeRelation, TypeVar
from tests.compiler.inference import result, type_text, typed

PLUS = "def @plus[A, B, C](%a: A, %b: B) -> C where add(A, B, C) { add(%a, %b) }\n"


def errors(text):
    with pytest.raises(RelayError) as raised:
        typed(text)
    return raised.value.diagnostics


def test_the_constraint_gives_the_result_of_a_use() -> None:
    main = "def @main(%x: Tensor[(3, 1), float32], %y: Tensor[(4,), float32]) { @plus(%x, %y) }"
    assert result(PLUS + main) == "Tensor[(3, 4), float32]"


def test_each_use_solves_it_anew() -> None:
    main = "def @main(%x: Tensor[(2,), int32]) { (@plus(%x, %x), @plus(1f, 2f)) }"
    assert result(PLUS + main) == "(Tensor[(2), int32], float32)"


def test_sizes_may_be_symbols_or_unknown() -> None:
    main = """
    def @main[n](%x: Tensor[(n, 1), int32], %y: Tensor[(?,), int32]) { @plus(%x, %y) }
    """
    assert result(PLUS + main) == "Tensor[(n, ?), int32]"


def test_several_constraints_hold_together() -> None:
    text = """
    def @f[A, B, C, D](%a: A, %b: B) -> D where add(A, B, C), greater(C, A, D) {
      greater(add(%a, %b), %a)
    }
    def @main(%x: Tensor[(2,), float32], %y: Tensor[(3, 1), float32]) { @f(%x, %y) }
    """
    assert result(text) == "Tensor[(3, 2), bool]"


def test_attributes_are_those_of_the_operator() -> None:
    text = """
    def @f[A, B](%g: fn (A) -> B, %a: A) -> B where sum(A, B, axis=[1], keepdims=True) { %g(%a) }
    def @main(%x: Tensor[(2, 3), float32]) {
      @f(fn (%v: Tensor[(2, 3), float32]) { sum(%v, axis=[1], keepdims=True) }, %x)
    }
    """
    assert result(text) == "Tensor[(2, 1), float32]"


def test_a_constraint_of_a_caller_is_enough_for_its_callee() -> None:
    text = (
        PLUS
        + """
    def @twice[A, B, C](%a: A, %b: B) -> C where add(A, B, C) { @plus(%a, %b) }
    def @main(%x: Tensor[(3, 1), float32]) { @twice(%x, 1f) }
    """
    )
    assert result(text) == "Tensor[(3, 1), float32]"


def test_a_local_function_may_have_constraints() -> None:
    text = """
    def @main(%x: Tensor[(3, 1), float32]) {
      let %plus = fn [A, B, C](%a: A, %b: B) -> C where add(A, B, C) { add(%a, %b) };
      (%plus(%x, 1f), %plus(1, 2))
    }
    """
    assert result(text) == "(Tensor[(3, 1), float32], int32)"


def test_a_function_with_constraints_is_a_value() -> None:
    text = (
        PLUS
        + """
    def @apply(%f: fn (int32, int32) -> int32) { %f(1, 2) }
    def @main() { @apply(@plus) }
    """
    )
    assert result(text) == "int32"


def test_a_function_that_breaks_the_constraint_is_no_such_value() -> None:
    text = (
        PLUS
        + """
    def @apply(%f: fn (int32, int32) -> float32) { %f(1, 2) }
    def @main() { @apply(@plus) }
    """
    )
    assert [d.code for d in errors(text)] == ["type-mismatch"]


def test_a_constraint_that_fails_names_the_types() -> None:
    main = "def @main(%x: Tensor[(3, 2), int32], %y: Tensor[(4,), int32]) { @plus(%x, %y) }"
    (found,) = errors(PLUS + main)
    assert found.code == "shape-mismatch"
    assert found.message.startswith("`@plus` requires `add(A, B, C)`")
    assert found.label == "A: Tensor[(3, 2), int32], B: Tensor[(4), int32]"
    assert found.notes[0].span is not None


def test_a_result_that_differs_names_both_types() -> None:
    main = "def @main(%x: int32) { @plus[int32, int32, float32](%x, %x) }"
    (found,) = errors(PLUS + main)
    assert "`int32`, not `float32`" in found.message


@pytest.mark.parametrize(
    ("constraint", "code"),
    [
        ("addd(A, B, C)", "unknown-operator"),
        ("add(A, B)", "wrong-arity"),
        ("add(A, B, C, A)", "wrong-arity"),
        ("sum(A, B, axes=[1])", "bad-attribute"),
        ("add(A, B, List[A, B])", "wrong-kind"),
    ],
)
def test_constraints_that_mean_nothing_are_refused(constraint, code) -> None:
    text = f"def @f[A, B, C](%a: A, %b: B, %c: C) -> C where {constraint} {{ %c }}"
    assert [d.code for d in errors(text)] == [code]


def test_what_is_not_promised_is_refused_inside() -> None:
    text = "def @f[A, B, C](%a: A, %b: B) -> C where add(A, B, C) { add(%b, %a) }"
    assert [d.code for d in errors(text)] == ["type-mismatch"]


def test_the_names_of_the_originals_relations_are_known() -> None:
    text = """
    def @f[A, B, C](%g: fn (A, B) -> C, %a: A, %b: B) -> C where Broadcast(A, B, C) { %g(%a, %b) }
    def @main(%x: Tensor[(3, 1), float32], %y: Tensor[(4,), float32]) {
      @f(fn (%a, %b) { multiply(%a, %b) }, %x, %y)
    }
    """
    assert result(text) == "Tensor[(3, 4), float32]"


def test_text_comes_back_as_the_same_program() -> None:
    text = (
        PLUS
        + """
    def @f(
      %g: fn [A, B](A) -> B where sum(A, B, axis=[0, 1]), cast(A, B, dtype="int8"), %x: int32
    ) { %x }
    """
    )
    module = relayvm.parse(text)
    again = relayvm.parse(print_module(module))
    assert structural_equal(module, again)
    assert print_module(again) == print_module(module)
    assert 'where sum(A, B, axis=[0, 1]), cast(A, B, dtype="int8")' in print_module(module)


@pytest.mark.parametrize("other", ["multiply(A, B, C)", "add(B, A, C)", "add(A, A, C)"])
def test_constraints_take_part_in_equality(other) -> None:
    a, b = (f"fn [A, B, C](A, B) -> C where {c}" for c in ("add(A, B, C)", other))
    one, two = (relayvm.parse(f"def @f(%g: {t}) {{ 1 }}") for t in (a, b))
    assert not structural_equal(one, two)
    assert structural_hash(one) != structural_hash(two)


def test_a_function_type_shows_its_constraints() -> None:
    assert type_text(PLUS, "plus") == "fn [A, B, C](A, B) -> C where add(A, B, C)"


def test_types_built_in_python_print_and_have_a_kind() -> None:
    a, b = TypeVar("A"), TypeVar("B")
    relation = TypeRelation("negative", (a, b))
    assert relation.num_inputs == 1
    assert check_kind(relation) is Kind.CONSTRAINT
    whole = FuncType((a,), b, (a, b), (relation,))
    assert check_kind(whole) is Kind.TYPE
    assert print_type(whole) == "fn [A, B](A) -> B where negative(A, B)"


def test_passes_keep_constraints_and_programs_with_them_run() -> None:
    text = (
        PLUS
        + """
    def @main(%x: Tensor[(3, 1), float32], %y: Tensor[(4,), float32]) {
      let %f = fn [A, B, C](%a: A, %b: B) -> C where multiply(A, B, C) { multiply(%a, %b) };
      (@plus(%x, %y), @plus(1, 2), %f(%x, %y), @plus(%y, %y))
    }
    """
    )
    x, y = np.ones((3, 1), "float32"), np.arange(4, dtype="float32")
    for level in range(4):
        vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
        found = vm.run(x, y)
        np.testing.assert_array_equal(found[0], x + y)
        assert int(found[1]) == 3
        np.testing.assert_array_equal(found[2], x * y)
        np.testing.assert_array_equal(found[3], y + y)


def calls_made(text: str) -> int:
    """Return how many functions of Python the inference of a program calls."""
    count = 0

    def note(frame: object, event: str, given: object) -> None:
        nonlocal count
        count += event == "call"

    module = relayvm.parse(text)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        infer_types(module)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("step", [1, -1])
def test_each_constraint_of_a_use_is_solved_once(step: int) -> None:
    def program(size: int) -> str:
        names = ", ".join(f"A{i}" for i in range(size))
        rows = [f"add(A{i}, A{i}, A{i + 1})" for i in range(size - 1)][::step]
        uses = ", ".join(["@f(%x)"] * size)
        return (
            f"def @f[{names}](%x: A0) -> A0 where {', '.join(rows)} {{ %x }} "
            f"def @main(%x: int32) {{ ({uses}) }}"
        )

    # As many constraints as uses: with each twice as many there are four times as many to solve.
    assert calls_made(program(24)) < 5 * calls_made(program(12))


def test_a_constraint_that_is_written_again_is_not_solved_again() -> None:
    def program(size: int) -> str:
        rows, uses = ", ".join(["add(A, A, A)"] * size), ", ".join(["@f(%x)"] * size)
        return f"def @f[A](%x: A) -> A where {rows} {{ %x }} def @main(%x: int32) {{ ({uses}) }}"

    assert calls_made(program(48)) < 3 * calls_made(program(24))
