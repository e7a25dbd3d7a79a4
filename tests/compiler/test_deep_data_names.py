"""Data types that nest deeply have short names: their texts would be quadratic in the depth."""

from __future__ import annotations

import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.vm.executable import Executable

MAKERS = {"option": ("Some(", ")"), "list": ("Cons(", ", Nil)"), "own": ("Box(", ")")}


def deep(maker: str, depth: int) -> str:
    """Return a program whose result is `depth` data values, each inside the next."""
    before, after = MAKERS[maker]
    value = f"{before * depth}%x{after * depth}"
    return f"type Box[A] {{ Box(A) }}\ndef @main(%x: int32) {{ {value} }}"


def characters(executable: Executable) -> int:
    """Return how much the names of data types and the texts of their fields take."""
    types = executable.manifest.types
    fields = [f for t in types for c in t.constructors for f in c.fields]
    return sum(len(t.name) for t in types) + sum(len(f.text) + len(f.name) for f in fields)


@pytest.mark.parametrize("maker", MAKERS)
def test_names_grow_with_the_depth_and_not_with_its_square(maker: str) -> None:
    sizes = [characters(relayvm.compile(relayvm.parse(deep(maker, d)))) for d in (300, 600, 900)]
    # The first levels have names in full.
    assert sizes[2] - sizes[1] == pytest.approx(sizes[1] - sizes[0], rel=0.1)


@pytest.mark.parametrize("maker", MAKERS)
def test_short_names_tell_the_types_apart(maker: str) -> None:
    executable = relayvm.compile(relayvm.parse(deep(maker, 400)))
    names = [t.name for t in executable.manifest.types]
    assert len(set(names)) == len(names) >= 400
    assert max(map(len, names)) <= 1000
    for name in names:
        assert executable.adt(name) is not None


@pytest.mark.parametrize("maker", MAKERS)
def test_values_of_types_with_short_names_come_and_go(maker: str) -> None:
    text = deep(maker, 400) + f"\ndef @back(%v: {_type(maker, 400)}) {{ %v }}"
    module = relayvm.parse(text)
    machine = relayvm.VirtualMachine(relayvm.compile(module))
    value = machine.run(7)
    again = machine.invoke("back", value)
    oracle = Evaluator(infer_types(module)).call("main", (7,))
    for _ in range(400):
        value, again, oracle = value.fields[0], again.fields[0], oracle.fields[0]
    assert int(value) == int(again) == int(oracle) == 7


def _type(maker: str, depth: int) -> str:
    name = {"option": "Option", "list": "List", "own": "Box"}[maker]
    return f"{name}[" * depth + "int32" + "]" * depth


@pytest.mark.parametrize("form", ["(#,)", "ref(#)"])
def test_results_nest_as_deep_as_the_host_says(form: str) -> None:
    before, after = form.split("#")
    for depth, fits in ((10_000, True), (10_001, False)):
        text = f"def @main(%x: int32) {{ {before * depth}%x{after * depth} }}"
        if fits:
            relayvm.compile(relayvm.parse(text))
            continue
        with pytest.raises(RelayError, match="nest deeper than 10000"):
            relayvm.compile(relayvm.parse(text))
