"""Programs that are hard for passes, mostly through polymorphism and sizes, keep their meaning."""

from __future__ import annotations

import numpy as np
import pytest
from meaning import check_passes, same_value

from relayvm.base.source import Source
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import PASSES, run_passes
from relayvm.compiler.transforms.instantiate import needs_uniform
from relayvm.ir.prelude import parse_program
from relayvm.ops import OPS

ONES = {n: np.ones(n, np.float32) for n in (1, 3, 5)}

PROGRAMS = {
    "local polymorphic function in a polymorphic function": (
        """
def @f[A](%x: A, %n: int32) {
  let %two = fn [B](%b: B) -> (B, B) { (%b, %b) };
  (%two(%x), %two(%n)) }
def @main(%x: int32) {
  (@f(1f, %x), @f(True, %x)) }
""",
        [3],
    ),
    "local polymorphic recursion": (
        """
def @main(%x: int32) {
  let %rep = fn [B](%n: int32, %b: B) -> List[B] {
    if (equal(%n, 0)) { Nil } else { Cons(%b, %rep(subtract(%n, 1), %b)) }
  };
  (%rep(%x, 1f), %rep(2, True)) }
""",
        [3],
    ),
    "polymorphic function in another": (
        """
def @main(%x: int32) {
  let %a = fn [A](%u: A) { let %b = fn [B](%v: B) { (%u, %v) };
  (%b(1), %b(2f)) };
  (%a(%x), %a(True)) }
""",
        [3],
    ),
    "mutual recursion": (
        """
def @ev[A](%x: A, %n: int32) -> Option[A] { if (equal(%n, 0)) {
  Some(%x) } else { @od(%x, subtract(%n, 1)) } }
def @od[A](%x: A, %n: int32) -> Option[A] {
  if (equal(%n, 0)) { None } else { @ev(%x, subtract(%n, 1)) }
}
def @main(%x: int32) {
  (@ev(1f, %x), @ev(%x, %x)) }
""",
        [4],
    ),
    "type that grows with each call": (
        """
def @d[A](%x: A, %n: int32) -> int32 { if (equal(%n, 0)) {
  7 } else { @d((%x, %x), subtract(%n, 1)) } }
def @main(%x: int32) {
  @d(%x, 3) }
""",
        [4],
    ),
    "lists of lists": (
        """
def @main(%x: int32) {
  let %l = Cons(Cons(%x, Nil), Cons(Nil, Nil));
  (@map(fn (%q) { @length(%q) }, %l), @concat(@hd(%l), Cons(5, Nil)),
   @zip(Cons(1, Nil), Cons(2f, Nil)),
   @foldr(fn (%a: List[int32], %b: int32) { add(@length(%a), %b) }, 0, %l)) }
""",
        [4],
    ),
    "references to data": (
        """
def @main(%x: int32) {
  let %r = ref(Nil);
  ref_write(%r, Cons(%x, ref_read(%r)));
  let %s = ref(%x);
  (@length(ref_read(%r)), ref_read(%s)) }
""",
        [4],
    ),
    "functions made of functions": (
        """
def @main(%x: int32) {
  let %f = @compose(fn (%a: int32) { add(%a, 1) }, fn (%a: int32) { multiply(%a, 2) });
  (%f(%x), @iterate(%f, 3)(%x)) }
""",
        [4],
    ),
    "trees": (
        """
def @main(%x: int32) {
  let %t = Rose(%x, Cons(Rose(2, Nil), Nil));
  (@size(%t), @tmap(fn (%a) { cast(%a, dtype="float32") }, %t)) }
""",
        [4],
    ),
    "lists of vectors of different length": (
        """
def @main(%x: Tensor[(3), float32], %y: Tensor[(5), float32]) {
  let %l = Cons(%x, Cons(%y, Nil));
  (@map(fn (%q: Tensor[(?), float32]) { sum(%q) }, %l), @map(fn (%z) { exp(%z) }, Cons(%x, Nil))) }
""",
        [ONES[3], ONES[5]],
    ),
    "size variables": (
        """
def @cat[n, m](%x: Tensor[(n), float32], %y: Tensor[(m), float32]) -> Tensor[(n + m), float32] {
  concatenate((%x, %y), axis=0)
}
def @main[k](%x: Tensor[(k), float32]) {
  let %l = Cons(@cat(%x, %x), Nil);
  (@hd(%l), reshape(%x, newshape=[k, 1]), @cat(%x, ones(shape=[2], dtype="float32"))) }
""",
        [ONES[3]],
    ),
    "constructor as a value": (
        """
def @main(%x: int32) {
  let %c = Some;
  (%c(%x), @map(Some, Cons(%x, Nil))) }
""",
        [4],
    ),
    "growing accumulator": (
        """
def @main(%x: Tensor[(1), float32]) {
  let %go = fn (%n: int32, %acc: Tensor[(?), float32]) -> Tensor[(?), float32] {
    if (equal(%n, 0)) { %acc } else { %go(subtract(%n, 1), concatenate((%acc, %x), axis=0)) }
  };
  %go(3, %x) }
""",
        [ONES[1]],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_pass_and_each_level_keeps_the_meaning(name):
    text, args = PROGRAMS[name]
    module = infer_types(parse_program(Source(name, text), OPS))
    expected = Evaluator(module).call("main", args)
    grows = name == "type that grows with each call"
    for step in PASSES:
        check_passes(module, args, [step])
    for level in range(4):
        lowered = run_passes(module, opt_level=level, verify=True)
        assert same_value(expected, Evaluator(lowered).call("main", args)), level
        assert needs_uniform(lowered) == grows
