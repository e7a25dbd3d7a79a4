"""Sorting, scanning, gathering and scattering, and sums of products, for `bench operators`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from relayvm.cli.bench.rows.row import INTS, SQUARE, VECTOR, Operand, Row, shaped

_PLACES = ("int64:side", ("side", "side"))
_SPREAD = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax", "mean": "mean"}
MANY = ("float32", (10_000_000,))
MILLION = ("float32", (1_000_000,))


def _ordered(
    note: str, operand: Operand = SQUARE, axis: int = -1, fixed: bool = False
) -> list[Row]:
    sort = f"sort(%a, axis={axis})"
    argsort = f'argsort(%a, axis={axis}, dtype="int64")'
    return [
        Row("sort", sort, (operand,), lambda t, x: t.sort(x, axis)[0], note, fixed=fixed),
        Row("argsort", argsort, (operand,), lambda t, x: t.argsort(x, axis), note, fixed=fixed),
    ]


def _scattered(reduction: str, axis: int = 1) -> Row:
    text = f'scatter_elements(%a, %b, %c, axis={axis}, reduction="{reduction}")'

    def peer(t: Any, x: Any, i: Any, u: Any) -> Any:
        if reduction == "update":
            return x.scatter(axis, i, u)
        return x.scatter_reduce(axis, i, u, _SPREAD[reduction])

    note = f"{reduction} {'columns' if axis else 'rows'}"
    return Row("scatter_elements", text, (SQUARE, _PLACES, SQUARE), peer, note)


def _ascending(rng: np.random.Generator, known: dict[str, int]) -> np.ndarray:
    return np.sort(rng.random(known["side"], np.float32))


def _pairs(rng: np.random.Generator, known: dict[str, int]) -> np.ndarray:
    """Return places of a square, one a column."""
    return rng.integers(0, known["side"], (2, known["all"]))


def _apart(rng: np.random.Generator, known: dict[str, int]) -> np.ndarray:
    """Return as many places in order as half of a vector's elements, no two the same."""
    return np.sort(rng.permutation(known["all"])[: known["all"] // 2])[:, None]


def _starts(rng: np.random.Generator, known: dict[str, int]) -> np.ndarray:
    """Return where rows of 16 elements begin."""
    return np.arange(0, 16 * known["side"] + 1, 16, dtype=np.int32)


def _columns(rng: np.random.Generator, known: dict[str, int]) -> np.ndarray:
    """Return 16 columns in order for each row."""
    rows = [np.sort(rng.permutation(known["side"])[:16]) for _ in range(known["side"])]
    return np.concatenate(rows).astype(np.int32)


def _sparse_product(t: Any, x: Any, values: Any, columns: Any, starts: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch calls these tensors new
        shape = (len(starts) - 1, x.shape[1])
        sparse = t.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)
        return (sparse @ x.T).T


def _summed(equation: str, *shapes: Any) -> Row:
    names = ", ".join(f"%{name}" for name, _ in zip("abc", shapes))
    comma = "," if len(shapes) == 1 else ""
    text = f'einsum(({names}{comma}), equation="{equation}")'
    operands = tuple(("float32", shape) for shape in shapes)
    return Row("einsum", text, operands, lambda t, *x: t.einsum(equation, *x), equation)


ORDER = (
    *_ordered("last"),
    *_ordered("first", axis=0),
    *_ordered("all", VECTOR),
    *_ordered("int32", INTS),
    *_ordered("int64", ("int64", ("all",))),
    *_ordered("uint8", ("uint8", ("all",))),
    shaped("topk", "k=10", lambda t, x: t.topk(x, 10), note="10 of rows"),
    shaped("topk", "k=10", lambda t, x: t.topk(x, 10), VECTOR, "10 of all"),
    shaped("topk", "k=64", lambda t, x: t.topk(x, 64), note="64 of rows"),
    shaped("unique", "", lambda t, x: t.unique(x), ("int32", ("all",))),
    shaped("argwhere", "", lambda t, x: t.argwhere(x), ("bool", ("side", "side"))),
    Row(
        "searchsorted",
        "searchsorted(%a, %b)",
        (_ascending, VECTOR),
        lambda t, s, x: t.searchsorted(s, x),
    ),
)
AIMS = (
    *_ordered("10^7", MANY, fixed=True),
    Row(
        "topk", "topk(%a, k=10)", (MILLION,), lambda t, x: t.argsort(x), "argsort 10^6", fixed=True
    ),
    Row("topk", "topk(%a, k=10)", (MILLION,), lambda t, x: t.topk(x, 10), "10^6", fixed=True),
)
PLACES = (
    *(_scattered(r) for r in ("update", *_SPREAD)),
    *(_scattered(r, 0) for r in ("update", "add")),
    Row(
        "scatter_nd",
        'scatter_nd(%a, %b, %c, mode="add")',
        (SQUARE, _pairs, VECTOR),
        lambda t, x, i, u: x.index_put((i[0], i[1]), u, accumulate=True),
        "add",
    ),
    Row(
        "scatter_nd",
        "scatter_nd(%a, %b, %c)",
        (SQUARE, ("int64:side", (1, "half")), ("float32", ("half", "side"))),
        lambda t, x, i, u: x.index_put((i[0],), u),
        "rows",
    ),
    Row(
        "gather",
        "gather(%a, %b, axis=0)",
        (SQUARE, _PLACES),
        lambda t, x, i: t.gather(x, 0, i),
        "first",
    ),
    Row(
        "gather_nd",
        "gather_nd(%a, %b)",
        (SQUARE, _pairs),
        lambda t, x, i: x[i[0], i[1]],
    ),
    Row(
        "adv_index",
        "adv_index((%a, %b, %c))",
        (SQUARE, ("int64:side", ("all",)), ("int64:side", ("all",))),
        lambda t, x, i, j: x[i, j],
    ),
    Row(
        "take_grad",
        "take_grad(%a, %b, %c, axis=0)",
        (SQUARE, SQUARE, ("int64:side", ("side",))),
        lambda t, g, x, i: t.zeros_like(x).index_add(0, i, g),
        "rows",
    ),
    shaped("trilu", "1, upper=True", lambda t, x: t.triu(x, 1)),
    Row(
        "matrix_set_diag",
        "matrix_set_diag(%a, %b)",
        (SQUARE, ("float32", ("side",))),
        lambda t, x, d: t.diagonal_scatter(x, d),
    ),
    Row(
        "sequence_mask",
        "sequence_mask(%a, %b, axis=1)",
        (SQUARE, ("int32:side", ("side",))),
        lambda t, x, n: x.masked_fill(t.arange(x.shape[1])[None, :] >= n[:, None], 0),
    ),
    Row("reverse_sequence", "reverse_sequence(%a, %b)", (SQUARE, ("int32:side", ("side",)))),
    Row(
        "meshgrid",
        "meshgrid((%a, %b))",
        (("float32", ("side",)), ("float32", ("side",))),
        lambda t, x, y: tuple(p.contiguous() for p in t.meshgrid(x, y, indexing="ij")),
    ),
    shaped("expand_dims", "axis=0", lambda t, x: x.unsqueeze(0).clone()),
    shaped("reshape", "newshape=[-1]", lambda t, x: x.reshape(-1).clone()),
    shaped("squeeze", "axis=[0]", lambda t, x: x.squeeze(0).clone(), ("float32", (1, "all"))),
    shaped(
        "layout_transform",
        'src_layout="NCHW", dst_layout="NCHW16c"',
        lambda t, x: x.unflatten(1, (4, 16)).permute(0, 1, 3, 4, 2).contiguous(),
        ("float32", (1, 64, "image", 32)),
        "to 16c",
    ),
    Row("invert_permutation", "invert_permutation(%a)", (lambda r, k: r.permutation(k["all"]),)),
    Row(
        "full",
        'full(3f, shape=[{all}], dtype="float32")',
        (),
        lambda t: t.full((1 << 16,), 3.0),
        fixed=True,
    ),
    Row(
        "arange",
        "arange(0f, {all}f, 1f)",
        (),
        lambda t: t.arange(0, 1 << 16, dtype=t.float32),
        fixed=True,
    ),
    Row(
        "sparse_to_dense",
        "sparse_to_dense(%a, %b, 0f, output_shape=[{all}])",
        (_apart, ("float32", ("half_all",))),
        lambda t, i, v: t.zeros(2 * len(v)).index_put((i[:, 0],), v),
    ),
    Row(
        "nn.sparse_dense",
        "nn.sparse_dense(%a, %b, %c, %d)",
        (SQUARE, ("float32", ("sparse",)), _columns, _starts),
        _sparse_product,
    ),
)
PRODUCTS = (
    _summed("ij,jk->ik", ("side", "side"), ("side", "side")),
    _summed("bij,bjk->bik", ("planes", 32, 32), ("planes", 32, 32)),
    _summed("ij->ji", ("side", "side")),
    _summed("ij,ij->i", ("side", "side"), ("side", "side")),
    _summed("i,j->ij", ("side",), ("side",)),
    Row("nn.dense", "nn.dense(%a, %b)", (SQUARE, SQUARE), lambda t, x, w: x @ w.T),
    Row("nn.matmul", "nn.matmul(%a, %b)", (SQUARE, SQUARE), lambda t, x, w: x @ w),
    Row(
        "nn.batch_matmul",
        "nn.batch_matmul(%a, %b)",
        (("float32", ("planes", 32, 32)), ("float32", ("planes", 32, 32))),
        lambda t, x, y: t.bmm(x, y),
    ),
)
