"""Rows of constant weights in two parts: which weights are cut, and that no bit changes."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.api import bind_params
from relayvm.compiler.passes import PASSES, pipeline_names, run_passes
from relayvm.ir.expr import Call, Constant
from relayvm.ir.visit import post_order

BEFORE = pipeline_names(3)[: pipeline_names(3).index("split_weights")]


def weight(shape, dtype="float32"):
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


def dense(rows, units, k, dtype="float32"):
    return (
        f"def @main(%x: Tensor[({rows}, {k}), {dtype}], %w: Tensor[({units}, {k}), {dtype}]) "
        "{ tanh(nn.dense(%x, %w)) }"
    )


def matrices(text, params, split=True):
    """Return the shapes of the matrices that kernels are given as constants."""
    module = bind_params(relayvm.parse(text), params)
    module = run_passes(module, [*BEFORE, *(["split_weights"] if split else [])], verify=True)
    nodes = [m for f in module.functions.values() for m in post_order(f)]
    calls = [m for m in nodes if isinstance(m, Call) and is_primitive(m.op)]
    args = [a for call in calls for a in call.args if isinstance(a, Constant)]
    return [a.data.shape for a in args if a.data.ndim > 1]


def kernels(text, params):
    return relayvm.compile(relayvm.parse(text), params=params).program().kernels


def run(text, params, *args, monkeypatch=None):
    """Return the result of a program; with `monkeypatch` of one whose weights are whole."""
    if monkeypatch is not None:
        whole = [name for name in pipeline_names(3) if name != "split_weights"]
        monkeypatch.setattr("relayvm.compiler.passes.pipeline_names", lambda _: whole)
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), params=params))
    result = vm.run(*args)
    return [np.asarray(r) for r in (result if isinstance(result, (tuple, list)) else [result])]


@pytest.mark.parametrize(
    ("rows", "units", "k", "dtype", "expected"),
    [
        (1, 40, 70, "float32", [(40, 64), (40, 6)]),
        (4, 40, 70, "float32", [(40, 64), (40, 6)]),
        (1, 40, 70, "float64", [(40, 64), (40, 6)]),
        (1, 40, 80, "float32", [(40, 80)]),  # whole vectors
        (5, 40, 70, "float32", [(40, 70)]),  # many rows
        (1, 40, 70, "float16", [(40, 70)]),  # vectors of half a line
        (1, 8, 70, "float32", [(8, 70)]),  # small
        (1, 200, 60, "float32", [(200, 60)]),  # short rows
        (1, 1100, 1001, "float32", [(1100, 1001)]),  # beyond the caches of a core
    ],
)
def test_weights_are_cut_where_few_rows_read_them_as_whole_lines(rows, units, k, dtype, expected):
    params = {"w": weight((units, k), dtype)}
    assert matrices(dense(rows, units, k, dtype), params) == expected


def test_weights_for_rows_of_unknown_number_stay_whole():
    text = dense("n", 40, 70).replace("@main(", "@main[n: ShapeVar](")
    assert matrices(text, {"w": weight((40, 70))}) == [(40, 70)]


def test_parameters_stay_whole():
    module = run_passes(relayvm.parse(dense(1, 40, 70)), BEFORE)
    assert PASSES["split_weights"].run(module) is module


def test_a_weight_that_is_also_read_otherwise_in_its_kernel_stays_whole():
    text = """
    def @main(%x: Tensor[(1, 70), float32], %w: Tensor[(40, 70), float32]) {
      nn.dense(nn.dense(%x, %w), transpose(%w))
    }
    """
    given = matrices(text, {"w": weight((40, 70))}, split=False)
    assert matrices(text, {"w": weight((40, 70))}).count((40, 70)) <= given.count((40, 70))


def test_a_constant_that_two_products_read_is_cut_once():
    text = """
    def @main(%x: Tensor[(1, 70), float32], %w: Tensor[(70, 70), float32]) {
      nn.dense(tanh(nn.dense(%x, %w)), %w)
    }
    """
    module = bind_params(relayvm.parse(text), {"w": weight((70, 70))})
    module = run_passes(module, [*BEFORE, "split_weights"])
    parts = {m for m in post_order(module["main"]) if isinstance(m, Constant)}
    assert sorted(m.data.shape for m in parts if m.data.ndim) == [(70, 6), (70, 64)]
    (kernel,) = kernels(text, {"w": weight((70, 70))})
    assert "select(less" not in kernel.nest


@pytest.mark.parametrize("k", [65, 77, 100, 150, 175])
@pytest.mark.parametrize("rows", [1, 3])
def test_no_bit_changes(monkeypatch, rows, k):
    units = 53
    x, w = weight((rows, k)), weight((units, k))
    text = dense(rows, units, k)
    (kernel,) = kernels(text, {"w": w})
    assert f"float32[{units}, {k // 16 * 16}]" in kernel.nest
    assert "select(less" not in kernel.nest  # each load is of one part
    assert "scratch" not in kernel.nest  # which is not copied
    (cut,) = run(text, {"w": w}, x)
    (whole,) = run(text, {"w": w}, x, monkeypatch=monkeypatch)
    assert cut.tobytes() == whole.tobytes()


def test_gates_of_a_cell_are_cut_together(monkeypatch):
    text = """
    def @main(%x: Tensor[(1, 70), float32], %h: Tensor[(1, 70), float32],
              %w: Tensor[(280, 70), float32], %u: Tensor[(280, 70), float32]) {
      let %g = split(add(nn.dense(%x, %w), nn.dense(%h, %u)), indices_or_sections=4, axis=1);
      add(multiply(sigmoid(%g.0), tanh(%g.1)), multiply(sigmoid(%g.2), %g.3))
    }
    """
    params = {"w": weight((280, 70)), "u": weight((280, 70)) + 1}
    x, h = weight((1, 70)), weight((1, 70)) * 2
    assert matrices(text, params) == [(280, 64), (280, 6), (280, 64), (280, 6)]
    (kernel,) = kernels(text, params)
    assert "select(less" not in kernel.nest
    (cut,) = run(text, params, x, h)
    (whole,) = run(text, params, x, h, monkeypatch=monkeypatch)
    assert cut.tobytes() == whole.tobytes()


def test_matrices_of_a_batch_are_cut(monkeypatch):
    text = """
    def @main(%x: Tensor[(3, 1, 70), float32], %w: Tensor[(3, 20, 70), float32]) {
      nn.batch_matmul(%x, %w, transpose_b=True)
    }
    """
    params, x = {"w": weight((3, 20, 70))}, weight((3, 1, 70))
    assert matrices(text, params) == [(3, 20, 64), (3, 20, 6)]
    (cut,) = run(text, params, x)
    (whole,) = run(text, params, x, monkeypatch=monkeypatch)
    assert cut.tobytes() == whole.tobytes()
