"""Random programs over arrays and references: what is changed in place is never seen by others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import relayvm
from relayvm.compiler.evaluate import Evaluator
from tests.compiler.programs_text import typed

# An operation, the array it works on, an index and a number; the array becomes the newest one.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["push", "set", "put", "keep", "take", "swap", "branch"]),
        st.integers(0, 9),
        st.integers(0, 3),
        st.integers(-9, 9),
    ),
    min_size=1,
    max_size=12,
)

HEAD = """
def @put(%a: Array[int32], %i: int32, %x: int32) -> Array[int32] {
  if (%i < array.length(%a)) { array.set(%a, %i, %x) } else { array.push(%a, %x) }
}
def @main(%a0: Array[int32]) {
  let %r = ref(%a0);
"""


class Program:
    """The text of a program, and what it gives, as lists of numbers."""

    def __init__(self, first: list[int]) -> None:
        self.arrays = [first]
        self.held = first
        self.lines: list[str] = []

    def add(self, what: str, source: int, index: int, number: int) -> None:
        """Add one step."""
        source %= len(self.arrays)
        old, new = f"%a{source}", f"%a{len(self.arrays)}"
        value = list(self.arrays[source])
        if what == "push":
            text, value = f"array.push({old}, {number})", [*value, number]
        elif what == "set":
            index %= len(value)
            text, value[index] = f"array.set({old}, {index}, {number})", number
        elif what == "put":
            text, value = f"@put({old}, {index}, {number})", put(value, index, number)
        elif what == "branch":
            text = f"if (array.length({old}) < {index}) {{ array.push({old}, {number}) }} "
            text += f"else {{ @put({old}, 0, {number}) }}"
            value = [*value, number] if len(value) < index else put(value, 0, number)
        elif what == "keep":
            self.lines.append(f"ref_write(%r, {old});")
            text, self.held = "ref_read(%r)", value
        elif what == "take":
            self.held = put(self.held, index, number)
            self.lines.append(f"ref_write(%r, @put(ref_read(%r), {index}, {number}));")
            text, value = "ref_read(%r)", self.held
        else:
            self.lines.append(f"let %old{new[2:]} = ref_read(%r);")
            self.lines.append(f"ref_write(%r, array.push({old}, {number}));")
            text, value, self.held = f"%old{new[2:]}", self.held, [*value, number]
        self.lines.append(f"let {new} = {text};")
        self.arrays.append(value)

    def text(self) -> str:
        """Return the program, whose result is every array."""
        body = "".join(f"  {line}\n" for line in self.lines)
        results = ", ".join(f"%a{k}" for k in range(len(self.arrays)))
        return f"{HEAD}{body}  ({results}, ref_read(%r))\n}}"


def put(value: list[int], index: int, number: int) -> list[int]:
    if index < len(value):
        return [*value[:index], number, *value[index + 1 :]]
    return [*value, number]


def numbers(results) -> list[list[int]]:
    return [[int(x) for x in array] for array in results]


@given(steps=STEPS, first=st.lists(st.integers(-9, 9), min_size=1, max_size=3))
def test_every_array_keeps_its_items(steps, first):
    program = Program(first)
    for step in steps:
        program.add(*step)
    wanted = [*program.arrays, program.held]
    text = program.text()
    assert numbers(Evaluator(typed(text)).call("main", [first])) == wanted
    for level in (0, 3):
        vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
        assert numbers(vm.run(first)) == wanted
