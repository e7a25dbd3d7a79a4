"""Operators of element by element, broadcast, for `bench operators`."""

from __future__ import annotations

from relayvm.cli.bench.rows.row import FLAGS, INTS, SQUARE, Row, binary, shaped, unary

ELEMENTWISE = (
    *map(unary, ("abs", "ceil", "cos", "erf", "exp", "floor", "log", "rsqrt", "sigmoid")),
    *map(unary, ("sign", "sin", "sqrt", "tanh", "round", "trunc", "atan", "tan", "log2")),
    unary("negative"),
    unary("nn.relu", "relu"),
    unary("copy", "clone"),
    *map(binary, ("add", "subtract", "multiply", "divide", "maximum", "minimum")),
    *map(binary, ("less", "greater_equal")),
    binary("equal", "eq"),
    binary("power", "pow"),
    binary("logical_and", operand=FLAGS),
    binary("floor_divide", operand=INTS),
    binary("bitwise_xor", operand=INTS),
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
    shaped("clip", "a_min=-1f, a_max=1f", lambda t, x: t.clamp(x, -1, 1)),
    shaped("cast", 'dtype="int32"', lambda t, x: x.to(t.int32), note="to int32"),
    shaped("cast", 'dtype="float16"', lambda t, x: x.to(t.float16), note="to float16"),
)
