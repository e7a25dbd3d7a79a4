"""Nesting of every kind is read, typed, hashed, printed, compiled, saved, loaded and run in time
that grows with the depth: 10,000 deep, without recursion limits.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import relayvm
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.printer import print_module
from relayvm.ir.verify import verify_module

pytestmark = pytest.mark.slow

Make = Callable[[int], str]
# What grows stands in a function that the host does not see: it holds types of 256 levels.
UNSEEN = "def @main(%x: int32) -> int32 { let %y = @f(%x); 3 } def @f(%x: int32) { <> }"
LIST = "def @main(%x: int32) -> int32 { @f(Cons(%x, Cons(%x, Nil))) }"


def nested(
    before: str, inside: str, after: str, around: str = "def @main(%x: int32) -> int32 { <> }"
) -> Make:
    """Return what makes the program of a depth: `#` is the number of the level, from outside."""

    def make(depth: int) -> str:
        left = "".join(before.replace("#+1", str(i + 1)).replace("#", str(i)) for i in range(depth))
        right = "".join(after.replace("#", str(i)) for i in reversed(range(depth)))
        return around.replace("<>", f"{left}{inside.replace('#', str(depth))}{right}")

    return make


def tuple_given(depth: int) -> str:
    kind = "(int32, " * depth + "int32" + ")" * depth
    value = "(1, " * depth + "%x" + ")" * depth
    return f"""
    def @f(%t: {kind}) -> int32 {{ %t{".1" * depth} }}
    def @main(%x: int32) -> int32 {{ @f({value}) }}"""


def tuple_matched(depth: int) -> str:
    kind = "(int32, " * depth + "int32" + ")" * depth
    pattern, value = "(_, " * depth + "%y" + ")" * depth, "(1, " * depth + "%x" + ")" * depth
    return f"""
    def @f(%t: {kind}) -> int32 {{ match (%t) {{ {pattern} => %y }} }}
    def @main(%x: int32) -> int32 {{ @f({value}) }}"""


def option_matched(depth: int) -> str:
    kind = "Option[" * depth + "int32" + "]" * depth
    pattern, value = "Some(" * depth + "%y" + ")" * depth, "Some(" * depth + "%x" + ")" * depth
    return f"""
    def @f(%t: {kind}) -> int32 {{ match (%t) {{ {pattern} => %y, _ => 0 }} }}
    def @main(%x: int32) -> int32 {{ @f({value}) }}"""


def curried_called(depth: int) -> str:
    made = "".join(f"fn (%y{i}: int32) {{ " for i in range(depth)) + "%x" + "}" * depth
    return f"def @main(%x: int32) -> int32 {{ let %f = {made}; %f{'(1)' * depth} }}"


def of_type(before: str, after: str) -> Make:
    def make(depth: int) -> str:
        kind = before * depth + "int32" + after * depth
        return f"""
        def @f(%t: {kind}) -> {kind} {{ let %u: {kind} = %t; %u }}
        def @main(%x: int32) -> int32 {{ %x }}"""

    return make


# Name: program of a depth, what it is given, what it returns there.
FAMILIES: dict[str, tuple[Make, Any, Callable[[int], Any]]] = {
    "calls": (nested("add(1, ", "%x", ")"), 3, lambda n: n + 3),
    "ifs as operands": (nested("negative(if (%x > 1) { ", "%x", " } else { 7 })"), 3, lambda n: 3),
    "ifs as operands of tensor operators": (
        nested(
            "tanh(if (%c) { ",
            "%y",
            " } else { %y })",
            """def @f(%c: bool, %y: Tensor[(3), float32]) -> Tensor[(3), float32] { <> }
            def @main(%x: int32) -> int32 { let %z = @f(%x > 1, zeros(shape=[3])); %x }""",
        ),
        3,
        lambda n: 3,
    ),
    "ifs in branches": (nested("if (%x < #) { # } else { ", "%x", " }"), -1, lambda n: 0),
    "ifs in conditions": (nested("if (", "%x", " > 0) { 5 } else { 7 }"), 3, lambda n: 5),
    "ifs as values": (
        nested("let %v# = if (%x == #) { # } else { ", "%x", " }; add(%v#, 1)"),
        -1,
        lambda n: n - 1,
    ),
    "matches in clauses": (
        nested(
            "match (%l#) { Nil => #, Cons(%h#, %l#+1) => ",
            "-1",
            " }",
            f"{LIST} def @f(%l0: List[int32]) -> int32 {{ <> }}",
        ),
        3,
        lambda n: 2,
    ),
    "matches of matches": (
        nested(
            "match (",
            "Cons(%x, Nil)",
            ") { Nil => Nil, Cons(%h, %t) => Cons(%h + 1, %t) }",
            "def @main(%x: int32) -> int32 { @length(<>) }",
        ),
        3,
        lambda n: 1,
    ),
    "lets in lets": (nested("let %v# = { ", "%x", " }; add(%v#, 1)"), 3, lambda n: n + 3),
    "tuples": (nested("(1, ", "%x", ")", UNSEEN), 3, lambda n: 3),
    "projections of a parameter": (tuple_given, 3, lambda n: 3),
    "patterns of tuples": (tuple_matched, 3, lambda n: 3),
    "patterns of data": (option_matched, 3, lambda n: 3),
    "patterns of lists": (
        nested(
            "Cons(_, ",
            "_",
            ")",
            f"{LIST} def @f(%l: List[int32]) {{ match (%l) {{ <> => 1, _ => 0 }} }}",
        ),
        3,
        lambda n: 0,
    ),
    "closures": (nested("fn (%y#: int32) { ", "%x", " }", UNSEEN), 3, lambda n: 3),
    "calls of calls": (curried_called, 3, lambda n: 3),
    "functions in functions": (
        nested("let %f# = fn (%y#: int32) -> int32 { ", "%x", " }; %f#(#)"),
        3,
        lambda n: 3,
    ),
    "recursive functions in functions": (
        nested(
            "let %f# = fn (%y#: int32) -> int32 { if (%y# > 0) { %f#(%y# - 1) } else { ",
            "%x",
            " } }; %f#(1)",
        ),
        3,
        lambda n: 3,
    ),
    "calls of functions that stand there": (
        nested("(fn (%y#: int32) -> int32 { ", "%x", " })(1)"),
        3,
        lambda n: 3,
    ),
    "calls of globals": (
        nested(
            "@f(",
            "%x",
            ")",
            """def @f(%x: int32) -> int32 { if (%x < 0) { @f(0) } else { %x + 1 } }
            def @main(%x: int32) -> int32 { <> }""",
        ),
        3,
        lambda n: n + 3,
    ),
    "polymorphic calls": (
        nested("@pair(", "%x", ")", UNSEEN + "def @pair[A](%x: A) -> (A, int32) { (%x, 1) }"),
        3,
        lambda n: 3,
    ),
    "references": (nested("ref(", "%x", ")", UNSEEN), 3, lambda n: 3),
    "references that are read": (nested("ref_read(ref(", "%x", "))"), 3, lambda n: 3),
    "list literals": (
        nested("Cons(%x, ", "Nil", ")", "def @main(%x: int32) -> int32 { @length(<>) }"),
        3,
        lambda n: n,
    ),
    "data in data": (nested("Some(", "%x", ")", UNSEEN), 3, lambda n: 3),
    "sequences": (nested("(%x; ", "%x", ")"), 3, lambda n: 3),
    "types of tuples": (of_type("(", ",)"), 3, lambda n: 3),
    "types of references": (of_type("ref(", ")"), 3, lambda n: 3),
    "types of functions": (of_type("fn (", ") -> int32"), 3, lambda n: 3),
    "types of functions of functions": (of_type("fn (int32) -> ", ""), 3, lambda n: 3),
    "types of data": (of_type("List[", "]"), 3, lambda n: 3),
    "types of polymorphic functions": (of_type("fn [A](A, ", ") -> A"), 3, lambda n: 3),
}

# What each program goes through, for the measurement; the module is parsed before.
STAGES: dict[str, Callable[[relayvm.Module], object]] = {
    "infer": infer_types,
    "verify": lambda module: verify_module(infer_types(module), typed=True),
    "print": print_module,
    "hash": structural_hash,
    "compile without optimising": lambda module: relayvm.compile(
        module, opt_level=0, entries=["main"]
    ),
    "compile": lambda module: relayvm.compile(module, entries=["main"]),
}


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    begin = time.process_time()
    work()
    spent = time.process_time() - begin
    gc.enable()
    return spent


@pytest.mark.parametrize("name", FAMILIES)
def test_four_times_as_deep_takes_about_four_times_as_long(name: str) -> None:
    make = FAMILIES[name][0]
    texts = [make(60), make(240)]
    modules = [relayvm.parse(text) for text in texts]
    works = {"parse": [partial(relayvm.parse, text) for text in texts]}
    works |= {stage: [partial(work, m) for m in modules] for stage, work in STAGES.items()}
    for stage, (small, large) in works.items():
        # What is quadratic takes 16 times as long. What takes next to no time is not measured, and
        # the best of some tries counts: other work disturbs single ones.
        assert any(seconds(large) < 9 * max(seconds(small), 0.005) for _ in range(4)), stage


# Those that compile in few seconds; the others differ in nothing that the test above does not see.
DEEPEST = [
    "calls",
    "ifs as operands of tensor operators",
    "tuples",
    "patterns of tuples",
    "patterns of lists",
    "polymorphic calls",
    "list literals",
    "data in data",
    "types of tuples",
    "types of polymorphic functions",
]


@pytest.mark.parametrize("name", DEEPEST)
def test_10_000_deep(name: str, tmp_path: Path) -> None:
    make, arg, result = FAMILIES[name]
    depth = 10_000
    module = relayvm.parse(make(depth))
    relayvm.compile(module, entries=["main"]).save(tmp_path / "deep.rvm")
    assert relayvm.VirtualMachine(relayvm.load(tmp_path / "deep.rvm")).run(arg) == result(depth)


@pytest.mark.parametrize("name", FAMILIES)
def test_1_000_deep(name: str) -> None:
    module = relayvm.parse(FAMILIES[name][0](1000))
    again = relayvm.parse(print_module(module))
    assert structural_equal(module, again)
    verify_module(infer_types(module), typed=True)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_deep_gives_its_result_without_optimising(name: str) -> None:
    make, arg, result = FAMILIES[name]
    exe = relayvm.compile(relayvm.parse(make(300)), opt_level=0, entries=["main"])
    assert relayvm.VirtualMachine(exe).run(arg) == result(300)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in DEEPEST])
def test_what_is_deep_gives_its_result(name: str) -> None:
    make, arg, result = FAMILIES[name]
    exe = relayvm.compile(relayvm.parse(make(300)), entries=["main"])
    assert relayvm.VirtualMachine(exe).run(arg) == result(300)
