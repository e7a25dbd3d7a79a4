"""Programs of 100,000 nodes in a chain and of nesting 10,000 deep go through every walk."""

from __future__ import annotations

import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.printer import print_module
from relayvm.ir.verify import verify_module
from relayvm.ir.visit import free_vars, fresh_binders, post_order, rewrite
from tests.ir.programs import parse

DEEP = 10_000

NESTED = {
    "parentheses": ("(", "%x", ")"),
    "blocks": ("{", "%x", "}"),
    "tuples": ("(", "%x", ",)"),
    "projections": ("", "%x", ".0"),
    "curried calls": ("", "%x", "(1)"),
    "minus": ("- ", "%x", ""),
    "branches": ("if (%x) { %x } else { ", "%x", "}"),
    "conditions": ("if (", "%x", ") { %x } else { %x }"),
    "functions": ("fn (%y: int32) {", "%x", "}"),
    "matches": ("match (%x) { (%y, _) => ", "%x", "}"),
    "references": ("ref(", "%x", ")"),
    "nested lets": ("let %y = {", "%x", "}; %y"),
    "comments": ("/*", "", "*/ %x"),
    "additions": ("(1 + ", "%x", ")"),
    "sequences": ("(%x; ", "%x", ")"),
}
NESTED_TYPES = {
    "tuples": ("(", "int32", ",)"),
    "parentheses": ("(", "int32", ")"),
    "references": ("ref(", "int32", ")"),
    "functions": ("fn (", "int32", ") -> int32"),
    "results": ("fn (int32) -> ", "int32", ""),
    "generic functions": ("fn [A](A, ", "int32", ") -> A"),
    "data types": ("List[", "int32", "]"),
}
NESTED_PATTERNS = {"tuples": ("(_, ", "%y", ")"), "constructors": ("Cons(_, ", "%y", ")")}
NESTED_ATTRIBUTES = {
    "lists": ("[", "1", "]"),
    "tuples": ("(", "1", ",)"),
    "parentheses": ("(", "1", ")"),
    "dictionaries": ('{"a": ', "1", "}"),
}


def check_all_walks(text: str) -> None:
    module = parse(text)
    verify_module(module)
    main = module["main"]
    again = parse(print_module(module))
    assert structural_equal(module, again)
    assert structural_hash(module) == structural_hash(again)
    assert free_vars(main) == ()
    assert rewrite(main, lambda node: node) is main
    assert structural_equal(fresh_binders(main), main)


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTED)
def test_deep_nesting(name):
    check_all_walks(f"def @main(%x: int32) {{ {nest(NESTED[name])} }}")


def nest(parts: tuple[str, str, str], depth: int = DEEP) -> str:
    before, inside, after = parts
    return before * depth + inside + after * depth


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTED_TYPES)
def test_deep_types(name):
    type_ = nest(NESTED_TYPES[name])
    check_all_walks(f"""
        type Held {{ Hold({type_}) }}
        def @main[B](%x: {type_}, %y: B) -> {type_} {{ let %z: {type_} = @g[{type_}](%x); %z }}
        def @g[A](%x: A) -> A {{ %x }}""")


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTED_PATTERNS)
def test_deep_patterns(name):
    pattern = nest(NESTED_PATTERNS[name])
    check_all_walks(f"def @main(%x: List[int32]) {{ match? (%x) {{ {pattern} => %y }} }}")


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTED_ATTRIBUTES)
def test_deep_attributes(name):
    value = nest(NESTED_ATTRIBUTES[name])
    text = f'#[attrs(b={value})] def @main(a={value}) {{ @main(attrs_type_key="D", c={value}) }}'
    check_all_walks(text)
    first, second = parse(text)["main"].attrs, parse(text)["main"].attrs
    assert first == second and hash(first) == hash(second)


def test_attributes_nest_so_deep_and_no_deeper():
    with pytest.raises(RelayError) as raised:
        parse(f"def @main(a={'[' * 100_000}) {{ 1 }}")
    assert raised.value.code == "too-deep"


@pytest.mark.slow
def test_chain_of_lets():
    lets = "".join(f"let %v{i + 1} = add(%v{i}, 1);\n" for i in range(33_000))
    check_all_walks(f"def @main(%v0: int32) {{ {lets} %v33000 }}")


@pytest.mark.slow
def test_chain_of_calls():
    check_all_walks(f"def @main(%x: float32) {{ {'exp(' * 100_000}%x{')' * 100_000} }}")


@pytest.mark.slow
def test_chain_of_graph_bindings():
    lines = "".join(f"%{i + 1} = add(%{i}, %{i});\n" for i in range(50_000))
    module = parse(f"def @main(%x: int32) {{ %0 = negative(%x); {lines} %50000 }}")
    assert sum(1 for _ in post_order(module["main"])) == 50_000 + 5
    check_all_walks(print_module(module))
