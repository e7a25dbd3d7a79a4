"""Random small computations, one function a family: tensor expressions and arrays for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relayvm.base.dims import DimVar, dim_broadcast, symbol
from relayvm.base.dtypes import dtype_of
from relayvm.kernels import compute as c
from relayvm.kernels.lower import Computation


@dataclass
class Case:
    """A computation, input arrays, the values of its dims, and numpy's answer where it has one."""

    computation: Computation
    arrays: list[np.ndarray]
    dims: dict[str, int]
    expected: list[np.ndarray] | None = None


class Random:
    """Draws sizes (static, or a dim variable with a value) and arrays."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.variables: list[DimVar] = []
        self.values: dict[str, int] = {}

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def size(self, high: int = 40, low: int = 1):
        value = self.integer(low, high) if self.chance(0.8) else self.integer(low, min(high, 3))
        if self.chance(0.5):
            return value, value
        variable = DimVar(f"n{len(self.variables)}")
        self.variables.append(variable)
        self.values[variable.name] = value
        return symbol(variable), value

    def array(self, shape, dtype="float32"):
        row = dtype_of(dtype)
        if row.is_float:
            return self.rng.standard_normal(shape).astype(row.numpy)
        if row.is_bool:
            return self.rng.random(shape) < 0.5
        return self.rng.integers(max(row.min, -9), 10, size=shape).astype(dtype)

    def case(self, name, inputs, outputs, arrays, expected=None, strided=()):
        computation = Computation(
            name, tuple(inputs), tuple(outputs), tuple(self.variables), frozenset(strided)
        )
        return Case(computation, arrays, self.values, expected)


def _sum_product(shape, k, factors, name="d"):
    return c.compute(
        shape,
        lambda *i: c.reduce("sum", (k,), lambda r: factors(*i, r)[0] * factors(*i, r)[1]),
        name=name,
    )


def dense(r: Random) -> Case:
    (m, vm), (k, vk), (u, vu) = r.size(7), r.size(36), r.size(22)
    x = c.placeholder("x", (m, k), "float32")
    w = c.placeholder("w", (u, k), "float32")
    b = c.placeholder("b", (u,), "float32")
    d = _sum_product((m, u), k, lambda i, j, q: (x[i, q], w[j, q]))
    z = c.compute((m, u), lambda i, j: d[i, j] + b[j])
    y = c.compute((m, u), lambda i, j: c.scalar("maximum", z[i, j], 0.0))
    arrays = [r.array((vm, vk)), r.array((vu, vk)), r.array((vu,))]
    expected = np.maximum(arrays[0] @ arrays[1].T + arrays[2], 0)
    return r.case("dense", (x, w, b), (y,), arrays, [expected])


def dense_and_gelu(r: Random) -> Case:
    (m, vm), (k, vk), (u, vu) = r.size(15), r.size(36), r.size(90)
    x = c.placeholder("x", (m, k), "float32")
    w = c.placeholder("w", (u, k), "float32")
    b = c.placeholder("b", (u,), "float32")
    d = _sum_product((m, u), k, lambda i, j, q: (x[i, q], w[j, q]))
    z = c.compute((m, u), lambda i, j: d[i, j] + b[j])
    half = c.compute((m, u), lambda i, j: z[i, j] * 0.5)
    e = c.compute((m, u), lambda i, j: c.scalar("erf", z[i, j] * 0.5**0.5))
    y = c.compute((m, u), lambda i, j: half[i, j] * (e[i, j] + 1.0))
    arrays = [r.array((vm, vk)), r.array((vu, vk)), r.array((vu,))]
    return r.case("gelu", (x, w, b), (y,), arrays)


def dense_to_heads(r: Random) -> Case:
    """Two layers of one operand, their columns cut into heads."""
    (m, vm), k, heads, width = r.size(9), r.integer(1, 40), r.integer(1, 3), r.integer(1, 20)
    u = heads * width
    x = c.placeholder("x", (m, k), "float32")
    weights = [c.placeholder(name, (u, k), "float32") for name in ("v", "w")]
    outputs, arrays = [], [r.array((vm, k))]
    expected = []
    for w in weights:
        d = _sum_product((m, u), k, lambda i, j, q, w=w: (x[i, q], w[j, q]))
        z = c.compute((m, u), lambda i, j, d=d: d[i, j] + 1.0)
        outputs.append(c.compute((heads, m, width), lambda h, i, q, z=z: z[i, h * width + q]))
        arrays.append(r.array((u, k)))
        whole = arrays[0] @ arrays[-1].T + 1
        expected.append(whole.reshape(vm, heads, width).transpose(1, 0, 2))
    return r.case("heads", (x, *weights), tuple(outputs), arrays, expected)


def product_of_heads(r: Random) -> Case:
    """A product of each head, with the heads between its rows and columns."""
    (m, vm), (k, vk), heads, width = r.size(5), r.size(20), r.integer(1, 4), r.integer(1, 20)
    x = c.placeholder("x", (heads, m, k), "float32")
    w = c.placeholder("w", (k, heads, width), "float32")
    d = _sum_product((m, heads, width), k, lambda i, h, j, q: (x[h, i, q], w[q, h, j]))
    arrays = [r.array((heads, vm, vk)), r.array((vk, heads, width))]
    return r.case("product", (x, w), (d,), arrays, [np.einsum("hiq,qhj->ihj", *arrays)])


def matmul(r: Random) -> Case:
    (m, vm), (k, vk), (u, vu) = r.size(7), r.size(36), r.size(22)
    dtype = ["float32", "float64", "int8", "int32", "float16", "bfloat16"][r.integer(0, 5)]
    x = c.placeholder("x", (m, k), dtype)
    w = c.placeholder("w", (k, u), dtype)
    d = _sum_product((m, u), k, lambda i, j, q: (x[i, q], w[q, j]))
    arrays = [r.array((vm, vk), dtype), r.array((vk, vu), dtype)]
    return r.case("matmul", (x, w), (d,), arrays)


def batch_matmul(r: Random) -> Case:
    (g, vg), (m, vm), (k, vk), (u, vu) = r.size(3), r.size(5), r.size(18), r.size(18)
    x = c.placeholder("x", (g, m, k), "float32")
    w = c.placeholder("w", (g, u, k), "float32")
    d = _sum_product((g, m, u), k, lambda s, i, j, q: (x[s, i, q], w[s, j, q]))
    arrays = [r.array((vg, vm, vk)), r.array((vg, vu, vk))]
    return r.case("batch", (x, w), (d,), arrays, [arrays[0] @ np.swapaxes(arrays[1], 1, 2)])


def tree_node(r: Random, size: int | None = None) -> Case:
    k = size or r.integer(1, 20)
    rows = 1 if size else r.integer(1, 2)
    states = [c.placeholder(name, (rows, k), "float32") for name in ("hl", "hr", "cl", "cr")]
    hl, hr, cl, cr = states
    u = c.placeholder("u", (5 * k, 2 * k), "float32")
    b = c.placeholder("b", (5 * k,), "float32")
    both = c.compute((rows, 2 * k), lambda i, j: c.select(j < k, hl[i, j], hr[i, j - k]))
    d = _sum_product((rows, 5 * k), 2 * k, lambda i, j, q: (both[i, q], u[j, q]))
    z = c.compute((rows, 5 * k), lambda i, j: d[i, j] + b[j])
    part = [c.compute((rows, k), lambda i, j, q=q: z[i, j + q * k]) for q in range(5)]
    gate = [c.compute((rows, k), lambda i, j, t=t: c.scalar("sigmoid", t[i, j])) for t in part[:4]]
    new = c.compute((rows, k), lambda i, j: c.scalar("tanh", part[4][i, j]))
    cell = c.compute(
        (rows, k),
        lambda i, j: (
            gate[0][i, j] * new[i, j] + gate[1][i, j] * cl[i, j] + gate[2][i, j] * cr[i, j]
        ),
    )
    out = c.compute((rows, k), lambda i, j: gate[3][i, j] * c.scalar("tanh", cell[i, j]))
    arrays = [r.array((rows, k)) for _ in range(4)] + [r.array((5 * k, 2 * k)), r.array((5 * k,))]
    return r.case("node", (*states, u, b), (out, cell), arrays)


def softmax(r: Random) -> Case:
    (m, vm), (k, vk) = r.size(6), r.size(40)
    x = c.placeholder("x", (m, k), "float32")
    top = c.compute((m, 1), lambda i, j: c.reduce("max", (k,), lambda q: x[i, q]))
    e = c.compute((m, k), lambda i, j: c.scalar("exp", x[i, j] - top[i, 0]))
    s = c.compute((m, 1), lambda i, j: c.reduce("sum", (k,), lambda q: e[i, q]))
    y = c.compute((m, k), lambda i, j: c.scalar("divide", e[i, j], s[i, 0]))
    arrays = [r.array((vm, vk))]
    power = np.exp(arrays[0] - arrays[0].max(1, keepdims=True))
    return r.case("softmax", (x,), (y,), arrays, [power / power.sum(1, keepdims=True)])


def layer_norm(r: Random) -> Case:
    (m, vm), (k, vk) = r.size(5), r.size(40)
    x = c.placeholder("x", (m, k), "float32")
    g = c.placeholder("g", (k,), "float32")
    length = c.cast(c.dim(k), "float32")
    total = c.compute((m,), lambda i: c.reduce("sum", (k,), lambda q: x[i, q]))
    mean = c.compute((m,), lambda i: c.scalar("divide", total[i], length))
    centred = c.compute((m, k), lambda i, j: x[i, j] - mean[i])
    spread = c.compute(
        (m,), lambda i: c.reduce("sum", (k,), lambda q: centred[i, q] * centred[i, q])
    )
    y = c.compute(
        (m, k),
        lambda i, j: (
            centred[i, j] * c.scalar("rsqrt", c.scalar("divide", spread[i], length) + 1e-5) * g[j]
        ),
    )
    return r.case("layer_norm", (x, g), (y,), [r.array((vm, vk)), r.array((vk,))])


def _exponentials(x, axis):
    """Return exp(x - max) and its sum along an axis, which stays with size 1."""
    size = x.shape[axis]
    one = tuple(1 if k == axis else d for k, d in enumerate(x.shape))

    def at(i, q):
        return tuple(q if k == axis else v for k, v in enumerate(i))

    top = c.compute(one, lambda *i: c.reduce("max", (size,), lambda q: x[at(i, q)]))
    e = c.compute(x.shape, lambda *i: c.scalar("exp", x[i] - top[at(i, c.dim(0))]))
    s = c.compute(one, lambda *i: c.reduce("sum", (size,), lambda q: e[at(i, q)]))
    return e, s, at


def softmax_of_any_axis(r: Random) -> Case:
    """A softmax or its logarithm, of rows, of columns, or of what lies between."""
    (a, va), (b, vb), (d, vd) = r.size(5), r.size(20), r.size(36)
    x = c.placeholder("x", (a, b, d), ["float32", "float64"][r.integer(0, 1)])
    axis = r.integer(0, 2)
    e, s, at = _exponentials(x, axis)
    if r.chance(0.5):
        y = c.compute(x.shape, lambda *i: c.scalar("divide", e[i], s[at(i, c.dim(0))]))
    else:
        log = c.compute(s.shape, lambda *i: c.scalar("log", s[i]))
        y = c.compute(x.shape, lambda *i: x[i] - log[at(i, c.dim(0))])
    return r.case("softmax3", (x,), (y,), [r.array((va, vb, vd), x.dtype.name)])


def group_norm(r: Random) -> Case:
    """Rows made of several channels of an image, which their group's number finds."""
    (images, vi), (h, vh), groups, each = r.size(3), r.size(9), r.integer(1, 4), r.integer(1, 4)
    x = c.placeholder("x", (images, groups * each, h), "float32")

    def channel(g, q):
        return g * each + q

    total = c.compute(
        (images, groups),
        lambda i, g: c.reduce("sum", (each, h), lambda q, p: x[i, channel(g, q), p]),
    )
    y = c.compute(
        x.shape,
        lambda i, k, p: x[i, k, p] - total[i, c.scalar("floor_divide", k, c.dim(each))],
    )
    return r.case("group_norm", (x,), (y,), [r.array((vi, groups * each, vh))])


def attention(r: Random) -> Case:
    """Two products with a softmax of the scores between them, masked or not."""
    (g, vg), (t, vt), (s, vs), (d, vd) = r.size(3), r.size(20), r.size(36), r.size(18)
    dtype = ["float32", "float64"][r.integer(0, 1)]
    turned = r.chance(0.5)
    q = c.placeholder("q", (g, t, d), dtype)
    k = c.placeholder("k", (g, s, d), dtype)
    v = c.placeholder("v", (g, d, s) if turned else (g, s, d), dtype)
    inputs, arrays = [q, k, v], [r.array(z, dtype) for z in ((vg, vt, vd), (vg, vs, vd))]
    arrays.append(r.array((vg, vd, vs) if turned else (vg, vs, vd), dtype))
    z = _sum_product((g, t, s), d, lambda n, i, j, p: (q[n, i, p], k[n, j, p]))
    z = c.compute(z.shape, lambda n, i, j, z=z: z[n, i, j] * 0.25)
    kind = r.integer(0, 2)
    if kind:
        # A mask of each kind that broadcasts: one for all rows, or one a row.
        rows, vr = ((1, 1), (t, vt))[r.integer(0, 1)]
        m = c.placeholder("m", (1, rows, s), "bool" if kind == 2 else dtype)
        inputs.append(m)
        arrays.append(r.array((1, vr, vs), m.dtype.name))
        zero = c.dim(0)

        def masked(n, i, j, z=z):
            at = m[zero, zero if rows == 1 else i, j]
            return c.select(at, z[n, i, j], -1e9) if kind == 2 else z[n, i, j] + at

        z = c.compute(z.shape, masked)
    e, total, at = _exponentials(z, 2)
    p = c.compute(z.shape, lambda *i: c.scalar("divide", e[i], total[at(i, c.dim(0))]))
    y = _sum_product(
        (g, t, d), s, lambda n, i, j, w: (p[n, i, w], v[n, j, w] if turned else v[n, w, j])
    )
    return r.case("attention", inputs, (y,), arrays)


def attention_of_heads(r: Random) -> Case:
    """Heads that are parts of the last axis of operands and result, and two axes of the mask's."""
    (b, vb), (t, vt), (s, vs) = r.size(2), r.size(20), r.size(24)
    h, d = r.integer(1, 3), r.integer(1, 2) * r.integer(1, 10)
    inputs = [
        c.placeholder(name, (b, length, h * d), "float32")
        for name, length in (("q", t), ("k", s), ("v", s))
    ]
    arrays = [r.array((vb, length, h * d)) for length in (vt, vs, vs)]
    q, k, v = inputs
    if r.chance(0.3):
        k, inputs, arrays, s, vs = q, [q, v], arrays[::2], t, vt
        v = inputs[1] = c.placeholder("v", (b, s, h * d), "float32")
        arrays[1] = r.array((vb, vs, h * d))

    def of_head(x, g, i, p):
        head = c.scalar("floor_mod", g, c.dim(h))
        return x[c.scalar("floor_divide", g, c.dim(h)), i, head * d + p]

    z = _sum_product(
        (b * h, t, s), d, lambda g, i, j, p: (of_head(q, g, i, p), of_head(k, g, j, p))
    )
    z = c.compute((b, h, t, s), lambda n, g, i, j, z=z: z[n * h + g, i, j] * 0.5)
    if r.chance(0.7):
        m = c.placeholder("m", (b, 1, 1, s), "float32")
        inputs.append(m)
        arrays.append(r.array((vb, 1, 1, vs)))
        zero = c.dim(0)
        z = c.compute(z.shape, lambda n, g, i, j, z=z: z[n, g, i, j] + m[n, zero, zero, j])
    e, total, at = _exponentials(z, 3)
    p = c.compute(z.shape, lambda *i: c.scalar("divide", e[i], total[at(i, c.dim(0))]))
    flat = c.compute(
        (b * h, t, s),
        lambda g, i, j: p[
            c.scalar("floor_divide", g, c.dim(h)), c.scalar("floor_mod", g, c.dim(h)), i, j
        ],
    )
    o = _sum_product((b * h, t, d), s, lambda g, i, j, w: (flat[g, i, w], of_head(v, g, w, j)))
    y = c.compute(
        (b, t, h * d),
        lambda n, i, k: o[
            n * h + c.scalar("floor_divide", k, c.dim(d)), i, c.scalar("floor_mod", k, c.dim(d))
        ],
    )
    return r.case("heads", inputs, (y,), arrays)


def dense_and_norm(r: Random) -> Case:
    """A layer with a bias and a residual, less the mean of its rows."""
    (m, vm), (k, vk), (u, vu) = r.size(20), r.size(36), r.size(22)
    x, w = c.placeholder("x", (m, k), "float32"), c.placeholder("w", (u, k), "float32")
    b, rest = c.placeholder("b", (u,), "float32"), c.placeholder("r", (m, u), "float32")
    d = _sum_product((m, u), k, lambda i, j, q: (x[i, q], w[j, q]))
    z = c.compute((m, u), lambda i, j: d[i, j] + b[j] + rest[i, j])
    total = c.compute((m,), lambda i: c.reduce("sum", (u,), lambda q: z[i, q]))
    y = c.compute((m, u), lambda i, j: z[i, j] - total[i])
    arrays = [r.array((vm, vk)), r.array((vu, vk)), r.array((vu,)), r.array((vm, vu))]
    return r.case("dense_norm", (x, w, b, rest), (y, z) if r.chance(0.3) else (y,), arrays)


def reduction(r: Random) -> Case:
    (a, va), (b, vb), (d, vd) = r.size(7), r.size(7), r.size(20)
    kind = c.REDUCTIONS[r.integer(0, 5)]
    dtype = "bool" if kind in ("any", "all") else ["float32", "int16", "float16"][r.integer(0, 2)]
    x = c.placeholder("x", (a, b, d), dtype)
    which = r.integer(0, 6)
    shapes = {
        0: ((b, d), (a,), lambda o, q: x[q[0], o[0], o[1]]),
        1: ((a, d), (b,), lambda o, q: x[o[0], q[0], o[1]]),
        2: ((a, b), (d,), lambda o, q: x[o[0], o[1], q[0]]),
        3: ((d,), (a, b), lambda o, q: x[q[0], q[1], o[0]]),
        4: ((a,), (b, d), lambda o, q: x[o[0], q[0], q[1]]),
        5: ((), (a, b, d), lambda o, q: x[q]),
        6: ((b,), (a, d), lambda o, q: x[q[0], o[0], q[1]]),
    }
    shape, extents, load = shapes[which]
    y = c.compute(shape, lambda *o: c.reduce(kind, extents, lambda *q: load(o, q)))
    axes = {0: 0, 1: 1, 2: 2, 3: (0, 1), 4: (1, 2), 5: None, 6: (0, 2)}[which]
    array = r.array((va, vb, vd), dtype)
    expected = None
    if kind in ("max", "min", "any", "all"):
        expected = [np.asarray(getattr(np, kind)(array, axis=axes))]
    return r.case(kind, (x,), (y,), [array], expected)


def arg_reduction(r: Random) -> Case:
    (a, va), (b, vb) = r.size(9), r.size(20, low=1)
    kind = ["argmax", "argmin"][r.integer(0, 1)]
    x = c.placeholder("x", (a, b), "float32")
    array = np.round(r.array((va, vb)))
    if r.chance(0.3):
        array[r.integer(0, va - 1), r.integer(0, vb - 1)] = np.nan
    y = c.compute((a,), lambda i: c.arg_reduce(kind, (b,), lambda q: x[i, q]))
    expected = getattr(np, kind)(array, axis=1).astype("int32")
    return r.case(kind, (x,), (y,), [array], [expected])


def elementwise(r: Random) -> Case:
    sizes = [r.size(20) for _ in range(r.integer(1, 3))]
    shape, values = tuple(s for s, _ in sizes), tuple(v for _, v in sizes)
    dtype = ["float32", "int8", "int64", "float64", "float16", "bfloat16"][r.integer(0, 5)]
    x, y = c.placeholder("x", shape, dtype), c.placeholder("y", shape, dtype)
    s = c.placeholder("s", (), dtype)
    t = c.compute(shape, lambda *i: x[i] * y[i] + s[()])
    o = c.compute(shape, lambda *i: c.select(t[i] < x[i], t[i] - y[i], c.scalar("abs", t[i])))
    arrays = [r.array(values, dtype), r.array(values, dtype), r.array((), dtype)]
    return r.case("elementwise", (x, y, s), (o, t) if r.chance(0.5) else (o,), arrays)


def broadcast(r: Random) -> Case:
    (m, vm), (k, vk) = r.size(12), r.size(40)
    x, b = c.placeholder("x", (m, k), "float32"), c.placeholder("b", (k,), "float32")
    col = c.placeholder("col", (m, 1), "float32")
    y = c.compute((m, k), lambda i, j: (x[i, j] + b[j]) * col[i, 0])
    arrays = [r.array((vm, vk)), r.array((vk,)), r.array((vm, 1))]
    return r.case("broadcast", (x, b, col), (y,), arrays, [(arrays[0] + arrays[1]) * arrays[2]])


def strided(r: Random) -> Case:
    """Two operands whose dims are broadcast at run time."""
    value = r.integer(1, 30)
    shapes = [(1 if r.chance(0.4) else 3, 1 if r.chance(0.4) else value) for _ in range(2)]
    variables = [DimVar(f"n{k}") for k in range(4)]
    r.variables += variables
    r.values.update(zip(("n0", "n1", "n2", "n3"), (*shapes[0], *shapes[1])))
    p, q, s, t = (symbol(v) for v in variables)
    x, y = c.placeholder("x", (p, q), "float32"), c.placeholder("y", (s, t), "float32")
    shape = (dim_broadcast(p, s), dim_broadcast(q, t))
    o = c.compute(shape, lambda i, j: x[i, j] + y[i, j])
    arrays = [r.array(shapes[0]), r.array(shapes[1])]
    return r.case("strided", (x, y), (o,), arrays, [arrays[0] + arrays[1]], strided=(0, 1))


def strided_read(r: Random) -> Case:
    """A sum of operands whose dims are broadcast at run time, and what reads it inlined."""
    whole = (r.integer(3, 6), r.integer(4, 40))
    inputs, arrays = [], []
    shape: tuple = (1, 1)
    for number in range(r.integer(2, 3)):
        values = [1 if r.chance(0.5) else size for size in whole] if number else list(whole)
        variables = [DimVar(f"d{number}_{k}") for k in range(2)]
        r.variables += variables
        r.values.update((v.name, value) for v, value in zip(variables, values))
        dims = tuple(map(symbol, variables))
        inputs.append(c.placeholder(f"x{number}", dims, "float32"))
        arrays.append(r.array(tuple(values)))
        shape = tuple(map(dim_broadcast, shape, dims))
    total = sum(arrays[1:], arrays[0])
    at = r.integer(0, 2)

    def inner(i, j):
        value = inputs[0][i, j]
        for x in inputs[1:]:
            value = value + x[i, j]
        return value

    z = c.compute(shape, inner)
    (m, k), x = shape, inputs[0]
    reader, wanted = [
        (c.compute((m,), lambda i: z[i, at]), total[:, at]),
        (c.compute((k, 2), lambda j, i: z[i + 1, j]), total[1:3].T),
        (
            c.compute((m,), lambda i: c.reduce("max", (k,), lambda j: z[i, j])),
            total.max(axis=1),
        ),
        (c.compute((), lambda: c.reduce("min", shape, lambda i, j: z[i, j])), total.min()),
        (
            c.compute((m, m), lambda i, l: c.reduce("max", (k,), lambda j: z[i, j] - z[l, j])),
            (total[:, None] - total[None]).max(axis=2),
        ),
        (
            c.compute((m, k), lambda i, j: c.select(x[i, j] > 0.0, z[i, j], x[i, j])),
            np.where(arrays[0] > 0, total, arrays[0]),
        ),
    ][r.integer(0, 5)]
    every = range(len(inputs))
    wanted = [np.asarray(wanted)]
    return r.case("strided_read", inputs, (reader,), arrays, wanted, strided=every)


def movement(r: Random) -> Case:
    (m, vm), (a, va), (b, vb) = r.size(6), r.size(20), r.size(20)
    x, y = c.placeholder("x", (m, a), "float32"), c.placeholder("y", (m, b), "float32")
    joined = c.compute(
        (m, a + b),
        lambda i, j: c.select(j < a, x[i, j], y[i, j - a]),
    )
    turned = c.compute((a + b, m), lambda i, j: joined[j, i])
    arrays = [r.array((vm, va)), r.array((vm, vb))]
    both = np.concatenate(arrays, 1)
    if r.chance(0.5):
        return r.case("join", (x, y), (joined,), arrays, [both])
    return r.case("turn", (x, y), (turned,), arrays, [both.T])


def turned(r: Random) -> Case:
    """Axes in any order, alone or in a sum with what is not turned."""
    sizes = [r.size(high) for high in (9, 20, 40)]
    order = [int(k) for k in r.rng.permutation(3)]
    shape = tuple(sizes[k][0] for k in order)
    x = c.placeholder("x", tuple(d for d, _ in sizes), "float32")
    w = c.placeholder("w", shape, "float32")

    def value(*i):
        place = [i[order.index(k)] for k in range(3)]
        return x[tuple(place)] + w[i]

    arrays = [r.array(tuple(v for _, v in sizes)), r.array(tuple(sizes[k][1] for k in order))]
    y = c.compute(shape, value)
    return r.case("turned", (x, w), (y,), arrays, [arrays[0].transpose(order) + arrays[1]])


def joined(r: Random) -> Case:
    """Several tensors along one axis, some empty, maybe in a sum or a reduction."""
    axis, rest, vrest = r.integer(0, 1), *r.size(40)
    sizes = [r.size(r.integer(1, 40), 0) for _ in range(r.integer(2, 4))]
    shapes = [(d, rest) if axis == 0 else (rest, d) for d, _ in sizes]
    inputs = [c.placeholder(f"x{k}", shape, "float32") for k, shape in enumerate(shapes)]
    starts = [0]
    for d, _ in sizes:
        starts.append(starts[-1] + d)

    def value(i, j):
        at = j if axis else i
        result = None
        for k in reversed(range(len(inputs))):
            place = (i, at - starts[k]) if axis else (at - starts[k], j)
            result = (
                inputs[k][place]
                if result is None
                else c.select(at < starts[k + 1], inputs[k][place], result)
            )
        return result

    shape = (rest, starts[-1]) if axis else (starts[-1], rest)
    y = c.compute(shape, value)
    arrays = [r.array((v, vrest) if axis == 0 else (vrest, v)) for _, v in sizes]
    both = np.concatenate(arrays, axis)
    if r.chance(0.3):
        total = c.compute(shape[:1], lambda i: c.reduce("max", shape[1:], lambda q: y[i, q]))
        return r.case("joined", inputs, (y, total), arrays)
    if r.chance(0.3):
        y = c.compute(shape, lambda i, j: value(i, j) + 1.0)
        both = both + 1
    return r.case("joined", inputs, (y,), arrays, [both])


def reshape(r: Random) -> Case:
    (m, vm), k, g = r.size(6), r.integer(1, 6), r.integer(1, 20)
    x = c.placeholder("x", (m, k * g), "float32")
    split = c.compute((m, k, g), lambda i, j, q: x[i, j * g + q])
    back = c.compute((m * k, g), lambda i, q: split[i // k, i % k, q] + 1.0)
    arrays = [r.array((vm, k * g))]
    return r.case("reshape", (x,), (back,), arrays, [arrays[0].reshape(vm * k, g) + 1])


def take(r: Random) -> Case:
    (n, vn), (k, vk), (m, vm) = r.size(9), r.size(20), r.size(9)
    table = c.placeholder("table", (n, k), "float32")
    at = c.placeholder("at", (m,), "int32")
    mode = ["trap", "clip", "wrap"][r.integer(0, 2)]
    indices = r.rng.integers(0, vn, vm) if mode == "trap" else r.rng.integers(-20, 20, vm)
    y = c.compute((m, k), lambda i, j: table[c.index(at[i], n, mode), j])
    arrays = [r.array((vn, vk)), indices.astype("int32")]
    rows = np.clip(indices, 0, vn - 1) if mode == "clip" else indices % vn
    return r.case("take", (table, at), (y,), arrays, [arrays[0][rows]])


def clipped(r: Random) -> Case:
    """An axis of unknown size that broadcasts to a known one, or is cut to it."""
    whole = (r.integer(1, 6), r.integer(5, 40))
    inputs, arrays, total = [], [], np.zeros(whole, "float32")
    for number in range(r.integer(1, 2)):
        values = [[size, 1, size + 3][r.integer(0, 2)] for size in whole]
        variables = [DimVar(f"d{number}_{k}") for k in range(2)]
        r.variables += variables
        r.values.update((v.name, value) for v, value in zip(variables, values))
        inputs.append(c.placeholder(f"x{number}", tuple(map(symbol, variables)), "float32"))
        arrays.append(r.array(tuple(values)))
        rows, columns = (np.minimum(range(w), v - 1) for w, v in zip(whole, values))
        total = arrays[-1][np.ix_(rows, columns)] + total

    def value(i, j):
        result = c.const(0, "float32")
        for x in inputs:
            place = [c.index(k, d, "clip") for k, d in zip((i, j), x.shape)]
            result = x[tuple(place)] + result
        return result

    y = c.compute(whole, value)
    strided = range(len(inputs)) if r.chance(0.5) else ()
    return r.case("clipped", inputs, (y,), arrays, [total], strided=strided)


def gather(r: Random) -> Case:
    """An index loaded for every element: alone, under a condition, in groups with reductions."""
    (m, vm), (k, vk), (n, vn) = r.size(6), r.size(40), r.size(9)
    table = c.placeholder("table", (n,), "float32")
    at = c.placeholder("at", (m, k), "int32")
    x = c.placeholder("x", (m, k), "float32")
    mode = ["trap", "clip", "wrap", "fill"][r.integer(0, 3)]
    guarded = r.chance(0.5)

    def value(i, j):
        found = table[c.index(at[i, j], n, mode)] + x[i, j]
        return c.select(x[i, j] < 0.0, x[i, j], found) if guarded else found

    outputs = [c.compute((m, k), value)]
    y = outputs[0]
    if r.chance(0.6):
        total = c.compute((m,), lambda i: c.reduce("sum", (k,), lambda q: y[i, q]))
        outputs = [c.compute((m, k), lambda i, j: y[i, j] - total[i])]
    if r.chance(0.3):
        outputs.append(total if len(outputs) > 1 else y)
    indices = r.rng.integers(0, vn, (vm, vk)).astype("int32")
    if mode != "trap":
        indices += r.integer(-9, 9)
    arrays = [r.array((vn,)), indices, r.array((vm, vk))]
    return r.case("gather", (table, at, x), tuple(dict.fromkeys(outputs)), arrays)


def pad(r: Random) -> Case:
    (n, vn), before, after = r.size(20), r.integer(0, 5), r.integer(0, 5)
    x = c.placeholder("x", (n,), "float32")

    def value(i):
        inside = c.scalar("logical_and", i >= before, i < c.dim(n) + before)
        return c.select(inside, x[i - before], 0.0)

    y = c.compute((n + before + after,), value)
    array = r.array((vn,))
    return r.case("pad", (x,), (y,), [array], [np.pad(array, (before, after))])


def pad_images(r: Random) -> Case:
    (b, vb), (h, vh), (w, vw) = r.size(4), r.size(9), r.size(40)
    (up, left), down = (r.integer(0, 3) for _ in range(2)), r.integer(0, 20)
    x = c.placeholder("x", (b, h, w), "float32")

    def inside(i, size, before):
        return c.scalar("logical_and", i >= before, i < c.dim(size) + before)

    def value(k, i, j):
        both = c.scalar("logical_and", inside(i, h, up), inside(j, w, left))
        return c.select(both, x[k, i - up, j - left], -1.0)

    y = c.compute((b, h + up + down, w + left + down), value)
    array = r.array((vb, vh, vw))
    wanted = np.pad(array, ((0, 0), (up, down), (left, down)), constant_values=-1)
    return r.case("pad_images", (x,), (y,), [array], [wanted])


FAMILIES = (
    dense,
    dense_and_gelu,
    dense_to_heads,
    product_of_heads,
    matmul,
    batch_matmul,
    tree_node,
    softmax,
    layer_norm,
    softmax_of_any_axis,
    group_norm,
    attention,
    attention_of_heads,
    dense_and_norm,
    reduction,
    arg_reduction,
    elementwise,
    broadcast,
    strided,
    strided_read,
    movement,
    turned,
    joined,
    reshape,
    take,
    clipped,
    gather,
    pad,
    pad_images,
)
