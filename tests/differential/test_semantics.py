"""What programs mean, to the letter: sharing, scopes, recursion, effects, matches, functions as
values. The evaluator and the machine at every level give what is written here.
"""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError, Trap
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types

LEVELS = (0, 1, 2, 3)
# `@tick` counts how often it is called, `@note` writes a digit behind what was noted before.
PRELUDE = """
def @tick(%r: ref(int32)) -> int32 { ref_write(%r, add(ref_read(%r), 1)); ref_read(%r) }
def @note(%r: ref(int32), %digit: int32) -> int32 {
  ref_write(%r, add(multiply(ref_read(%r), 10), %digit)); %digit }
"""

PROGRAMS = {
    # -- Sharing ----------------------------------------------------------------------------------
    "a shared node is evaluated once": (
        "def @main() { let %r = ref(0); %0 = @tick(%r); (add(%0, %0), ref_read(%r)) }",
        (),
        (2, 1),
    ),
    "two equal calls are two": (
        "def @main() { let %r = ref(0); (add(@tick(%r), @tick(%r)), ref_read(%r)) }",
        (),
        (3, 2),
    ),
    "branches share one evaluation": (
        """def @main(%c: bool) { let %r = ref(0); %0 = @tick(%r);
        (if (%c) { %0 } else { add(%0, 10) }, if (%c) { add(%0, 20) } else { %0 },
         ref_read(%r)) }""",
        (True,),
        (1, 21, 1),
    ),
    "clauses share one evaluation": (
        """def @main(%n: int32) { let %r = ref(0); %0 = @tick(%r);
        let %a = match (Some(%n)) { Some(%v) => add(%v, %0), None => %0 };
        (%a, match (Cons(%n, Nil)) { Cons(_, _) => %0, Nil => 7 }, ref_read(%r)) }""",
        (5,),
        (6, 1, 1),
    ),
    "a branch and a clause share one evaluation": (
        """def @main(%c: bool) { let %r = ref(0); %0 = @tick(%r);
        (if (%c) { match (Some(1)) { Some(_) => %0, None => 0 } } else { %0 }, %0,
         ref_read(%r)) }""",
        (True,),
        (1, 1, 1),
    ),
    "a node of one branch is evaluated only there": (
        """def @main(%c: bool) { let %r = ref(0);
        let %a = if (%c) { 3 } else { %0 = @tick(%r); add(%0, %0) }; (%a, ref_read(%r)) }""",
        (True,),
        (3, 0),
    ),
    "a node of one clause is evaluated only there": (
        """def @main() { let %r = ref(0);
        let %o: Option[int32] = None;
        let %a = match (%o) { Some(%v) => %0 = @tick(%r); add(%0, %v), None => 4 };
        (%a, ref_read(%r)) }""",
        (),
        (4, 0),
    ),
    "a node of a function is evaluated at each call": (
        """def @main() { let %r = ref(0);
        let %f = fn () { %0 = @tick(%r); add(%0, %0) }; (%f(), %f(), ref_read(%r)) }""",
        (),
        (2, 4, 2),
    ),
    "a node that a function shares with what is around it is evaluated once": (
        """def @main() { let %r = ref(0); %0 = @tick(%r);
        let %f = fn (%x: int32) { add(%x, %0) }; (%f(10), %f(20), %0, ref_read(%r)) }""",
        (),
        (11, 21, 1, 1),
    ),
    "a node that two functions share is evaluated once": (
        """def @main() { let %r = ref(0); %0 = @tick(%r);
        let %f = fn () { %0 }; let %g = fn () { add(%0, 1) };
        (%f(), %g(), %f(), ref_read(%r)) }""",
        (),
        (1, 2, 1, 1),
    ),
    # -- Order of effects -------------------------------------------------------------------------
    "operands are evaluated from left to right": (
        """def @main() { let %r = ref(0);
        %0 = subtract(@note(%r, 1), @note(%r, 2)); (%0, @note(%r, 3), ref_read(%r)) }""",
        (),
        (-1, 3, 123),
    ),
    "fields are evaluated from left to right": (
        """def @main() { let %r = ref(0);
        let %t = (@note(%r, 1), (@note(%r, 2), @note(%r, 3)), @note(%r, 4));
        (%t.1.1, ref_read(%r)) }""",
        (),
        (3, 1234),
    ),
    "a function is evaluated before its arguments": (
        """def @pick(%r: ref(int32)) -> fn (int32) -> int32 {
          @note(%r, 1); fn (%x: int32) -> int32 { add(%x, @note(%r, 3)) } }
        def @main() { let %r = ref(0); let %a = @pick(%r)(@note(%r, 2)); (%a, ref_read(%r)) }""",
        (),
        (5, 123),
    ),
    "an argument that nobody uses is evaluated": (
        """def @main() { let %r = ref(0); let %f = fn (%x: int32) { 7 };
        (%f(@tick(%r)), ref_read(%r)) }""",
        (),
        (7, 1),
    ),
    "a condition comes before its branch": (
        """def @main() { let %r = ref(0);
        let %a = if (equal(@note(%r, 1), 1)) { @note(%r, 2) } else { @note(%r, 3) };
        (%a, ref_read(%r)) }""",
        (),
        (2, 12),
    ),
    "what a match looks at comes before its clause": (
        """def @main() { let %r = ref(0);
        let %a = match (Some(@note(%r, 1))) { Some(%v) => add(%v, @note(%r, 2)), None => 0 };
        (%a, ref_read(%r)) }""",
        (),
        (3, 12),
    ),
    "a reference is evaluated before what is written to it": (
        """def @cell(%r: ref(int32), %s: ref(int32)) -> ref(int32) { @note(%r, 1); %s }
        def @main() { let %r = ref(0); let %s = ref(0);
        ref_write(@cell(%r, %s), @note(%r, 2)); (ref_read(%r), ref_read(%s)) }""",
        (),
        (12, 2),
    ),
    "lets are evaluated in order": (
        """def @main() { let %r = ref(0); let %a = @note(%r, 1); let %b = @note(%r, 2);
        let %c = @note(%r, 3); (add(%c, %a), ref_read(%r)) }""",
        (),
        (4, 123),
    ),
    "a read sees the writes before it and no later ones": (
        """def @main() { let %r = ref(1); let %a = ref_read(%r); ref_write(%r, 2);
        let %b = ref_read(%r); ref_write(%r, 3); (%a, %b, ref_read(%r)) }""",
        (),
        (1, 2, 3),
    ),
    "two names of one reference are one": (
        """def @main() { let %r = ref(1); let %s = %r; let %t = (%r, ref(1));
        ref_write(%s, 5); (ref_read(%t.0), ref_read(%t.1)) }""",
        (),
        (5, 1),
    ),
    "a reference may hold a reference": (
        """def @main() { let %r = ref(1); let %s = ref(%r); ref_write(ref_read(%s), 4);
        ref_write(%s, ref(9)); (ref_read(%r), ref_read(ref_read(%s))) }""",
        (),
        (4, 9),
    ),
    # -- Recursion --------------------------------------------------------------------------------
    "a local function sees itself": (
        """def @main(%n: int32) {
        let %f = fn (%i: int32) -> int32 {
          if (equal(%i, 0)) { 0 } else { add(%i, %f(subtract(%i, 1))) } };
        %f(%n) }""",
        (100,),
        5050,
    ),
    "a local function that sees itself may be passed on": (
        """def @twice(%f: fn (int32) -> int32, %x: int32) -> int32 { %f(%f(%x)) }
        def @main(%n: int32) {
        let %f = fn (%i: int32) -> int32 {
          if (less(%i, 2)) { %i } else { %f(floor_divide(%i, 2)) } };
        @twice(%f, %n) }""",
        (100,),
        1,
    ),
    "globals see each other": (
        """def @even(%n: int32) -> bool {
          if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
        def @odd(%n: int32) -> bool {
          if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
        def @main(%n: int32) { (@even(%n), @odd(%n)) }""",
        (1001,),
        (False, True),
    ),
    "a let sees the outer variable of its name in its value": (
        "def @main(%x: int32) { let %x = add(%x, 1); let %x = multiply(%x, 2); %x }",
        (4,),
        10,
    ),
    # -- Matches ----------------------------------------------------------------------------------
    "the first clause that fits wins": (
        """def @main(%n: int32) { match ((Some(%n), %n)) {
        (Some(%v), _) => add(%v, 100), (_, %w) => %w } }""",
        (1,),
        101,
    ),
    "a later clause is taken where the first does not fit": (
        """def @f(%p: (Option[int32], int32)) -> int32 { match (%p) {
        (Some(%v), _) => add(%v, 100), (_, %w) => %w } }
        def @main(%n: int32) { @f((None, %n)) }""",
        (1,),
        1,
    ),
    "patterns nest": (
        """def @f(%l: List[Option[(int32, bool)]]) -> int32 { match (%l) {
          Cons(Some((%a, _)), Cons(None, _)) => %a,
          Cons(_, Cons(Some((%b, %c)), Nil)) => if (%c) { %b } else { 0 },
          _ => -1 } }
        def @main() { (@f(Cons(Some((3, True)), Cons(None, Nil))),
          @f(Cons(None, Cons(Some((4, True)), Nil))), @f(Nil)) }""",
        (),
        (3, 4, -1),
    ),
    "a match that is not complete may fit": (
        "def @main(%n: int32) { match? (Some(%n)) { Some(%v) => %v } }",
        (3,),
        3,
    ),
    # -- Functions as values ----------------------------------------------------------------------
    "closures in tuples": (
        """def @main(%n: int32) { let %t = (fn (%x: int32) { add(%x, %n) }, fn (%x: int32) { %x });
        let %f = %t.0; let %g = %t.1; (%f(1), %g(2)) }""",
        (10,),
        (11, 2),
    ),
    "closures in data": (
        """def @main(%n: int32) {
        let %l = Cons(fn (%x: int32) { add(%x, %n) },
                      Cons(fn (%x: int32) { multiply(%x, %n) }, Nil));
        @foldl(fn (%a: int32, %f: fn (int32) -> int32) { %f(%a) }, 1, %l) }""",
        (10,),
        110,
    ),
    "closures in references": (
        """def @main(%n: int32) { let %r = ref(fn (%x: int32) -> int32 { %x });
        let %old = ref_read(%r); ref_write(%r, fn (%x: int32) -> int32 { add(%old(%x), %n) });
        let %new = ref_read(%r); ref_write(%r, fn (%x: int32) -> int32 { multiply(%new(%x), 2) });
        ref_read(%r)(1) }""",
        (10,),
        22,
    ),
    "recursion through a reference": (
        """def @main(%n: int32) { let %r = ref(fn (%x: int32) -> int32 { 0 });
        ref_write(%r, fn (%x: int32) -> int32 {
          if (equal(%x, 0)) { 1 } else { multiply(%x, ref_read(%r)(subtract(%x, 1))) } });
        ref_read(%r)(%n) }""",
        (5,),
        120,
    ),
    "closures of closures": (
        """def @main(%n: int32) {
        let %f = fn (%a: int32) { fn (%b: int32) {
          fn (%c: int32) { add(%n, add(%a, add(%b, %c))) } } };
        let %g = %f(1); let %h = %g(2); (%h(3), %g(5)(6)) }""",
        (10,),
        (16, 22),
    ),
    "a closure keeps what it captured": (
        """def @main() { let %r = ref(1); let %a = ref_read(%r); let %f = fn () { %a };
        ref_write(%r, 9); (%f(), ref_read(%r)) }""",
        (),
        (1, 9),
    ),
    "constructors are functions": (
        """def @main(%n: int32) { let %c = Some; let %r = ref(%c);
        let %l = @map(Some, Cons(%n, Nil));
        match (ref_read(%r)(%n)) { Some(%v) => match (%l) {
          Cons(Some(%w), _) => (%v, %w), _ => (0, 0) }, None => (0, 0) } }""",
        (3,),
        (3, 3),
    ),
    "a constructor of two fields is a function": (
        "def @main() { @length(@foldr(Cons, Nil, Cons(1, Cons(2, Nil)))) }",
        (),
        2,
    ),
    "globals are values": (
        """def @inc(%x: int32) -> int32 { add(%x, 1) }
        def @dec(%x: int32) -> int32 { subtract(%x, 1) }
        def @main(%c: bool) { let %f = if (%c) { @inc } else { @dec }; let %t = (%f, @dec);
        let %g = %t.1; (%f(5), %g(5)) }""",
        (True,),
        (6, 4),
    ),
    "a polymorphic closure is used at several types": (
        """def @main(%n: int32) { let %two = fn [B](%b: B) -> (B, B) { (%b, %b) };
        (%two(%n), %two(True), %two(%two(1)).0) }""",
        (3,),
        ((3, 3), (True, True), (1, 1)),
    ),
    "a polymorphic closure captures": (
        """def @main(%n: int32) { let %with = fn [B](%b: B) -> (B, int32) { (%b, %n) };
        (%with(2), %with(True)) }""",
        (3,),
        ((2, 3), (True, 3)),
    ),
    "a polymorphic function passes closures on": (
        """def @both[A, B](%f: fn (A) -> B, %p: (A, A)) -> (B, B) { (%f(%p.0), %f(%p.1)) }
        def @main(%n: int32) { (@both(fn (%x: int32) { equal(%x, %n) }, (3, 4)),
          @both(fn (%x: bool) { if (%x) { %n } else { 0 } }, (True, False))) }""",
        (3,),
        ((True, False), (3, 0)),
    ),
    # -- What users of the original ran into ------------------------------------------------------
    "a global that is only a value is kept": (
        """def @inc(%x: int32) -> int32 { add(%x, 1) }
        def @make() -> List[fn (int32) -> int32] { Cons(@inc, Nil) }
        def @main(%n: int32) { match (@make()) { Cons(%f, _) => %f(%n), Nil => 0 } }""",
        (3,),
        4,
    ),
    "back-propagation through references of closures": (
        """def @main(%x: float32) {
        let %back = ref(fn () -> () { () });
        let %gx = ref(0f); let %gy = ref(0f);
        let %y = multiply(%x, %x);
        let %old = ref_read(%back);
        ref_write(%back, fn () -> () {
          ref_write(%gx, add(ref_read(%gx), multiply(multiply(2f, %x), ref_read(%gy)))); %old() });
        ref_write(%gy, 1f);
        let %run = ref_read(%back);
        %run();
        (%y, ref_read(%gx)) }""",
        (3.0,),
        (9.0, 6.0),
    ),
    "a write whose result nobody uses stays": (
        """def @set(%r: ref(int32), %v: int32) -> () { ref_write(%r, %v) }
        def @main() { let %r = ref(0); let %a = @set(%r, 1); let %f = fn () { ref_write(%r, 2) };
        let %b = ref_read(%r); let %u = %f(); (%b, ref_read(%r)) }""",
        (),
        (1, 2),
    ),
    "a write in a loop whose results nobody uses stays": (
        """def @main(%n: int32) { let %r = ref(0);
        let %loop = fn (%i: int32) -> () { if (equal(%i, 0)) { () } else {
          ref_write(%r, add(ref_read(%r), %i)); %loop(subtract(%i, 1)) } };
        let %u = %loop(%n); ref_read(%r) }""",
        (4,),
        10,
    ),
}


def plain(value):
    """Return numbers and tuples for arrays and tuples."""
    return tuple(map(plain, value)) if isinstance(value, tuple) else np.asarray(value).tolist()


@pytest.mark.parametrize("name", PROGRAMS)
def test_evaluator_and_machine_give_what_is_written(name):
    text, args, expected = PROGRAMS[name]
    module = relayvm.parse(PRELUDE + text)
    assert plain(Evaluator(module).call("main", args)) == expected
    assert plain(Evaluator(infer_types(module)).call("main", args)) == expected
    given = [np.float32(a) if isinstance(a, float) else a for a in args]
    for level in LEVELS:
        exe = relayvm.compile(module, opt_level=level, entries=["main"])
        assert plain(relayvm.VirtualMachine(exe).run(*given)) == expected, level


def test_a_match_that_does_not_fit_traps_everywhere():
    text = "def @main(%o: bool) { match? (if (%o) { Some(1) } else { None }) { Some(%v) => %v } }"
    module = relayvm.parse(text)
    with pytest.raises(Trap) as trapped:
        Evaluator(module).call("main", [False])
    assert trapped.value.code == "match-failed"
    for level in LEVELS:
        exe = relayvm.compile(module, opt_level=level)
        with pytest.raises(Trap) as trapped:
            relayvm.VirtualMachine(exe).run(False)
        assert trapped.value.code == "match-failed"


def test_a_match_that_lacks_a_clause_is_refused_with_the_pattern():
    with pytest.raises(RelayError, match="None"):
        infer_types(relayvm.parse("def @main(%o: Option[int32]) { match (%o) { Some(%v) => %v } }"))


@pytest.mark.parametrize(
    "value", ["add(%y, 1)", "(fn () { 1 }, %y)", "if (True) { %y } else { 0 }"]
)
def test_a_variable_is_not_visible_in_its_own_value_unless_that_is_a_function(value):
    with pytest.raises(RelayError) as refused:
        relayvm.parse(f"def @main() {{ let %y = {value}; 1 }}")
    assert refused.value.code == "unknown-variable"


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_compiles_calls_closures_and_data(level):
    text = """def @main(%l: List[int32], %x: Tensor[(?, 3), float32]) {
      let %f = fn (%y: Tensor[(?, 3), float32]) { exp(add(%y, 1f)) };
      (@sum(@map(fn (%a: int32) { multiply(%a, 2) }, %l)), sum(%f(%f(%x)))) }"""
    exe = relayvm.compile(relayvm.parse(text), opt_level=level)
    items = exe.adt("List[int32]")
    total, _ = relayvm.VirtualMachine(exe).run(
        items.Cons(np.int32(3), items.Nil()), np.zeros((2, 3), np.float32)
    )
    assert int(total) == 6


# A local recursive function, and a reference to functions that hold each other, in each round.
ROUNDS = """
def @round(%n: int32) -> int32 {
  let %count = ref(0);
  let %back = ref(fn () -> int32 { 0 });
  let %go = fn (%i: int32) -> int32 {
    ref_write(%count, add(ref_read(%count), 1));
    if (less(%i, 1)) { ref_read(%count) } else { %go(subtract(%i, 1)) } };
  let %old = ref_read(%back);
  ref_write(%back, fn () -> int32 { add(%go(%n), %old()) });
  ref_read(%back)()
}
def @main(%times: int32) -> int32 {
  let %loop = fn (%i: int32, %sum: int32) -> int32 {
    if (equal(%i, 0)) { %sum } else { %loop(subtract(%i, 1), add(%sum, @round(2))) } };
  %loop(%times, 0)
}
"""


@pytest.mark.parametrize("level", [0, 3])
def test_references_and_recursive_closures_take_no_memory_once_they_are_gone(level):
    exe = relayvm.compile(relayvm.parse(ROUNDS), opt_level=level, entries=["main"])
    peaks = []
    for times in (100, 100_000):
        vm = relayvm.VirtualMachine(exe)
        assert int(vm.run(times)) == 3 * times
        peaks.append(vm.stats()["peak_bytes"])
    assert peaks[1] <= peaks[0] * 1.1 + 4096


POLYMORPHIC_FUNCTIONS_AS_ARGUMENTS = """
    type P { P(fn [A](A) -> A) }
    def @both(%f: fn [A](A) -> A) { (%f(1), %f(True), %f(ones(shape=(2,), dtype="float32"))) }
    def @main() {
      (
        @both(fn [B](%x: B) -> B { %x }),
        match (P(fn [A](%x: A) -> A { %x })) { P(%f) => (%f(1), %f(2f)) }
      )
    }"""


@pytest.mark.parametrize("level", [0, 1, 3])
def test_polymorphic_functions_as_arguments_and_fields(level: int) -> None:
    executable = relayvm.compile(relayvm.parse(POLYMORPHIC_FUNCTIONS_AS_ARGUMENTS), opt_level=level)
    (one, true, ones), (again, two) = relayvm.VirtualMachine(executable).run()
    assert (one, bool(true), again, two) == (1, True, 1, 2)
    np.testing.assert_array_equal(ones, [1, 1])
