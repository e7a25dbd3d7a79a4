"""Types that recur in a text and are long have a name in it: what grows from node to node is
written, read, compared and hashed in a time that grows with the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import DimVar, symbol
from relayvm.base.dtypes import FLOAT32, INT32
from relayvm.base.source import Source, Span
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.build import function
from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.expr import Constructor, Tuple, Var
from relayvm.ir.json.decode import load_json
from relayvm.ir.json.encode import save_json
from relayvm.ir.module import Module, TypeData
from relayvm.ir.parser import parse_expr, parse_type
from relayvm.ir.printer import print_expr, print_module, print_type
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    ShapeArg,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
    scalar_type,
)
from relayvm.ir.verify import verify_module
from relayvm.ir.visit import TypeVariables
from relayvm.ops import OPS
from tests.ir.programs import parse


def chain(count: int, line: str, start: str = "%x") -> str:
    lines = "".join(line.format(i + 1, i) for i in range(count))
    return f"def @main(%v0: int32, %c: bool) {{ let %x = 0; {lines} %v{count} }}"


def nest(count: int, before: str, after: str, head: str = "@main(%x: int32, %c: bool)") -> str:
    return f"def {head} {{ {before * count} %x {after * count} }}"


GROWING = {
    "functions": lambda n: nest(n, "fn (%y: int32) {", "}"),
    "functions in lets": lambda n: nest(n, "fn (%y: int32) { let %g = ", "; %g }"),
    "functions in branches": lambda n: (
        nest(n, "fn (%y: int32) { if (%c) {", "} else { @loop() } }")
        + "def @loop[A]() -> A { @loop() }"
    ),
    "functions in matches": lambda n: nest(n, "fn (%y: int32) { match (%c) { _ => ", "} }"),
    "functions of parameters": lambda n: nest(
        n, "fn (%y: Tensor[(n), float32]) {", "}", "@main[A, n](%x: A, %t: Tensor[(n), float32])"
    ),
    "curried calls": lambda n: (
        f"def @main(%x: int32) {{ let %f = {'fn (%y: int32) {' * n} %x {'}' * n}; %f{'(1)' * n} }}"
    ),
    "lists": lambda n: nest(n, "Cons(", ", Nil)"),
    "references": lambda n: chain(n, "let %v{} = ref(%v{});"),
    "pairs": lambda n: chain(n, "let %v{} = (%v{}, %x);"),
    "pairs of the same": lambda n: chain(n, "let %v{0} = (%v{1}, %v{1});"),
    "closures": lambda n: chain(n, "let %v{} = fn (%y: int32) {{ %v{} }};"),
    "matches": lambda n: chain(n, "let %v{} = match ((%v{}, %x)) {{ (%a, %b) => ((%a, %b),) }};"),
    "branches": lambda n: chain(
        n,
        "let %v{0} = if (%c) {{ fn () {{ %v{1} }} }} else {{ fn () {{ %v{1} }} }};",
    ),
    "globals": lambda n: (
        "def @f0(%x: int32) { %x }"
        + "".join(f"def @f{i + 1}(%x: int32) {{ (@f{i}(%x),) }}" for i in range(n))
    ),
}


def check_round_trip(module: Module) -> str:
    text = print_module(module)
    again = parse(text)
    verify_module(again)
    assert structural_equal(module, again)
    assert structural_hash(module) == structural_hash(again)
    assert print_module(again) == text
    return text


@pytest.mark.parametrize("name", GROWING)
def test_text_of_growing_types_is_linear_and_read_back_equal(name):
    lengths = []
    for count in (150, 300):
        module = infer_types(parse(GROWING[name](count)))
        lengths.append(len(check_round_trip(module)))
        shown = print_module(module, show_types=True)
        assert structural_equal(parse(shown), module)
        assert len(shown) < 3 * lengths[-1] + 60_000
        verify_module(module, typed=True)
        assert structural_equal(load_json(save_json(module), OPS), module)
    assert lengths[1] < 2.3 * lengths[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ("functions", "pairs of the same"))
def test_types_grow_ten_thousand_levels_deep(name):
    module = infer_types(parse(GROWING[name](10_000)))
    text = check_round_trip(module)
    assert len(text) < 4_000_000


def deep(start: Type, count: int = 60) -> Type:
    for _ in range(count):
        start = TupleType((start, scalar_type(INT32)))
    return start


def test_short_types_are_written_in_place():
    text = "def @main(%x: (int32, bool), %y: (int32, bool)) -> (int32, bool) {\n  %x\n}\n"
    assert print_module(parse(text)) == text


def test_long_type_that_stands_once_is_written_in_place():
    module = Module({"main": function([Var("x", deep(scalar_type(INT32)))], Var("y"))})
    assert "type" not in print_module(module)


def test_names_depend_on_structure_and_not_on_objects():
    same = deep(scalar_type(INT32))
    x, y = Var("x", same), Var("y", same)
    one = Module({"main": function([x, y], Tuple((x, y)))})
    x, y = Var("x", deep(scalar_type(INT32))), Var("y", deep(scalar_type(INT32)))
    two = Module({"main": function([x, y], Tuple((x, y)))})
    assert structural_equal(one, two)
    assert structural_hash(one) == structural_hash(two)
    text = check_round_trip(one)
    assert text == print_module(two)
    assert text.startswith("type T = (((") and "def @main(%x: T, %y: T) {" in text


def test_type_of_parameters_gets_its_name_in_their_function():
    a, n = TypeVar("A"), DimVar("n")
    held = deep(TupleType((a, TensorType((symbol(n),), FLOAT32))))
    inner_a = TypeVar("A")
    inner = deep(inner_a)
    x, y, p, q = Var("x", held), Var("y", held), Var("p", inner), Var("q", inner)
    local = function([p, q], p, type_params=(inner_a,))
    module = Module({"main": function([x, y], Tuple((x, local)), type_params=(a, n))})
    text = check_round_trip(module)
    assert text.startswith("def @main[\n  A,\n  n,\n  T = (")
    assert "fn [A_1, T1 = (" in text


def test_parameter_of_a_function_type_is_not_named_outside_of_it():
    a = TypeVar("A")
    inside = deep(a)
    generic = FuncType((inside,), inside, (a,))
    x, y = Var("x", generic), Var("y", generic)
    p, q = Var("p", inside), Var("q", inside)
    local = function([p], function([q], p), type_params=(a,))
    check_round_trip(Module({"main": function([x, y], Tuple((x, y, local)))}))


def test_types_to_be_inferred_keep_their_places_apart():
    hole = deep(IncompleteType())
    x, y = Var("x", hole), Var("y", hole)
    text = check_round_trip(Module({"main": function([x, y], Tuple((x, y)))}))
    assert text.count("_") == 2


def test_equal_types_with_other_variables_are_told_apart():
    def program(first: bool) -> Module:
        a, b = TypeVar("A"), TypeVar("B")
        x, y = Var("x", deep(a)), Var("y", deep(a if first else b))
        return Module({"main": function([x, y], Tuple((x, y)), type_params=(a, b))})

    assert structural_equal(program(True), program(True))
    assert not structural_equal(program(True), program(False))
    assert structural_hash(program(True)) != structural_hash(program(False))


def test_function_types_are_equal_by_the_places_of_their_parameters():
    def generic(swap: bool) -> FuncType:
        a, b = TypeVar("A"), TypeVar("B")
        inner = FuncType((b,), TupleType((a, b)), (b,))
        return FuncType((a, inner), b if swap else a, (a, b) if swap else (a,))

    assert structural_equal(generic(False), generic(False))
    assert structural_hash(generic(False)) == structural_hash(generic(False))
    assert not structural_equal(generic(False), generic(True))


def test_people_may_name_types_too():
    text = """
        type State = (int32, Tensor[(2), float32]);
        def @main[A, Both = (A, State)](%b: Both, %s: State) -> Both { (%b.0, %s) }"""
    plain = """
        def @main[A](%b: (A, (int32, Tensor[(2), float32])), %s: (int32, Tensor[(2), float32]))
            -> (A, (int32, Tensor[(2), float32])) { (%b.0, %s) }"""
    assert structural_equal(parse(text), parse(plain))
    verify_module(infer_types(parse(text)), typed=True)


def test_expression_text_names_its_types():
    module = infer_types(parse(GROWING["pairs"](200)))
    body = module["main"].body
    text = print_expr(body)
    assert text.startswith("type T = ")
    again = parse_expr(text, OPS)
    assert structural_equal(body, again, map_free_vars=True)
    assert print_expr(again) == text


@pytest.mark.parametrize(
    "text",
    [
        "type T = int32 def @main(%x: T) { %x }",
        "type T = ",
        "type T",
        "type",
        "type T = (T, int32); def @main(%x: T) { %x }",
        "def @main[T = n](%x: T) { %x }",
        "def @main(%x: T) { %x } type T = int32;",
        "type T = int32; def @main(%x: T[int32]) { %x }",
        "type T = int32; def @main(%x: Tensor[(T), int32]) { %x }",
        "def @main(%x: fn [T = int32](T) -> T, %y: T) { %x }",
        "def @main(%x: fn [T = A, A](T) -> T) { %x }",
        "def @main(%x: fn [A, A = int32](A) -> A) { %x }",
        "type D[T = int32] { C(T) } def @main(%x: T) { %x }",
        "type D[T = (D, T)] { C(T) }",
        "type D[A, A = int32] { C(A) }",
        "def @f[T = int32](%x: T) { %x } def @main(%x: T) { %x }",
    ],
)
def test_misplaced_names_of_types_are_rejected(text):
    with pytest.raises(RelayError):
        parse(text)


@pytest.mark.parametrize("size", ["n", "n*2 + 1", "min(n, 3)"])
def test_sizes_of_equal_names_in_two_functions_are_two(size):
    big = "(" + ", ".join([f"Tensor[(n, {size}), float32]"] * 60) + ")"
    beside = f"def @f[n](%x: {big}, %y: {big}) {{ %y }} def @main[n](%x: {big}) {{ @f(%x, %x) }}"
    inside = f"""def @main[n](%x: {big}, %y: {big}) {{
      let %f = fn [n](%z: {big}, %w: {big}) {{ %z }}; (%f(%y, %x), %x.0) }}"""
    for text in (beside, inside):
        module = infer_types(relayvm.parse(text))
        for show_types in (False, True):
            again = relayvm.parse(print_module(module, show_types=show_types))
            assert structural_equal(infer_types(again), module)


def doubled(type_: Type, form: Callable[[Type], Type]) -> Type:
    for _ in range(100):
        type_ = form(type_)
    return type_


@pytest.mark.parametrize(
    "form",
    [
        lambda t: TupleType((t, t)),
        lambda t: RefType(TupleType((t, t))),
        lambda t: FuncType((t,), t),
    ],
)
def test_a_type_alone_has_names_where_it_would_fill_any_memory(
    form: Callable[[Type], Type],
) -> None:
    whole = doubled(scalar_type(INT32), form)
    text = print_type(whole)
    assert len(text) < 5000
    assert parse_type(text) == whole
    assert len(repr(whole)) < 11_000


def test_what_of_a_type_can_have_no_name_ends_in_dots() -> None:
    hole = IncompleteType()
    inside = doubled(hole, lambda t: TupleType((t, t)))
    assert print_type(FuncType((inside,), hole)).endswith("...")


def test_names_of_parts_differ_from_all_others() -> None:
    free, data = TypeVar("T"), TypeCall(GlobalTypeVar("T1"), ())
    whole = doubled(TupleType((free, data)), lambda t: TupleType((t, t)))
    text = print_type(whole)
    names = [line.split()[1] for line in text.splitlines() if line.startswith("type ")]
    assert "T1" not in names
    assert len(set(names)) == len(names)
    assert text.replace("(", " ").split()[3].rstrip(",") not in names


def test_what_a_type_shows_of_itself_is_what_makes_it() -> None:
    inner = TupleType((scalar_type(INT32),))
    shown = "TupleType(fields=(TensorType(shape=(), dtype=int32),))"
    assert repr(inner) == shown
    assert repr(RefType(inner)) == f"RefType(value={shown})"
    relation = TypeRelation("add", (inner,))
    assert repr(relation) == f"TypeRelation(name='add', args=({shown},), attrs=None)"


def test_a_program_with_such_a_type_is_not_printed() -> None:
    taken = Var("f", doubled(IncompleteType(), lambda t: TupleType((t, t))))
    place = Span(Source("here", "%f"), 0, 2)
    with pytest.raises(RelayError, match="too-large-type") as caught:
        print_expr(replace(function([taken], Tuple(())), span=place))
    assert caught.value.diagnostics[0].span == place


TWICE = "(#(%a), #(%a))"
POLYMORPHIC = {
    "local functions": lambda n: (
        "def @main(%x: int32) { let %f0 = fn [A](%a: A) { %a }; "
        + "".join(
            f"let %f{i + 1} = fn [A](%a: A) {{ {TWICE.replace('#', f'%f{i}')} }}; "
            for i in range(n)
        )
        + f"(%f{n}, %f{n}) }}"
    ),
    "global functions": lambda n: (
        "def @f0[A](%a: A) { %a } "
        + "".join(
            f"def @f{i + 1}[A](%a: A) {{ {TWICE.replace('#', f'@f{i}')} }} " for i in range(n)
        )
        + f"def @main(%x: int32) {{ (@f{n}, @f{n}) }}"
    ),
}


@pytest.mark.parametrize("name", POLYMORPHIC)
def test_polymorphic_types_that_double_are_no_longer_than_they_are_in_memory(name: str) -> None:
    lengths = []
    for count in (20, 40):
        module = infer_types(parse(POLYMORPHIC[name](count)))
        lengths.append(len(check_round_trip(module)))
        shown = print_module(module, show_types=True)
        assert structural_equal(parse(shown), module)
        assert len(shown) < 3 * lengths[-1]
    # There is a type of its own for each function and each before it.
    assert lengths[1] < 7 * lengths[0]


A, B, C, N = TypeVar("A"), TypeVar("B"), TypeVar("C"), DimVar("n")
VECTOR = TensorType((symbol(N),), FLOAT32)


def pairs(start: Type, count: int = 70) -> Type:
    for _ in range(count):
        start = TupleType((start, start))
    return start


def generic(type_: Type, *params: TypeVar | DimVar) -> FuncType:
    return FuncType((type_,), type_, params)


INNER = pairs(TupleType((A, B)))
WITHIN = {
    "alone": generic(pairs(A), A),
    "with sizes": generic(pairs(TupleType((A, VECTOR))), A, N),
    "sizes alone": generic(pairs(VECTOR), N),
    "in one another": generic(TupleType((pairs(A), generic(INNER, B), generic(INNER, B))), A),
    "side by side": TupleType((generic(pairs(A), A), generic(pairs(B), B), generic(pairs(A), A))),
    "same inside": generic(TupleType((pairs(A), generic(pairs(B), B), generic(pairs(A), A))), A),
    "one hidden": generic(TupleType((INNER, generic(INNER, A), generic(INNER, A, B))), A, B),
    "of functions": generic(pairs(generic(TupleType((A, C)), C)), A),
    "doubling functions": doubled(TupleType((A, B)), lambda t: generic(t, A)),
    "with other types": generic(TupleType((pairs(A), pairs(VECTOR), pairs(scalar_type(INT32)))), A),
    "with relations": FuncType((pairs(A),), A, (A,), (TypeRelation("add", (pairs(A), A, A)),)),
    "with holes": generic(TupleType((pairs(A), deep(IncompleteType(), 5), pairs(A))), A),
    "deep": generic(pairs(deep(A)), A),
}


@pytest.mark.parametrize("name", WITHIN)
def test_parts_of_function_types_have_names_within_them(name: str) -> None:
    kind = WITHIN[name]
    x, y, z = Var("x", kind), Var("y", TupleType((kind, kind))), Var("z", VECTOR)
    body = function([y], Tuple((x, y, z)), kind, type_params=(A,))
    module = Module({"main": function([x, z], body, kind, type_params=(N, B))})
    text = check_round_trip(module)
    assert len(text) < 60_000
    whole = print_type(kind)
    assert len(whole) < 20_000
    if not free_type_variables(kind):
        assert structural_equal(parse_type(whole), kind) or name == "with holes"


def free_type_variables(kind: Type) -> tuple[object, ...]:
    return TypeVariables()(kind)


@pytest.mark.parametrize("name", WITHIN)
def test_fields_of_constructors_name_their_types(name: str) -> None:
    kind = WITHIN[name]
    header = GlobalTypeVar("D")
    made = Constructor("C", (kind, pairs(TupleType((B, VECTOR))), kind), header, 0)
    beside = GlobalTypeVar("E")
    other = Constructor("P", (pairs(TypeCall(header, (A, B, ShapeArg(symbol(N))))),), beside, 0)
    types = {"E": TypeData(beside, (A, B, N), (other,)), "D": TypeData(header, (A, B, N), (made,))}
    text = check_round_trip(Module({}, types))
    assert len(text) < 60_000
    assert "type D[\n  A,\n  B,\n  n" in text or "type D[\n  A, B, n" in text


def test_people_may_name_types_in_types_too() -> None:
    text = """
        type D[A, T = (A, int32), S = fn [B, T1 = (T, B)](T1) -> T1] { C(T, S), E }
        def @main(%f: fn [A, T = (A, A)](T) -> D[T], %g: fn [T = int32](T) -> T) { %g(1) }"""
    plain = """
        type D[A] { C((A, int32), fn [B](((A, int32), B)) -> ((A, int32), B)), E }
        def @main(%f: fn [A]((A, A)) -> D[(A, A)], %g: fn (int32) -> int32) { %g(1) }"""
    assert structural_equal(parse(text), parse(plain))
    assert structural_hash(parse(text)) == structural_hash(parse(plain))
    verify_module(infer_types(parse(text)), typed=True)


def test_function_types_with_names_nest_to_any_depth() -> None:
    depth = 3000
    text = "fn [A, T = " * depth + "int32" + "](T) -> A" * depth
    plain = "fn [A](" * depth + "int32" + ") -> A" * depth
    assert structural_equal(parse_type(text), parse_type(plain))
