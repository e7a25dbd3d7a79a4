"""Reductions and scans, for `bench operators`."""

from __future__ import annotations

from relayvm.cli.bench.rows.row import SQUARE, Peer, Row, named, shaped


def _reduced(name: str, peer: Peer, dtype: str = "float32") -> list[Row]:
    """Return a reduction over the last axis, the first one, and all elements."""
    rows, operand = [], (dtype, ("side", "side"))
    for note, axis in (("last", 1), ("first", 0)):
        text = f"{name}(%a, axis=[{axis}])"
        rows.append(Row(name, text, (operand,), lambda t, x, k=axis: peer(t, x, k), note))
    flat = (dtype, ("all",))
    rows.append(Row(name, f"{name}(%a, axis=[0])", (flat,), lambda t, x: peer(t, x, 0), "all"))
    return rows


def _scanned(name: str, peer: str) -> list[Row]:
    return [
        Row(name, f"{name}(%a, axis={k})", (SQUARE,), lambda t, x, k=k: named(t, peer)(x, k), note)
        for note, k in (("last", 1), ("first", 0))
    ]


REDUCTIONS = (
    *_reduced("sum", lambda t, x, k: t.sum(x, k)),
    *_reduced("mean", lambda t, x, k: t.mean(x, k)),
    *_reduced("max", lambda t, x, k: t.amax(x, k)),
    *_reduced("min", lambda t, x, k: t.amin(x, k)),
    *_reduced("prod", lambda t, x, k: t.prod(x, k)),
    Row(
        "variance",
        "variance(%a, mean(%a, axis=[1], keepdims=True), axis=[1])",
        (SQUARE,),
        lambda t, x: t.var(x, 1, correction=0),
        "last",
    ),
    *_reduced("any", lambda t, x, k: t.any(x, k), "bool"),
    *_reduced("all", lambda t, x, k: t.all(x, k), "bool"),
    *_reduced("sum", lambda t, x, k: t.sum(x, k, dtype=t.int32), "int32"),
    *_reduced("argmax", lambda t, x, k: t.argmax(x, k)),
    *_reduced("argmin", lambda t, x, k: t.argmin(x, k)),
    *_reduced("argmax", lambda t, x, k: t.argmax(x, k), "int8"),
    *_scanned("cumsum", "cumsum"),
    *_scanned("cumprod", "cumprod"),
    shaped("nn.softmax", "axis=-1", lambda t, x: t.softmax(x, -1)),
)
