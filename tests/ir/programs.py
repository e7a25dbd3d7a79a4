"""Texts that between them use every part of the language; tests of this room run over them."""

from __future__ import annotations

from relayvm.base.source import Source
from relayvm.ir.module import Module
from relayvm.ir.prelude import parse_program
from relayvm.ops import OPS

PROGRAMS = {
    "arithmetic": "def @main(%x: float32) -> float32 { (%x + 1f) * -2f / %x - --3f }",
    "comparison": "def @main(%x: int32) -> bool { %x + 1 < %x * 2 == True != (%x >= 3) }",
    "graph": """
        def @main(%x: Tensor[(2, ?), float32]) {
          %0 = exp(%x);
          let %y = add(%0, %0);
          %1 = (%y, %0);
          %2 = %1.0;
          multiply(%2, %2)
        }""",
    "shared_over_branches": """
        def @main(%c: bool, %x: float32) {
          %0 = exp(%x);
          let %y = if (%c) { add(%0, 1f) } else { %1 = tanh(%0); add(%1, %1) };
          fn (%z: float32) { let %w = add(%0, %z); %w }
        }""",
    "nested_let": """
        def @main(%x: int32) {
          let %a = { let %b = add(%x, 1); let %c = multiply(%b, %b); %c };
          (let %d = %a; %d, 2).0
        }""",
    "shadowing": "def @main(%x: int32) { let %x = add(%x, 1); let %x = add(%x, %x); %x }",
    "sequence": """
        def @main(%r: ref((int32, ref(bool)))) {
          ref_write(%r, (1, ref(True)));
          ref_write(ref_read(%r).1, False);
          ()
        }""",
    "recursion": """
        def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } }
        def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } }
        def @main() {
          let %loop = fn (%i: int32) -> int32 { if (%i > 9) { %i } else { %loop(%i + 1) } };
          (%loop(0), @even(4))
        }""",
    "data": """
        type Shape[A, n] {
          Point,
          Row(Tensor[(n, 3), float32], A),
          Group(Shape[A, n], fn (A) -> Shape[A, n]),
        }
        extern type Opaque
        type Wrap[n, A] { Wrapped(Shape[A, n]) }
        def @area[m](%s: Shape[int32, m], %o: Opaque) -> int32 {
          match? (%s) {
            Point => 0,
            Group(Row(_, %k: int32), _) => %k,
            Group(%a, %f) => @area(%f(3), %o) + @area(%a, %o),
          }
        }
        def @tuples(%p: ((int32, bool), ())) {
          match (%p) { ((%a, _), %u) => (%a, %u) }
        }""",
    "library": """
        def @main(%l: List[float32]) -> (int32, Option[float32]) {
          let %m = @map(fn (%x: float32) { (%x, %x) }, %l);
          (@length(%m), match (%l) { Cons(%h, _) => Some(%h), Nil => None })
        }""",
    "generic": """
        def @twice[A](%f: fn (A) -> A, %x: A) -> A { %f(%f(%x)) }
        def @apply[A, B, n: ShapeVar](%f: fn [C](C, A) -> B, %x: A) -> B { %f(%x, %x) }
        def @main() { (@twice[int32](fn (%i: int32) { %i + 1 }, 1), Some[int32](2), Nil[bool]) }""",
    "dims": """
        def @main[n, m](
          %a: Tensor[(n*2 + 1, n // 2, 0 - n + m*3), float16],
          %b: Tensor[((n + 1) // 2 + m, min(n, m), max(n*m, 4), n*n), int64],
        ) {
          reshape(%a, newshape=[n*m, -1, floordiv(n + 1, 2)])
        }""",
    "literals": """
        def @main() {
          (1, -1i8, 255u8, -32768i16, 65535u16, 4000000000u32, 5000000000, -7i64,
           18446744073709551615u64, 1f,
           0.1f, -0f, 1e-45f, 3.4028235e38f, 1.5f64, 1e300f64, 0.1f16, 65504f16, inff,
           -inff, nanf, inff16, -inff64, nanf64, nanf16, True, False)
        }""",
    "attributes": r"""
        def @main(%x: Tensor[(2, 3), float32], Primitive=1, note="a \"b\" \n \\ ☃", Inline=False) {
          let %a = sum(%x, axis=[0], keepdims=True);
          let %b = cast(%x, dtype="int8");
          let %c = clip(%x, a_min=-1f, a_max=1e-7f);
          let %d = take(%x, 1, axis=None, mode="clip");
          let %e = strided_slice(%x, begin=(0, 0), end=[2, 3]);
          fn (%y, Compiler="none", options=[1, [2f, inff]]) { %y }
        }""",
    "comments": """
        // line
        /* block /* nested */ still */
        def @main(/* here */ %x: Tensor[(3, // after a comma this is a comment
            4), float32]) { %x } // end""",
    "slashes": "def @main(%conv1/w: float32, %/a/b: float32) { %conv1/w / %/a/b }",
    "curried": "def @main(%f: fn (int32) -> fn (int32) -> (int32, int32)) { %f(1)(2).0 }",
    "operator_as_value": "def @main(%x: float32) { let %f = exp; (%f(%x), Cons) }",
    "empty_match": "type Void { } def @main(%v: Void) -> int32 { match (%v) { } }",
    "constants": """
        def @main() { (meta[relay.Constant][0], meta[relay.Constant][1], meta[relay.Constant][0]) }
        #[metadata]
        {"relay.Constant": [
          {"dtype": "float32", "shape": [2, 1], "data": "AACAPwAAwH8="},
          {"dtype": "int16", "shape": [0, 4], "data": ""}]}""",
    "version": '#[version = "0.0.5"]\ndef @main() { 1 }',
}


def parse(text: str) -> Module:
    """Parse a program with the operators and the library."""
    return parse_program(Source("test.rly", text), OPS)
