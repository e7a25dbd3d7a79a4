"""Loops along lists and over arrays: computing what they multiply before their steps keeps what
they mean.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.passes import pipeline_names, run_passes
from relayvm.compiler.transforms import hoist_loop_contractions as hoisting
from relayvm.ir.printer import print_module

STATE, ITEM = "Tensor[(1, 256), float32]", "Tensor[(1, 64), float32]"
STEP = "clip(%h * 0.5f + nn.dense(%word, %w){more}, a_min=-999f, a_max=999f)"
CELL = f"fn (%h: {STATE}, %word: {ITEM}) -> {STATE} {{{{ {STEP} }}}}"
FORMS = {
    "fold of a list": f"@foldl({CELL}, %zero, @array_to_list(%items))",
    "fold of an array": f"@array_foldl({CELL}, %zero, %items)",
    "steps along a list": f"""
  let %go = fn (%h: {STATE}, %rest: List[{ITEM}]) -> {STATE} {{{{
    match (%rest) {{{{ Nil => %h, Cons(%word, %more) => %go({STEP}, %more) }}}}
  }}}};
  %go(%zero, @array_to_list(%items))""",
    "steps with two ends": f"""
  let %go = fn (%h: {STATE}, %rest: List[{ITEM}], %seen: int32) -> {STATE} {{{{
    match (%rest) {{{{
      Cons(%word, %more) => {{{{
        let %next = {STEP};
        if (%seen > 3) {{{{ %go(%next, %more, 0) }}}}
        else {{{{ %go(%next + %h, %more, %seen + 1) }}}}
      }}}},
      Nil => %h
    }}}}
  }}}};
  %go(%zero, @array_to_list(%items), 0)""",
    "steps to a bound": f"""
  let %go = fn (%k: int32, %h: {STATE}) -> {STATE} {{{{
    if (%k < %n) {{{{ let %word = array.get(%items, %k); %go(%k + 1, {STEP}) }}}} else {{{{ %h }}}}
  }}}};
  %go(0, %zero)""",
    "steps from the bound on": f"""
  let %go = fn (%k: int32, %h: {STATE}) -> {STATE} {{{{
    if (%k <= array.length(%items) - 1) {{{{
      let %word = array.get(%items, %k);
      %go(%k + 1, {STEP})
    }}}} else {{{{ %h }}}}
  }}}};
  %go(%n, %zero)""",
}
FORMS["tensors of an array"] = f"""
  let %go = fn (%k: int32, %h: {STATE}) -> {STATE} {{{{
    if (%k < array.length(%places)) {{{{
      let %word = @held(array.get(%places, %k));
      %go(%k + 1, {STEP})
    }}}} else {{{{ %h }}}}
  }}}};
  %go(%n, %zero)"""
FORMS["tensors up to a bound"] = f"""
  let %go = fn (%k: int32, %h: {STATE}) -> {STATE} {{{{
    if (%k < %n) {{{{
      let %seen = @held(array.get(%places, %k));
      let %word = expand_dims(take(%x, %k, axis=0), axis=0);
      %go(%k + 1, {STEP} + max(%seen) * max(%h))
    }}}} else {{{{ %h }}}}
  }}}};
  %go(0, %zero)"""
MORE = ("", " + mean(%word)", " + nn.relu(nn.dense(%word, %w)) * 0.25f")


def program(form: str, more: str) -> str:
    """Return `main(%x, %n, %w)`, which goes over the rows of %x."""
    return f"""
type Place {{ Empty, Held({ITEM}) }}
def @held(%p: Place) -> {ITEM} {{ match? (%p) {{ Held(%t) => %t }} }}
def @main(%x: Tensor[(?, 64), float32], %n: int32, %w: Tensor[(256, 64), float32]) -> {STATE} {{
  let %rows = take(shape_of(%x, dtype="int32"), 0);
  let %items = @array_build(%rows, fn (%k: int32) {{ expand_dims(take(%x, %k, axis=0), axis=0) }});
  let %places = @array_build(%rows, fn (%k: int32) {{
    let %item = array.get(%items, %k);
    if (max(%item) > 7.5f) {{ Empty }} else {{ Held(%item) }}
  }});
  let %zero = zeros(shape=[1, 256], dtype="float32");
  {FORMS[form].format(more=more)}
}}"""


def outcome(module, args):
    """Return what `main` gives, or None if it traps."""
    try:
        return Evaluator(module).call("main", args).tobytes()
    except RelayError:
        return None


def arguments(rows: int, limit: int, seed: int) -> list[np.ndarray]:
    """Return operands of which all sums are exact."""
    rng = np.random.default_rng(seed)
    # A row with an 8 is an empty place.
    x = rng.integers(-8, 8, (rows, 64)).astype(np.float32)
    if rows > 4 and seed % 2:
        x[rng.integers(rows), 3] = 8
    return [x, np.array(limit, np.int32), rng.integers(-1, 2, (256, 64)).astype(np.float32)]


BEFORE = pipeline_names(3)[: pipeline_names(3).index("hoist_loop_contractions")]


@cache
def ready(form: str, more: str):
    """Return the program just before the pass."""
    return run_passes(relayvm.parse(program(form, more)), BEFORE)


@given(
    st.sampled_from(sorted(FORMS)),
    st.sampled_from(MORE),
    st.integers(0, 9),
    st.sampled_from([-1, 0, 2, 3, 9, 12]),
    st.sampled_from([1, 3000, 10_000, 64 << 20]),
    st.integers(0, 99),
)
def test_collecting_items_changes_no_result(form, more, rows, limit, block_bytes, seed):
    before = ready(form, more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hoisting, "BLOCK_BYTES", block_bytes)
        after = run_passes(before, ["hoist_loop_contractions"], verify=True)
    assert "%block" in print_module(after, library=True), print_module(after)
    args = arguments(rows, limit, seed)
    assert outcome(before, args) == outcome(after, args), program(form, more)


@pytest.mark.slow
@pytest.mark.parametrize("form", sorted(FORMS))
def test_the_machine_gives_the_bits_of_the_steps_as_they_were_written(form, monkeypatch):
    monkeypatch.setattr(hoisting, "BLOCK_BYTES", 5000)
    module = relayvm.parse(program(form, MORE[1]))
    plain, fast = (relayvm.VirtualMachine(relayvm.compile(module, opt_level=k)) for k in (0, 3))
    rng = np.random.default_rng(3)
    for rows in (0, 1, 6, 9):
        args = arguments(rows, rows if "to" in form else 0, rows)
        args[0] = rng.standard_normal(args[0].shape).astype(np.float32)
        args[2] = rng.standard_normal(args[2].shape).astype(np.float32)
        assert fast.run(*args).tobytes() == plain.run(*args).tobytes(), rows
    ends = {"steps to a bound": 5, "steps from the bound on": -1, "tensors of an array": -1}
    if form in ends:
        short = arguments(2, ends[form], 0)
        reasons = []
        for machine in (plain, fast):
            with pytest.raises(relayvm.Trap) as caught:
                machine.run(*short)
            reasons.append(caught.value.diagnostics[0].message)
        assert reasons[0] == reasons[1]


def test_a_step_beyond_the_array_traps_after_the_steps_before_it():
    text = """
    def @main(%items: Array[Tensor[(1, 128), float32]], %w: Tensor[(150, 128), float32],
              %small: Array[float32]) {
      let %c = ref(0);
      let %f = fn (%i: int32, %h: Tensor[(1, 150), float32]) -> Tensor[(1, 150), float32] {
        if (%i <= array.length(%items)) {
          let %p = nn.dense(array.get(%items, %i), %w, units=150);
          let %t = array.get(%small, ref_read(%c));
          ref_write(%c, ref_read(%c) + 1);
          %f(%i + 1, tanh(%p + %h) * %t)
        } else { %h }
      };
      %f(0, ones(shape=[1, 150], dtype="float32"))
    }"""
    items, w = [np.ones((1, 128), np.float32)] * 5, np.ones((150, 128), np.float32)
    for count, wanted in ((2, "index 2 of an array of 2 items"), (9, "index 5 of an array of 5")):
        for level in (0, 3):
            vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
            with pytest.raises(relayvm.Trap, match=wanted):
                vm.run(items, w, [np.float32(1)] * count)
