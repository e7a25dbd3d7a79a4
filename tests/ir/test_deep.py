"""Programs of 100,000 nodes in a chain and of nesting 10,000 deep go through every walk."""

from __future__ import annotations

import pytest

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
    before, inside, after = NESTED[name]
    check_all_walks(f"def @main(%x: int32) {{ {before * DEEP}{inside}{after * DEEP} }}")


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
