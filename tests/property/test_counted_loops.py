"""Random counted loops: computing what they multiply before their steps keeps what they mean."""

from __future__ import annotations

from dataclasses import dataclass

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

ROW, UNITS = 64, 256

# How a step gets its row of 64 numbers, as [1, 64] if it says so, from %x or from %ids and %x.
SLICES = {
    "expanded": ('expand_dims(take(%x, {i}, axis=0, mode="{mode}"), axis=0)', True),
    "flat": ('take(%x, {i}, axis=0, mode="{mode}")', False),
    "listed": ('take(%x, reshape({i}, newshape=[1]), axis=0, mode="{mode}")', True),
    "column": ('reshape(take(%t, {i}, axis=1, mode="{mode}"), newshape=[1, 64])', True),
    "word": ('expand_dims(take(%x, take(%ids, {i}, mode="{mode}"), axis=0), axis=0)', True),
    "cut": (
        "strided_slice(expand_dims(take(%x, {i}, axis=0), axis=0), begin=[0, 0], end=[1, 64])",
        True,
    ),
    "turned": ("transpose(transpose(reshape(take(%x, {i}, axis=0), newshape=[1, 64])))", True),
}
PRODUCTS = {
    "dense": ("nn.dense({row}, %w)", False),
    "matmul": ("nn.matmul({row}, %w, transpose_b=True)", False),
    "batch": (
        "squeeze(nn.batch_matmul(expand_dims({row}, axis=0), expand_dims(%w, axis=0),"
        " transpose_b=True), axis=[0])",
        True,
    ),
}
AFTER = ("{v}", "nn.relu({v})", "{v} * 0.5f", "{v} + %b", 'cast({v}, dtype="float32")')
TESTS = {
    "less": "if ({i} < {n}) {{ {on} }} else {{ {out} }}",
    "greater": "if ({n} > {i}) {{ {on} }} else {{ {out} }}",
    "at most": "if ({i} <= {n}) {{ {on} }} else {{ {out} }}",
    "out": "if ({i} >= {n}) {{ {out} }} else {{ {on} }}",
}


@dataclass(frozen=True)
class Loop:
    """Choices for one loop."""

    dtype: str
    form: str
    test: str
    slices: tuple[str, ...]
    index: str
    mode: str
    product: str
    after: str
    reads_counter: bool

    def text(self) -> str:
        """Return the program: `main(%first, %n, %x, %t, %ids, %w, %b)`."""
        suffix = "i64" if self.dtype == "int64" else ""
        place = self.index.format(one=f"1{suffix}", two=f"2{suffix}")
        product, needs_rank_2 = PRODUCTS[self.product]
        lines = [f"let %at = {place};"]
        state = "%h * 0.5f"
        for k, name in enumerate(self.slices):
            row, is_rank_2 = SLICES[name]
            if needs_rank_2 and not is_rank_2:
                row, is_rank_2 = f"expand_dims({row}, axis=0)", True
            text = product.format(row=row.format(i="%at", mode=self.mode))
            lines.append(f"let %p{k} = {self.after.format(v=f'({text})')};")
            state += f" + %p{k}"
        if self.reads_counter:
            state += ' + cast(%i, dtype="float32")'
        lines.append(f"let %next = clip({state}, a_min=-999.0, a_max=999.0);")
        shared = "%n, %x, %t, %ids, %w, %b"
        again = f"{'@go' if self.form == 'global' else '%go'}(%i + 1{suffix}, %next"
        again += f", {shared})" if self.form == "global" else ")"
        body = TESTS[self.test].format(
            i="%i", n="%n", on=" ".join(lines) + " " + again, out="(%i, %h)"
        )
        number = self.dtype
        invariants = (
            f"%n: {number}, %x: Tensor[(?, 64), float32], %t: Tensor[(64, ?), float32],"
            f" %ids: Tensor[(?), {number}], %w: Tensor[(256, 64), float32],"
            " %b: Tensor[(256), float32]"
        )
        moving = f"%i: {number}, %h: Tensor[(1, 256), float32]"
        result = f"({number}, Tensor[(1, 256), float32])"
        main = f"def @main(%first: {number}, {invariants}) -> {result} {{\n"
        main += '  let %zero = zeros(shape=[1, 256], dtype="float32");\n'
        if self.form == "global":
            main = f"def @go({moving}, {invariants}) -> {result} {{ {body} }}\n{main}"
            return f"{main}  @go(%first, %zero, {shared})\n}}"
        return (
            f"{main}  let %go = fn ({moving}) -> {result} {{ {body} }};\n  %go(%first, %zero)\n}}"
        )


LOOPS = st.builds(
    Loop,
    dtype=st.sampled_from(["int32", "int64"]),
    form=st.sampled_from(["global", "local"]),
    test=st.sampled_from(sorted(TESTS)),
    slices=st.lists(st.sampled_from(sorted(SLICES)), min_size=1, max_size=2).map(tuple),
    index=st.sampled_from(["%i", "%i + {two}", "%n - {one} - %i", "%i * {two}"]),
    mode=st.sampled_from(["clip", "wrap", "clip"]),
    product=st.sampled_from(sorted(PRODUCTS)),
    after=st.sampled_from(AFTER),
    reads_counter=st.booleans(),
)


def arguments(dtype: str, first: int, limit: int, rows: int, seed: int) -> list[np.ndarray]:
    """Return operands of which all sums are exact."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-8, 9, (rows, ROW)).astype(np.float32) / 8
    ids = rng.integers(0, max(rows, 1), rows).astype(dtype)
    w = rng.integers(-1, 2, (UNITS, ROW)).astype(np.float32)
    b = rng.integers(-8, 9, UNITS).astype(np.float32)
    number = np.dtype(dtype).type
    return [np.array(number(first)), np.array(number(limit)), x, x.T.copy(), ids, w, b]


def outcome(module, args):
    """Return what `main` gives, or None if it traps."""
    try:
        count, state = Evaluator(module).call("main", args)
    except RelayError:
        return None
    return count.tobytes(), state.tobytes()


@given(
    LOOPS,
    st.sampled_from([-3, 0, 0, 1, 4]),
    st.sampled_from([-4, 0, 1, 2, 5, 9]),
    st.sampled_from([0, 1, 3, 7]),
    st.sampled_from([1, 1500, 10_000, 64 << 20]),
    st.integers(0, 99),
)
def test_rows_before_the_loop_change_no_result(loop, first, limit, rows, block_bytes, seed):
    before = run_passes(relayvm.parse(loop.text()), ["infer_types", "to_anf"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hoisting, "BLOCK_BYTES", block_bytes)
        after = run_passes(before, ["hoist_loop_contractions"], verify=True)
    assert "%block" in print_module(after), print_module(after)
    args = arguments(loop.dtype, first, limit, rows, seed)
    assert outcome(before, args) == outcome(after, args), loop.text()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["global", "local"])
@pytest.mark.parametrize("block_bytes", [6000, 64 << 20])
def test_the_machine_gives_the_bits_of_the_loop_as_it_was_written(form, block_bytes, monkeypatch):
    monkeypatch.setattr(hoisting, "BLOCK_BYTES", block_bytes)
    loop = Loop("int64", form, "less", ("word", "expanded"), "%i", "clip", "dense", "{v}", True)
    module = relayvm.parse(loop.text())
    plain, fast = (relayvm.VirtualMachine(relayvm.compile(module, opt_level=k)) for k in (0, 3))
    assert "hoist_loop_contractions" in pipeline_names(3)
    assert "hoist_loop_contractions" not in pipeline_names(0)
    rng = np.random.default_rng(form == "local")
    for rows in (0, 1, 2, 9):
        args = arguments("int64", 0, rows, rows, rows)
        args[2] = rng.standard_normal(args[2].shape).astype(np.float32)
        args[5] = rng.standard_normal(args[5].shape).astype(np.float32)
        expected, got = plain.run(*args), fast.run(*args)
        assert [a.tobytes() for a in got] == [a.tobytes() for a in expected], rows
        meant = Evaluator(module).call("main", args)[1]
        np.testing.assert_allclose(got[1], meant, rtol=1e-4, atol=1e-3)


BYTES = """
def @main(%x: Tensor[(?, 64), int8], %w: Tensor[(1024, 64), int8], %zero: int32) {
  let %go = fn (%i: int32, %h: Tensor[(1, 1024), int32]) -> Tensor[(1, 1024), int32] {
    if (%i < take(shape_of(%x), 0, axis=0)) {
      let %word = expand_dims(take(%x, %i, axis=0), axis=0);
      let %a = qnn.dense(%word, %w, %zero, 1, 0.5f, 0.25f);
      let %b = nn.dense(%word, %w, out_dtype="int32");
      %go(%i + 1, right_shift(%h, 1) + %a - %b)
    } else { %h }
  };
  %go(0, zeros(shape=[1, 1024], dtype="int32"))
}
"""


@pytest.mark.slow
def test_products_of_bytes_are_computed_before_the_steps():
    module = relayvm.parse(BYTES)
    after = print_module(run_passes(module, ["hoist_loop_contractions"], verify=True))
    first = after.index("let %block")
    assert after.index("qnn.dense(%rows") < first and after.index("nn.dense(%rows") < first
    machines = [relayvm.VirtualMachine(relayvm.compile(module, opt_level=k)) for k in (0, 3)]
    rng = np.random.default_rng(0)
    w = rng.integers(-128, 128, (1024, 64)).astype(np.int8)
    for rows in (0, 1, 7):
        args = [rng.integers(-128, 128, (rows, 64)).astype(np.int8), w, np.int32(3)]
        expected = Evaluator(module).call("main", args)
        for machine in machines:
            np.testing.assert_array_equal(machine.run(*args), expected)
