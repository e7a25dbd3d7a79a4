"""All that runs programs takes the same arguments, and refuses the others in the same words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.relay.values import ADT, ConstructorValue, RefValue, tuple_object

TYPES = """#[version = "0.0.5"]
type Tree { Leaf(float32), Node(Tree, Tree), Empty }
type Rose[A] { Rose(A, List[Rose[A]]) }
def @sum_of(%t: Tree) -> float32 {
  match (%t) { Leaf(%x) => %x, Node(%l, %r) => @sum_of(%l) + 2f * @sum_of(%r), Empty => 100f }
}
def @trees(%l: List[Tree]) -> float32 {
  match (%l) { Nil => 0f, Cons(%h, %t) => @sum_of(%h) + 3f * @trees(%t) }
}
def @rose(%r: Rose[float32]) -> float32 {
  match (%r) {
    Rose(%x, %l) => %x + @foldl(fn (%s: float32, %q: Rose[float32]) { %s + 2f * @rose(%q) }, 0f, %l)
  }
}
"""
ENTRIES = {
    "tree": "def @main(%t: Tree) -> float32 { @sum_of(%t) }",
    "trees": "def @main(%l: List[Tree]) -> float32 { @trees(%l) }",
    "rose": "def @main(%r: Rose[float32]) -> float32 { @rose(%r) }",
    "pair": "def @main(%p: (float32, (float32, Tree))) -> float32 {"
    " %p.0 + 10f * (%p.1).0 + @sum_of((%p.1).1) }",
    "held": "def @main(%r: ref(Tree), %a: Array[float32]) -> float32 {"
    " @sum_of(ref_read(%r)) + array.get(%a, 1) }",
    "sized": "def @main[n](%x: Tensor[(n,), float32], %y: Tensor[(n,), float32]) { %x + %y }",
}
MODULES = {name: relay.fromtext(TYPES + text) for name, text in ENTRIES.items()}


def made(type_name: str, constructor: str, *fields: Any) -> ADT:
    module = MODULES["rose" if type_name == "Rose" else "trees"]
    tags = {c.name_hint: c.tag for c in module.get_type(type_name)[1:]}
    return ADT(tags[constructor], fields)


def valued(constructor: str, *fields: Any) -> ConstructorValue:
    found = next(c for c in MODULES["tree"].get_type("Tree")[1:] if c.name_hint == constructor)
    return ConstructorValue(found.tag, fields, found)


def leaf(value: Any) -> ADT:
    return made("Tree", "Leaf", np.float32(value))


EMPTY, NIL, ONE = made("Tree", "Empty"), made("List", "Nil"), np.float32(1)


@pytest.fixture(scope="module", params=["debug", "vm", "graph", "loaded", "evaluator", "python"])
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Any]:
    """Return what runs an entry in one of the ways that there are."""
    ready: dict[str, Callable[..., Any]] = {}

    def call(name: str, *args: Any) -> Any:
        if name not in ready:
            ready[name] = runner(request.param, name, tmp_path_factory.mktemp("files"))
        return ready[name](*args)

    return call


def runner(kind: str, name: str, folder: Path) -> Callable[..., Any]:
    module = MODULES[name]
    if kind == "loaded":
        relay.vm.compile(module, "llvm").export_library(str(folder / "program.rvm"))
        loaded = tvm.runtime.load_module(str(folder / "program.rvm"))
        machine = tvm.runtime.vm.VirtualMachine(loaded, tvm.cpu())
        return lambda *args: machine.invoke("main", *args)
    if kind == "python":
        return relay.testing.py_converter.run_as_python(module.get_global_var("main"), module)
    if kind == "evaluator":
        from relayvm.compiler.evaluate import Evaluator
        from relayvm.compiler.infer_types import infer_types
        from relayvm.relay.module import unwrap
        from relayvm.relay.values import to_argument

        evaluator = Evaluator(infer_types(unwrap(module)))
        return lambda *args: evaluator.call("main", [to_argument(arg) for arg in args])
    return relay.create_executor(kind, mod=module).evaluate()


ROSE = made("Rose", "Rose", np.float32(3), [])
TAKEN = {
    "a list of Python": ("trees", [leaf(2), EMPTY, leaf(5)], 2 + 3 * (100 + 3 * 5)),
    "a tuple of Python": ("trees", (leaf(2), leaf(5)), 2 + 3 * 5),
    "an empty list": ("trees", [], 0),
    "a list as the rest of one": ("trees", made("List", "Cons", leaf(2), [EMPTY]), 302),
    "lists in data": ("rose", made("Rose", "Rose", 1, [ROSE, made("Rose", "Rose", 2.0, NIL)]), 11),
    "constructors with their names": ("tree", valued("Node", leaf(2), valued("Empty")), 202),
    "a tuple by its tag": ("pair", ADT(0, [1, tuple_object([2, leaf(5)])]), 26),
    "a tuple of numbers": ("pair", (1, (2.0, EMPTY)), 121),
    "a reference and an array": ("held", [RefValue(leaf(4)), [1, np.float32(2)]], 6),
    "what a reference holds": ("held", [leaf(4), (1, 2)], 6),
}


@pytest.mark.parametrize("case", TAKEN)
def test_a_value_is_taken_in_every_way(run: Callable[..., Any], case: str) -> None:
    name, given, wanted = TAKEN[case]
    args = given if name == "held" else [given]
    assert np.asarray(run(name, *args)) == wanted


PAIR = "is `(float32, (float32, Tree))`, but"
TREE = "is `Tree`, but"
REFUSED = {
    "the dtype of a field": (
        "tree",
        [made("Tree", "Leaf", np.int32(1))],
        "field 0 of `Leaf` in `t` of `main` is `float32`, but `int32` was given",
    ),
    "the rank of a field": (
        "tree",
        [made("Tree", "Node", EMPTY, made("Tree", "Leaf", np.ones(3, np.float32)))],
        "field 0 of `Leaf` in field 1 of `Node` in `t` of `main` is `float32`, but "
        "`Tensor[(3), float32]` was given",
    ),
    "an item": ("trees", [[leaf(1), ONE]], f"item 1 of `l` of `main` {TREE} `float32` was given"),
    "another data type": (
        "trees",
        [[NIL]],
        f"item 0 of `l` of `main` {TREE} an ADT of tag {NIL.tag} with 0 fields was given",
    ),
    "a tuple for data": ("tree", [(ONE,)], f"`t` of `main` {TREE} `(float32,)` was given"),
    "none": ("tree", [None], f"`t` of `main` {TREE} `Tensor[(0), float32]` was given"),
    "a number": ("tree", [1.0], f"`t` of `main` {TREE} the number 1.0 was given"),
    "a text": ("tree", ["x"], f"`t` of `main` {TREE} a value of Python type str was given"),
    "a tag that is not there": (
        "tree",
        [ADT(99, [])],
        f"`t` of `main` {TREE} an ADT of tag 99 with 0 fields was given",
    ),
    "too few fields": (
        "tree",
        [made("Tree", "Node", EMPTY)],
        f"`t` of `main` {TREE} an ADT of tag {made('Tree', 'Node').tag} with 1 field was given",
    ),
    "the tag of data for a tuple": (
        "pair",
        [ADT(5, [ONE, (ONE, EMPTY)])],
        f"`p` of `main` {PAIR} an ADT of tag 5 with 2 fields was given",
    ),
    "the tag of data inside": (
        "pair",
        [(ONE, ADT(1, [ONE, EMPTY]))],
        "field 1 of `p` of `main` is `(float32, Tree)`, but an ADT of tag 1 with 2 fields "
        "was given",
    ),
    "a field of a tuple": (
        "pair",
        [(ONE, (np.float64(2), EMPTY))],
        "field 0 of field 1 of `p` of `main` is `float32`, but `float64` was given",
    ),
    "too many fields of a tuple": (
        "pair",
        [(ONE, ONE, ONE)],
        f"`p` of `main` {PAIR} `(float32, float32, float32)` was given",
    ),
    "the content of a reference": (
        "held",
        [RefValue(made("Tree", "Leaf", np.int32(1))), [1, 2]],
        "field 0 of `Leaf` in the content of `r` of `main` is `float32`, but `int32` was given",
    ),
    "an item of an array": (
        "held",
        [EMPTY, [1, np.int32(2)]],
        "item 1 of `a` of `main` is `float32`, but `int32` was given",
    ),
    "sizes of one name": (
        "sized",
        [np.ones(2, np.float32), np.ones(3, np.float32)],
        "size `n` is 2 on axis 0 of `x` of `main` and 3 on axis 0 of `y` of `main`",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_value_is_refused_in_every_way(run: Callable[..., Any], case: str) -> None:
    name, args, message = REFUSED[case]
    with pytest.raises(RelayError) as failure:
        run(name, *args)
    assert (failure.value.code, failure.value.message) == ("wrong-argument", message)
