"""No step takes types apart that double with each definition: 2^100 words would never end."""

from __future__ import annotations

import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import dtype_of
from relayvm.compiler.analysis import variables
from relayvm.compiler.autodiff import first_order_gradient, gradient
from relayvm.compiler.infer_types import infer_types, needs_check
from relayvm.compiler.inference import unify
from relayvm.compiler.passes import PASSES, run_passes
from relayvm.compiler.to_python import to_python
from relayvm.compiler.transforms.size_casts import SizeCasts
from relayvm.ir.expr import Tuple, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ir.visit import post_order

LEVELS = 100


def chain(form: str, leaf: str = "int32") -> str:
    """Return the text of types T0, T1, ..., each of two of the one before."""
    first = f"type T0 = ({leaf}, {leaf});\n"
    return first + "".join(
        f"type T{i} = {form.replace('T', f'T{i - 1}')};\n" for i in range(1, LEVELS)
    )


def lets(first: str, step: str) -> str:
    """Return a `@main` of one let for each level; `#` in `step` is the variable before."""
    names = "".join(f"let %x{i + 1} = {step.replace('#', f'%x{i}')};\n" for i in range(LEVELS))
    return f"def @main(%x: int32) {{ let %x0 = {first};\n{names}1 }}"


LAST = f"T{LEVELS - 1}"
GENERIC = "[A, T0 = (A, A), " + ", ".join(f"T{i} = (T{i - 1}, T{i - 1})" for i in range(1, LEVELS))
VALUE = f"let %f = fn (%t: {LAST}) {{ @f(%t) }}; 1"
OWN = VALUE.replace("@f(%t)", "%t")
PROGRAMS = {
    "tuples": lets("%x", "(#, #)"),
    "references": lets("ref(%x)", "ref((#, #))"),
    "arrays": lets("%x", "array.push(array.new(1), (#, #))"),
    "lists": lets("%x", "Cons((#, #), Nil)"),
    "data": "type P[A] { P(A, A) }\n" + lets("P(%x, %x)", "P((#, #), (#, #))"),
    "closures": lets("fn (%a: int32) { %a }", "fn () { (#, #) }"),
    "calls": "def @d[A](%a: A) { (%a, %a) }\n" + lets("@d(%x)", "@d(#)"),
    "parameter": f"{chain('(T, T)')}def @main(%x: {LAST}) {{ 1 }}",
    "functions": f"{chain('fn (T) -> T')}def @main(%x: int32) {{ {OWN} }}",
    "sizes": f"{chain('(T, T)', 'Tensor[(?), float32]')}"
    f"def @f(%x: {LAST}) -> {LAST} {{ %x }} def @main(%x: int32) {{ {VALUE} }}",
    "generic": f"{chain('(T, T)').replace('T', 'I')}def @f{GENERIC}](%x: {LAST}) -> {LAST} {{ %x }}"
    f"def @main(%x: int32) {{ let %g = fn (%t: I{LEVELS - 1}) {{ @f(%t) }}; 1 }}",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_pass_ends_or_says_that_a_type_is_too_large(name: str) -> None:
    module = infer_types(relayvm.parse(PROGRAMS[name]))
    for step in PASSES:
        try:
            run_passes(module, [step], verify=True)
        except RelayError as failure:
            (found,) = failure.diagnostics
            assert (step, found.code) == ("defunctionalize", "too-large-type")
            assert found.span is not None


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_is_written_as_python(name: str) -> None:
    assert "def main" in to_python(infer_types(relayvm.parse(PROGRAMS[name])))


def test_python_that_checks_each_size_is_refused() -> None:
    types = GENERIC.replace("[A", "[n").replace("A", "Tensor[(n), float32]")
    text = f"def @main{types}](%x: {LAST}, %y: Tensor[(n), float32]) {{ %y }}"
    with pytest.raises(RelayError, match="too-large-type"):
        to_python(infer_types(relayvm.parse(text)))


def nested(size: int, levels: int, width: int) -> Type:
    """Return a type of tuples, each of `width` fields of the one inside."""
    kind: Type = TensorType((size,), dtype_of("float32"))
    for _ in range(levels):
        kind = TupleType((kind,) * width)
    return kind


def test_values_of_other_sizes_that_would_be_made_of_each_part_are_refused() -> None:
    value = Var("v", nested(3, LEVELS, 2))
    with pytest.raises(RelayError, match="too-large-type"):
        SizeCasts(Module({}), set()).run(value, nested(3, LEVELS, 2), nested(4, LEVELS, 2))


def test_values_of_other_sizes_are_made_anew_from_far_inside() -> None:
    casts, kind = SizeCasts(Module({}), set()), nested(3, 10_000, 1)
    value = Var("v", kind)
    assert isinstance(casts.run(value, kind, nested(4, 10_000, 1)), Tuple)
    assert casts.run(value, kind, nested(3, 10_000, 1)) is value


def test_gradients_of_each_part_are_refused() -> None:
    module = infer_types(relayvm.parse(PROGRAMS["parameter"].replace("int32", "float32")))
    for differentiate in (gradient, first_order_gradient):
        with pytest.raises(RelayError, match="too-large-type") as caught:
            differentiate(module.functions["main"], module)
        assert caught.value.diagnostics[0].span is not None


def test_what_a_program_mentions_is_found_part_by_part() -> None:
    main = infer_types(relayvm.parse(PROGRAMS["parameter"])).functions["main"]
    assert {d.name for d in variables.all_dtypes(main)} == {"int32"}
    assert variables.all_type_vars(main) == variables.bound_type_vars(main) == ()


def test_sizes_are_compared_part_by_part() -> None:
    def doubled(type_: Type) -> Type:
        for _ in range(LEVELS):
            type_ = TupleType((type_, type_))
        return type_

    main = infer_types(relayvm.parse("def @main(%x: Tensor[(3), int32]) { %x }")).functions["main"]
    kinds = [n.checked_type for n in post_order(main) if isinstance(n.checked_type, TensorType)]
    assert not needs_check(doubled(kinds[0]), doubled(TensorType((3,), kinds[0].dtype)))


def test_types_that_grow_without_end_are_told_from_large_ones() -> None:
    grows = "{ if (%n < 0) { 0 } else { @f(%n - 1, (%a, %a)) } }"
    start = "def @main(%x: int32) { fn () { @f(%x, 1) }() }"
    endless = f"def @f[A](%n: int32, %a: A) -> int32 {grows} {start}"
    with pytest.raises(RelayError, match="grow without end"):
        run_passes(relayvm.parse(endless), ["defunctionalize"])
    nested = "type Box[A] { Box(A) }\ndef @main(%x: int32) { let %b = " + "Box(" * 70 + "%x"
    with pytest.raises(RelayError, match="nests deeper than 64 levels"):
        run_passes(relayvm.parse(nested + ")" * 70 + "; fn () { %b }() ; 1 }"), ["defunctionalize"])


GROWING = {
    "local": lambda n: (
        "def @main(%x: int32) { let %f0 = fn [A](%a: A) { %a }; "
        + "".join(f"let %f{i} = fn [A](%a: A) {{ (%f{i - 1}(%a), %f{i - 1}(%a)) }}; " for i in n)
        + f"%f{n[-1]}(%x); 1 }}"
    ),
    "global": lambda n: (
        "def @f0[A](%a: A) { %a } "
        + "".join(f"def @f{i}[A](%a: A) {{ (@f{i - 1}(%a), @f{i - 1}(%a)) }} " for i in n)
        + f"def @main(%x: int32) {{ @f{n[-1]}(%x); 1 }}"
    ),
    "called at once": lambda n: (
        "def @f0[A](%a: A) { %a } "
        + "".join(
            f"def @f{i}[A](%a: A) {{ fn () {{ (@f{i - 1}(%a), @f{i - 1}(%a)) }}() }} " for i in n
        )
        + f"def @main(%x: int32) {{ @f{n[-1]}(%x); 1 }}"
    ),
}


@pytest.mark.parametrize("name", GROWING)
def test_polymorphic_functions_whose_results_double_are_inferred(name: str) -> None:
    infer_types(relayvm.parse(GROWING[name](range(1, LEVELS))))


SAME = "def @same[A](%x: A) -> A { %x }\n"


def test_a_type_of_too_many_parts_is_refused_before_it_is_taken_apart(monkeypatch):
    opened = []
    monkeypatch.setattr(unify, "fresh_dim", lambda *_: opened.append(1))
    leaf = "Tensor[(3), float32]"
    with pytest.raises(RelayError, match="too-large-type"):
        infer_types(
            relayvm.parse(f"{chain('(T, T)', leaf)}{SAME}def @main(%x: {LAST}) {{ @same(%x) }}")
        )
    assert not opened


def test_a_type_whose_parts_are_all_written_may_have_any_number(monkeypatch):
    monkeypatch.setattr(unify, "MOST_PARTS", 50)
    fields = ", ".join(f"(Tensor[({i}), float32], int8)" for i in range(100))
    main = f"def @main(%x: ({fields})) {{ (@same((%x, @same(%x))), @same(%x).99) }}"
    typed = infer_types(relayvm.parse(SAME + main))
    result = typed["main"].ret_type
    assert isinstance(result, TupleType)
    assert str(result.fields[1]).count("99") == 1
