"""However long what is wrong is, its message is short enough to be read."""

from __future__ import annotations

import re

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import (
    MAX_LINE_CHARACTERS,
    MAX_NOTES,
    MAX_TEXT_CHARACTERS,
    Diagnostic,
    Note,
    RelayError,
    Trap,
)
from relayvm.base.source import Source, Span

LONG = 20_000
NAME = "a" * LONG
TYPES = ", ".join(["int32"] * LONG)
DIMS = ", ".join(["1"] * LONG)
NUMBERS = ", ".join(["[1, 2]"] * LONG)
WRONG = {
    "variable": f"def @main() {{ %{NAME} }}",
    "function": f"def @main() {{ @{NAME}() }}",
    "operator": f"def @main() {{ {NAME}(1) }}",
    "type": f"def @main(%x: {NAME}) {{ 1 }}",
    "dim": f"def @main(%x: Tensor[({NAME}), int8]) {{ 1 }}",
    "dtype": f"def @main(%x: Tensor[(1), {NAME}]) {{ 1 }}",
    "constructor": f"def @main(%x: List[int32]) {{ match (%x) {{ {NAME}(_) => 1 }} }}",
    "kind": f"def @main[A: {NAME}]() {{ 1 }}",
    "attribute": f"def @main(%x: int32) {{ nn.relu(%x, {NAME}=1) }}",
    "two names": f"def @{NAME}() {{ 1 }} def @{NAME}() {{ 1 }}",
    "called": f"def @{NAME}(%x: int32) {{ 1 }} def @main() {{ @{NAME}(1f) }}",
    "value": f"def @main(%x: Tensor[(1), int8]) {{ sum(%x, axis=[{NUMBERS}]) }}",
    "string": f'def @main(%x: int32) {{ cast(%x, dtype="{NAME}") }}',
    "number": f"def @main() {{ {'9' * LONG} }}",
    "no number": f"def @main() {{ 1{NAME} }}",
    "tuple": f"def @main(%x: ({TYPES})) {{ %x + 1 }}",
    "rank": f"def @main(%x: Tensor[({DIMS}), int8]) {{ %x + %x }}",
    "operands": f"def @main(%x: Tensor[({DIMS}), int8]) {{ %x + Nil }}",
    "function type": f"def @main(%x: fn ({TYPES}) -> int32) {{ %x + 1 }}",
    "metadata": f"def @main() {{ meta[{NAME}][0] }}",
    "section": f"def @main() {{ 1 }}\n#[metadata]\n{NAME}",
    "version": f'#[version = "{NAME}"]',
    "character": "$" * LONG,
    "many errors": "".join(f"def @f{i}() {{ 1 + 1i8 + {NAME[:500]} }}\n" for i in range(300)),
    "constraint": f"def @main[A](%x: A) -> A where {NAME}(A, A) {{ %x }}",
    "cases": "type T {" + ", ".join(f"{NAME[:900]}{i}" for i in range(100)) + "}"
    "def @main(%x: T) { match (%x) {} }",
}


def is_short(error: RelayError) -> bool:
    """Tell whether a person could read every diagnostic, and all of them at once."""
    texts = [d.render() for d in error.diagnostics]
    lines = re.findall(r"(?m)^ \d+ \| .*", "\n".join(texts))
    return (
        max(map(len, texts)) < 8_000
        and max(map(len, lines), default=0) < MAX_LINE_CHARACTERS + 20
        and len(str(error)) < MAX_TEXT_CHARACTERS + 8_000
    )


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_told_in_short(kind):
    with pytest.raises(RelayError) as caught:
        relayvm.compile(relayvm.parse(WRONG[kind]), opt_level=0)
    assert is_short(caught.value)


def test_a_long_name_of_a_source_and_many_long_notes_are_cut():
    span = Span(Source(NAME, NAME), LONG // 2, LONG)
    notes = tuple(Note(f"{i} {NAME}") for i in range(100))
    text = Diagnostic("syntax", NAME, span, notes=notes, help=NAME).render()
    assert len(text) < (MAX_NOTES + 4) * 2_100
    assert "92 more notes" in text


def test_many_long_diagnostics_are_counted():
    error = RelayError([Diagnostic("syntax", f"{i} {NAME}") for i in range(100)])
    assert len(error.diagnostics) == 100
    assert str(error).endswith("... and 76 more")


def test_wrong_arguments_and_traps_of_deep_calls_are_told_in_short():
    text = f"def @{NAME}(%n: int32) -> int32 {{ 1 + @{NAME}(%n + 1) }} "
    text += f"def @main(%n: int32) {{ @{NAME}(%n) }} def @f(%{NAME}: (int32, int32)) {{ 1 }}"
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), entries=["main", "f"]))
    with pytest.raises(RelayError) as caught:
        machine.invoke("f", NAME)
    assert is_short(caught.value)
    with pytest.raises(RelayError) as caught:
        machine.invoke("f", (np.zeros((1,) * 30, np.int8), 1))
    assert is_short(caught.value)
    with pytest.raises(Trap) as trapped:
        machine.run(np.int32(0))
    assert len(str(trapped.value)) < 60_000
