"""Data types that hold themselves at other types or sizes: inside they run, the host has none."""

from __future__ import annotations

import numpy as np
import pytest
from programs_text import parsed

import relayvm
from relayvm.base.diagnostics import RelayError

X = np.ones(1, np.float32)
PARAM = "%x: Tensor[(1), float32]"
PAIRS = "type Nest[A] { Stop, Nest(A, Nest[(A, A)]) }"
MORE = "type Nest[n: ShapeVar] { Stop, Nest(Tensor[(n), float32], Nest[n + 1]) }"

SHOWN = {
    "pairs": f"""{PAIRS} def @main({PARAM}) -> Nest[Tensor[(1), float32]] {{
      Nest(%x, Nest((%x, %x), Stop)) }}""",
    "a size more": f"{MORE} def @main({PARAM}) -> Nest[1] {{ Nest(%x, Stop) }}",
    "a size less": f"{MORE.replace('+', '-')} def @main({PARAM}) -> Nest[1] {{ Nest(%x, Stop) }}",
    "sizes twice as large": f"""{MORE.replace("+ 1", "* 2")}
      def @main({PARAM}) -> Nest[1] {{ Nest(%x, Stop) }}""",
    "squares of a symbol": f"""{MORE.replace("n + 1", "(n + 1) * (n + 1)")}
      def @main[n](%x: Tensor[(n), float32]) -> Nest[n] {{ Nest(%x, Stop) }}""",
    "two types in turn": """type Left[A] { L(A, Right[A]) } type Right[A] { End, R(Left[(A,)]) }
      def @main(%x: Tensor[(1), float32]) -> Left[Tensor[(1), float32]] { L(%x, End) }""",
    "a parameter, inside a list": f"""{PAIRS}
      def @main(%l: List[Nest[int32]]) -> int32 {{ 1 }}""",
}


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("name", SHOWN)
def test_the_host_holds_no_data_without_end(name, level):
    with pytest.raises(RelayError) as raised:
        relayvm.compile(parsed(SHOWN[name]), opt_level=level)
    assert raised.value.diagnostics[0].code == "polymorphic-entry"


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize(
    "types, params, kind, more",
    [
        (PAIRS, "[A]", "Nest[A]", "(%x, %x)"),
        (MORE, "[n]", "Nest[n]", "concatenate((%x, %x))"),
    ],
)
def test_data_without_end_runs_inside(types, params, kind, more, level):
    text = f"""{types}
      def @depth{params}(%l: {kind}) -> int32 {{
        match (%l) {{ Stop => 0, Nest(_, %t) => 1 + @depth(%t) }} }}
      def @main({PARAM}) -> int32 {{ @depth(Nest(%x, Nest({more}, Stop))) }}"""
    exe = relayvm.compile(parsed(text), opt_level=level)
    assert int(relayvm.VirtualMachine(exe).run(X)) == 2


@pytest.mark.parametrize("size", ["64", "?"])
def test_sizes_that_come_to_rest_are_shown(size):
    step = "floordiv(n, 2)" if size != "?" else "n + 1"
    text = f"""{MORE.replace("n + 1", step)}
      def @main(%x: Tensor[({size}), float32]) -> Nest[{size}] {{ Nest(%x, Stop) }}"""
    exe = relayvm.compile(parsed(text))
    assert relayvm.VirtualMachine(exe).run(np.ones(64, np.float32)).constructor == "Nest"
