"""Operators that move elements, for `bench operators`."""

from __future__ import annotations

from relayvm.cli.bench.rows.row import IMAGE, SQUARE, VECTOR, Row, Size, shaped


def _permuted(axes: tuple[int, ...], shape: tuple[Size, ...], dtype: str = "float32") -> Row:
    text = f"transpose(%a, axes=[{', '.join(map(str, axes))}])"
    note = f"{dtype} {''.join(map(str, axes))}"
    peer = lambda t, x: x.permute(axes).contiguous()  # noqa: E731
    return Row("transpose", text, ((dtype, shape),), peer, note)


def _taken(axis: int, note: str) -> Row:
    text = f'take(%a, %b, axis={axis}, mode="clip")'
    operands = (SQUARE, ("int64:side", ("side",)))
    return Row("take", text, operands, lambda t, x, i: t.index_select(x, axis, i), note)


MOVEMENT = (
    _permuted((1, 0), ("side", "side")),
    _permuted((1, 0), ("side", "side"), "int8"),
    _permuted((1, 0), ("side", "side"), "float16"),
    _permuted((1, 0), ("side", "side"), "float64"),
    _permuted((0, 2, 1, 3), (8, "planes", 8, 16)),
    _permuted((0, 2, 3, 1), (1, 64, "image", 32)),
    _permuted((0, 3, 1, 2), (1, "image", 32, 64)),
    _permuted((0, 2, 1), (4, "half", "half")),
    _permuted((2, 1, 0), ("image", 64, 32)),
    _taken(0, "rows"),
    _taken(1, "columns"),
    Row(
        "take",
        'take(%a, %b, mode="clip")',
        (VECTOR, ("int32:all", ("all",))),
        lambda t, x, i: t.index_select(x, 0, i),
        "elements",
    ),
    Row(
        "gather",
        "gather(%a, %b, axis=1)",
        (SQUARE, ("int64:side", ("side", "side"))),
        lambda t, x, i: t.gather(x, 1, i),
    ),
    Row(
        "one_hot",
        'one_hot(%a, 1f, 0f, depth=64, dtype="float32")',
        (("int64:64", ("rows",)),),
        lambda t, i: t.nn.functional.one_hot(i, 64),
    ),
    shaped(
        "strided_slice",
        "begin=[0, 1], end=[10000, 10000], strides=[1, 2]",
        lambda t, x: x[:, 1::2].contiguous(),
        note="every 2nd",
    ),
    shaped(
        "strided_slice",
        "begin=[1, 1], end=[10000, 10000], strides=[1, 1]",
        lambda t, x: x[1:, 1:].contiguous(),
        note="inside",
    ),
    Row(
        "concatenate",
        "concatenate((%a, %b), axis=0)",
        (SQUARE, SQUARE),
        lambda t, x, y: t.cat((x, y), 0),
        "first",
    ),
    Row(
        "concatenate",
        "concatenate((%a, %b), axis=1)",
        (SQUARE, SQUARE),
        lambda t, x, y: t.cat((x, y), 1),
        "last",
    ),
    Row(
        "stack",
        "stack((%a, %b), axis=0)",
        (SQUARE, SQUARE),
        lambda t, x, y: t.stack((x, y), 0),
        "first",
    ),
    Row(
        "stack",
        "stack((%a, %b), axis=2)",
        (SQUARE, SQUARE),
        lambda t, x, y: t.stack((x, y), 2),
        "last",
    ),
    shaped(
        "split",
        "indices_or_sections=2, axis=1",
        lambda t, x: tuple(p.contiguous() for p in t.tensor_split(x, 2, 1)),
        note="last",
    ),
    shaped("tile", "reps=[2, 2]", lambda t, x: x.tile(2, 2)),
    shaped("repeat", "repeats=2, axis=1", lambda t, x: x.repeat_interleave(2, 1), note="last"),
    shaped("repeat", "repeats=2, axis=0", lambda t, x: x.repeat_interleave(2, 0), note="first"),
    Row(
        "broadcast_to",
        "broadcast_to(%a, shape=[64, {all}])",
        (VECTOR,),
        lambda t, x: x.broadcast_to(64, x.shape[0]).contiguous(),
    ),
    shaped("reverse", "axis=1", lambda t, x: t.flip(x, (1,)), note="last"),
    shaped("reverse", "axis=0", lambda t, x: t.flip(x, (0,)), note="first"),
    Row(
        "nn.pad",
        "nn.pad(%a, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]])",
        (IMAGE,),
        lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1)),
    ),
)
