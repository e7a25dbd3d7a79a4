"""Which calls `bench operators` measures: the call's text, its operands, and PyTorch's peer.

Operators that are not written out here are called with default attributes on made-up operands,
where their rules take them, see `operators.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union

# A size: a literal, or a name of `sizes`.
Size = Union[int, str]
Peer = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A call: `text` over %a, %b and so on, whose operands are (dtype, shape) each.

    An integer operand named `dtype:bound` has values below the bound. `peer` is given the module
    `torch` and its tensors.
    """

    operator: str
    text: str
    operands: tuple[tuple[str, tuple[Size, ...]], ...]
    peer: Peer | None = None
    note: str = ""


def sizes(elements: int) -> dict[str, int]:
    """Return the named sizes where an operand has so many elements, a power of four."""
    side = 1 << (elements.bit_length() // 2)
    return {
        "all": elements,
        "side": side,
        "half": side // 2,
        "rows": elements // 64,
        "planes": elements // 1024,
        "image": elements // 64 // 32,
    }


SQUARE = ("float32", ("side", "side"))
FLAGS = ("bool", ("side", "side"))
INTS = ("int32", ("side", "side"))
VECTOR = ("float32", ("all",))
IMAGE = ("float32", (1, 64, "image", 32))
HEADS = ("float32", (8, "planes", 8, 16))


def _unary(name: str, peer: str = "") -> Row:
    function = peer or name
    return Row(name, f"{name}(%a)", (SQUARE,), lambda t, x: _named(t, function)(x))


def _binary(name: str, peer: str = "", operand: tuple[str, tuple[Size, ...]] = SQUARE) -> Row:
    function = peer or name
    return Row(
        name, f"{name}(%a, %b)", (operand, operand), lambda t, x, y: _named(t, function)(x, y)
    )


def _named(torch: Any, path: str) -> Any:
    for part in path.split("."):
        torch = getattr(torch, part)
    return torch


def _reduced(name: str, peer: Peer, operand: tuple[str, tuple[Size, ...]] = SQUARE) -> list[Row]:
    """Return a reduction over the last axis, the first one, and all elements."""
    rows = []
    for note, axis in (("last", 1), ("first", 0)):
        text = f"{name}(%a, axis=[{axis}])"
        rows.append(Row(name, text, (operand,), lambda t, x, k=axis: peer(t, x, k), note))
    flat = (operand[0], ("all",))
    rows.append(Row(name, f"{name}(%a, axis=[0])", (flat,), lambda t, x: peer(t, x, 0), "all"))
    return rows


def _scanned(name: str, peer: str) -> list[Row]:
    return [
        Row(name, f"{name}(%a, axis={k})", (SQUARE,), lambda t, x, k=k: _named(t, peer)(x, k), note)
        for note, k in (("last", 1), ("first", 0))
    ]


def _permuted(axes: tuple[int, ...], shape: tuple[Size, ...], dtype: str = "float32") -> Row:
    text = f"transpose(%a, axes=[{', '.join(map(str, axes))}])"
    note = f"{dtype} {''.join(map(str, axes))}"
    peer = lambda t, x: x.permute(axes).contiguous()  # noqa: E731
    return Row("transpose", text, ((dtype, shape),), peer, note)


def _shaped(name: str, attrs: str, peer: Peer, operand: Any = SQUARE, note: str = "") -> Row:
    return Row(name, f"{name}(%a, {attrs})" if attrs else f"{name}(%a)", (operand,), peer, note)


ELEMENTWISE = (
    *map(_unary, ("abs", "ceil", "cos", "erf", "exp", "floor", "log", "rsqrt", "sigmoid")),
    *map(_unary, ("sign", "sin", "sqrt", "tanh", "round", "trunc", "atan", "tan", "log2")),
    _unary("negative"),
    _unary("nn.relu", "relu"),
    _unary("copy", "clone"),
    *map(_binary, ("add", "subtract", "multiply", "divide", "maximum", "minimum")),
    *map(_binary, ("less", "greater_equal")),
    _binary("equal", "eq"),
    _binary("power", "pow"),
    _binary("logical_and", operand=FLAGS),
    _binary("floor_divide", operand=INTS),
    _binary("bitwise_xor", operand=INTS),
    Row(
        "add",
        "add(%a, %b)",
        (SQUARE, ("float32", ("side",))),
        lambda t, x, y: x + y,
        "row",
    ),
    Row(
        "add",
        "add(%a, %b)",
        (SQUARE, ("float32", ("side", 1))),
        lambda t, x, y: x + y,
        "column",
    ),
    Row(
        "add",
        "add(%a, %b)",
        (("float32", ("rows", 1, 8)), ("float32", (1, 8, 8))),
        lambda t, x, y: x + y,
        "[n,1,8] [1,8,8]",
    ),
    Row(
        "where",
        "where(%a, %b, %c)",
        (FLAGS, SQUARE, SQUARE),
        lambda t, c, x, y: t.where(c, x, y),
    ),
    _shaped("clip", "a_min=-1f, a_max=1f", lambda t, x: t.clamp(x, -1, 1)),
    _shaped("cast", 'dtype="int32"', lambda t, x: x.to(t.int32), note="to int32"),
    _shaped("cast", 'dtype="float16"', lambda t, x: x.to(t.float16), note="to float16"),
)
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
    *_reduced("any", lambda t, x, k: t.any(x, k), FLAGS),
    *_reduced("all", lambda t, x, k: t.all(x, k), FLAGS),
    *_reduced("sum", lambda t, x, k: t.sum(x, k, dtype=t.int32), INTS),
    *_reduced("argmax", lambda t, x, k: t.argmax(x, k)),
    *_reduced("argmin", lambda t, x, k: t.argmin(x, k)),
    *_reduced("argmax", lambda t, x, k: t.argmax(x, k), ("int8", ("side", "side"))),
    *_scanned("cumsum", "cumsum"),
    *_scanned("cumprod", "cumprod"),
    _shaped("nn.softmax", "axis=-1", lambda t, x: t.softmax(x, -1)),
)
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
    Row(
        "take",
        'take(%a, %b, axis=0, mode="clip")',
        (SQUARE, ("int64:side", ("side",))),
        lambda t, x, i: t.index_select(x, 0, i),
        "rows",
    ),
    Row(
        "take",
        'take(%a, %b, axis=1, mode="clip")',
        (SQUARE, ("int64:side", ("side",))),
        lambda t, x, i: t.index_select(x, 1, i),
        "columns",
    ),
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
    _shaped(
        "strided_slice",
        "begin=[0, 1], end=[10000, 10000], strides=[1, 2]",
        lambda t, x: x[:, 1::2].contiguous(),
        note="every 2nd",
    ),
    _shaped(
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
    _shaped(
        "split",
        "indices_or_sections=2, axis=1",
        lambda t, x: tuple(p.contiguous() for p in t.tensor_split(x, 2, 1)),
        note="last",
    ),
    _shaped("tile", "reps=[2, 2]", lambda t, x: x.tile(2, 2)),
    _shaped("repeat", "repeats=2, axis=1", lambda t, x: x.repeat_interleave(2, 1), note="last"),
    _shaped("repeat", "repeats=2, axis=0", lambda t, x: x.repeat_interleave(2, 0), note="first"),
    Row(
        "broadcast_to",
        "broadcast_to(%a, shape=[64, {all}])",
        (VECTOR,),
        lambda t, x: x.broadcast_to(64, x.shape[0]).contiguous(),
    ),
    _shaped("reverse", "axis=1", lambda t, x: t.flip(x, (1,)), note="last"),
    _shaped("reverse", "axis=0", lambda t, x: t.flip(x, (0,)), note="first"),
    Row(
        "nn.pad",
        "nn.pad(%a, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]])",
        (IMAGE,),
        lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1)),
    ),
)
ROWS: tuple[Row, ...] = (*ELEMENTWISE, *REDUCTIONS, *MOVEMENT)
