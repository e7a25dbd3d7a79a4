"""Cells that die in a match become the cells that are made there; shared ones are copied."""

from __future__ import annotations

from typing import Any

import pytest

import relayvm

LIST = """
def @make(%n: int32, %acc: List[int32]) -> List[int32] {
  if (%n == 0) { %acc } else { @make(%n - 1, Cons(%n, %acc)) }
}
def @up(%xs: List[int32]) -> List[int32] {
  match (%xs) { Nil => Nil, Cons(%h, %t) => Cons(%h + 1, @up(%t)) }
}
def @total(%xs: List[int32]) -> int32 {
  match (%xs) { Nil => 0, Cons(%h, %t) => %h + @total(%t) }
}
"""
ENGINES = ("interpreter", "jit")


def machine(text: str, engine: str, **options: Any) -> relayvm.VirtualMachine:
    exe = relayvm.compile(relayvm.parse(text), **options)
    return relayvm.VirtualMachine(exe, engine=engine)


def made(vm: relayvm.VirtualMachine, *args: Any) -> tuple[Any, int]:
    """Return the result of `main`, and the cells made anew by a call after the first."""
    vm.run(*args)
    before = vm.stats()["new_cells"]
    result = vm.run(*args)
    return result, vm.stats()["new_cells"] - before


def items(value: Any) -> list[int]:
    """Return the numbers in a list."""
    found = []
    while value.fields:
        found.append(int(value.fields[0]))
        value = value.fields[1]
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "mapped", ["@up(%xs)", "@map(fn (%x: int32) -> int32 { %x + 1 }, %xs)"], ids=["own", "library"]
)
def test_a_map_over_a_list_that_nobody_else_holds_makes_no_cells(engine: str, mapped: str) -> None:
    text = f"""{LIST}
    def @again(%k: int32, %xs: List[int32]) -> List[int32] {{
      if (%k == 0) {{ %xs }} else {{ @again(%k - 1, {mapped}) }}
    }}
    def @main(%n: int32, %k: int32) -> int32 {{ @total(@again(%k, @make(%n, Nil))) }}
    """
    vm = machine(text, engine)
    sums, cells = zip(*(made(vm, 1000, k) for k in (0, 1, 50)))
    assert [int(s) for s in sums] == [500500, 501500, 550500]
    closures = 0 if mapped.startswith("@up") else 3
    assert cells[1] - cells[0] <= closures
    assert cells[2] - cells[0] <= 50 * closures


@pytest.mark.parametrize("engine", ENGINES)
def test_a_list_that_somebody_holds_is_copied_and_stays(engine: str) -> None:
    text = f"""{LIST}
    def @main(%n: int32) -> (int32, int32, int32) {{
      let %xs = @make(%n, Nil);
      let %ys = @up(%xs);
      (@total(%ys), @total(@up(%ys)), @total(%xs))
    }}
    """
    (first, second, third), cells = made(machine(text, engine), 1000)
    assert (int(first), int(second), int(third)) == (501500, 502500, 500500)
    assert cells >= 2 * 1000


@pytest.mark.parametrize("engine", ENGINES)
def test_a_list_of_which_somebody_holds_the_end_is_copied_from_there_on(engine: str) -> None:
    text = f"""{LIST}
    def @main(%n: int32) -> (int32, int32) {{
      let %end = @make(%n, Nil);
      (@total(@up(Cons(1, Cons(2, %end)))), @total(%end))
    }}
    """
    (both, end), cells = made(machine(text, engine), 100)
    assert (int(both), int(end)) == (5155, 5050)
    assert 2 * 100 < cells <= 2 * 100 + 6


@pytest.mark.parametrize("engine", ENGINES)
def test_lists_of_the_host_are_never_changed(engine: str) -> None:
    text = f"{LIST} def @main(%xs: List[int32]) -> List[int32] {{ @up(@up(%xs)) }}"
    exe = relayvm.compile(relayvm.parse(text))
    vm = relayvm.VirtualMachine(exe, engine=engine)
    given = exe.adt("List[int32]").Nil()
    cons = exe.adt("List[int32]").Cons
    for value in (3, 2, 1):
        given = cons(value, given)
    for _ in range(2):
        result = vm.run(given)
        assert items(result) == [3, 4, 5]
        assert items(given) == [1, 2, 3]


@pytest.mark.parametrize("engine", ENGINES)
def test_trees_pairs_and_nested_patterns_are_rebuilt_in_place(engine: str) -> None:
    text = """
    type T { Leaf(int32), Node(T, T) }
    def @grow(%n: int32, %x: int32) -> T {
      if (%n == 0) { Leaf(%x) } else { Node(@grow(%n - 1, %x), @grow(%n - 1, 0 - %x)) }
    }
    def @mirror(%t: T) -> T {
      match (%t) {
        Leaf(%x) => Leaf(%x + 1),
        Node(Leaf(%x), %b) => Node(@mirror(%b), Leaf(%x + 1)),
        Node(%a, %b) => Node(@mirror(%b), @mirror(%a)),
      }
    }
    def @sum(%t: T) -> int32 {
      match (%t) { Leaf(%x) => %x, Node(%a, %b) => @sum(%a) + @sum(%b) }
    }
    def @times(%k: int32, %t: T) -> T {
      if (%k == 0) { %t } else { @times(%k - 1, @mirror(%t)) }
    }
    def @main(%n: int32, %k: int32) -> int32 { @sum(@times(%k, @grow(%n, 1))) }
    """
    vm = machine(text, engine)
    (grown, first), (turned, second) = made(vm, 8, 0), made(vm, 8, 5)
    assert (int(grown), int(turned)) == (0, 5 * 256)
    assert first == second == 511


@pytest.mark.parametrize("engine", ENGINES)
def test_pairs_in_a_list_change_their_sides_in_place(engine: str) -> None:
    text = """
    def @pairs(%n: int32) -> List[(int32, List[int32])] {
      if (%n == 0) { Nil } else { Cons((%n, Cons(%n, Nil)), @pairs(%n - 1)) }
    }
    def @turn(%xs: List[(int32, List[int32])]) -> List[(int32, List[int32])] {
      match (%xs) { Nil => Nil, Cons(%p, %t) => Cons((%p.0 + 1, %p.1), @turn(%t)) }
    }
    def @sum(%xs: List[(int32, List[int32])]) -> int32 {
      match (%xs) { Nil => 0, Cons((%a, Cons(%b, _)), %t) => %a * %b + @sum(%t), _ => 0 }
    }
    def @main(%n: int32, %k: int32) -> int32 {
      if (%k == 0) { @sum(@pairs(%n)) } else { @sum(@turn(@turn(@pairs(%n)))) }
    }
    """
    vm = machine(text, engine)
    (plain, first), (turned, second) = made(vm, 10, 0), made(vm, 10, 1)
    assert int(plain) == sum(n * n for n in range(11))
    assert int(turned) == sum((n + 2) * n for n in range(11))
    assert first == second


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cell_of_another_size_is_made_anew(engine: str) -> None:
    text = """
    type Wide { End, Link(int32, int32, int32, Wide) }
    def @widen(%xs: List[int32]) -> Wide {
      match (%xs) { Nil => End, Cons(%h, %t) => Link(%h, %h, 1, @widen(%t)) }
    }
    def @narrow(%w: Wide) -> List[int32] {
      match (%w) { End => Nil, Link(%a, %b, %c, %r) => Cons(%a + %b + %c, @narrow(%r)) }
    }
    """
    text += LIST + "def @main(%n: int32) -> int32 { @total(@narrow(@widen(@make(%n, Nil)))) }"
    result, cells = made(machine(text, engine), 100)
    assert int(result) == 2 * 5050 + 100
    assert cells >= 3 * 100


@pytest.mark.parametrize("engine", ENGINES)
def test_memory_that_a_path_does_not_need_is_given_back(engine: str) -> None:
    text = f"""{LIST}
    def @even(%xs: List[int32]) -> List[int32] {{
      match (%xs) {{
        Nil => Nil,
        Cons(%h, %t) => if (floor_mod(%h, 2) == 0) {{ Cons(%h, @even(%t)) }} else {{ @even(%t) }},
      }}
    }}
    def @main(%n: int32) -> int32 {{ @total(@even(@make(%n, Nil))) }}
    """
    vm = machine(text, engine)
    result, cells = made(vm, 1000)
    assert int(result) == 250500
    assert cells <= 1002
    held = vm.stats()["held_bytes"]
    for _ in range(50):
        vm.run(1000)
    assert vm.stats()["held_bytes"] == held


SORT = """
def @insert(%x: int32, %xs: List[int32]) -> List[int32] {
  match (%xs) {
    Nil => Cons(%x, %xs),
    Cons(%h, %t) => if (%x <= %h) { Cons(%x, %xs) } else { Cons(%h, @insert(%x, %t)) },
  }
}
def @merge(%xs: List[int32], %ys: List[int32]) -> List[int32] {
  match (%xs) {
    Nil => %ys,
    Cons(%x, %xt) => match (%ys) {
      Nil => %xs,
      Cons(%y, %yt) =>
        if (%x <= %y) { Cons(%x, @merge(%xt, %ys)) } else { Cons(%y, @merge(%xs, %yt)) },
    },
  }
}
def @sorted(%xs: List[int32], %done: List[int32]) -> List[int32] {
  match (%xs) { Nil => %done, Cons(%h, %t) => @sorted(%t, @insert(%h, %done)) }
}
def @digits(%xs: List[int32], %sum: int32) -> int32 {
  match (%xs) { Nil => %sum, Cons(%h, %t) => @digits(%t, %sum * 31 + %h) }
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cell_of_which_one_branch_needs_the_whole_is_reused_in_the_other(engine: str) -> None:
    text = f"""{LIST} {SORT}
    def @mixed(%n: int32, %acc: List[int32]) -> List[int32] {{
      if (%n == 0) {{ %acc }} else {{ @mixed(%n - 1, Cons(floor_mod(%n * 37, 101), %acc)) }}
    }}
    def @main(%n: int32, %k: int32) -> int32 {{
      let %a = @sorted(@mixed(%n, Nil), Nil);
      if (%k == 0) {{ @digits(%a, 0) }} else {{ @digits(@merge(%a, @make(%n, Nil)), 0) }}
    }}
    """
    vm = machine(text, engine)
    mixed = sorted(n * 37 % 101 for n in range(1, 61))
    (sums, cells), (merged, more) = made(vm, 60, 0), made(vm, 60, 1)
    for result, numbers in ((sums, mixed), (merged, sorted(mixed + list(range(1, 61))))):
        wanted = 0
        for number in numbers:
            wanted = (wanted * 31 + number) % 2**32
        assert int(result) % 2**32 == wanted
    # Each insertion makes one cell; that of the list that is sorted is not free by then.
    assert cells <= 2 * 60 + 3
    assert more <= cells + 61


@pytest.mark.parametrize("engine", ENGINES)
def test_a_trap_gives_the_memory_of_dead_cells_back(engine: str) -> None:
    text = f"""{LIST}
    def @stop(%xs: List[int32], %a: Array[int32]) -> List[int32] {{
      match (%xs) {{
        Nil => Cons(array.get(%a, 5), Nil),
        Cons(%h, %t) => Cons(%h, @stop(%t, %a)),
      }}
    }}
    def @main(%n: int32) -> int32 {{ @total(@stop(@make(%n, Nil), array.new(0))) }}
    """
    vm = machine(text, engine)
    held = []
    for _ in range(5):
        with pytest.raises(relayvm.Trap):
            vm.run(200)
        held.append(vm.stats()["held_bytes"])
    assert held[1:] == held[:1] * 4


def test_boxed_fields_of_uniform_layouts_are_rebuilt_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYVM_UNIFORM", "1")
    text = f"{LIST} def @main(%n: int32) -> int32 {{ @total(@up(@up(@make(%n, Nil)))) }}"
    vm = machine(text, "interpreter")
    result, cells = made(vm, 100)
    assert int(result) == 5250
    assert cells <= 102


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tuple_that_recurs_in_another_is_one_cell(engine: str) -> None:
    lets = " ".join(f"let %x{i + 1} = (%x{i}, %x{i});" for i in range(9))
    vm = machine(f"def @main(%x0: int32) {{ {lets} %x9 }}", engine)
    result, cells = made(vm, 7)
    assert cells == 8  # the outermost is returned in registers
    for _ in range(9):
        result = result[1]
    assert result == 7
