"""Joins of computed parts: each part is written where it belongs, with the bits of naive loops."""

from __future__ import annotations

import zlib

import pytest

from relayvm.base.dims import dim_add
from relayvm.base.target import Target
from relayvm.kernels import compute as c
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, lower
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.schedules.joins import split_outputs
from relayvm.kernels.verify import verify_nest

from .computations import Case, Random

TARGETS = (Target(cpu="skylake-avx512"), Target(cpu="generic"))


class Pieces:
    """Draws parts of a join along `axis`: products, windows, shares, copies, elementwise ones."""

    def __init__(self, r: Random, rank: int, axis: int) -> None:
        self.r = r
        self.axis = axis
        self.sizes = [r.size(6) for _ in range(rank)]
        self.inputs: list[c.Tensor] = []
        self.arrays: list = []

    def shape(self):
        """Return sizes of a part, and their values; those along the axis are its own."""
        sizes = list(self.sizes)
        sizes[self.axis] = self.r.size(20)
        return tuple(s for s, _ in sizes), tuple(v for _, v in sizes)

    def given(self, shape, values) -> c.Tensor:
        tensor = c.placeholder(f"x{len(self.inputs)}", shape, "float32")
        self.inputs.append(tensor)
        self.arrays.append(self.r.array(values))
        return tensor

    def piece(self) -> c.Tensor:
        shape, values = self.shape()
        kinds = [self.product, self.product, self.share, self.copy, self.curve]
        if len(shape) == 4:
            kinds.append(self.window)
        return kinds[self.r.integer(0, len(kinds) - 1)](shape, values)

    def product(self, shape, values) -> c.Tensor:
        k, vk = self.r.size(20)
        x = self.given((*shape[:-1], k), (*values[:-1], vk))
        w = self.given((shape[-1], k), (values[-1], vk))
        return c.compute(
            shape, lambda *i: c.reduce("sum", (k,), lambda q: x[(*i[:-1], q)] * w[i[-1], q])
        )

    def window(self, shape, values) -> c.Tensor:
        (n, o, h, w), (vn, vo, vh, vw) = shape, values
        x = self.given((n, 2, dim_add(h, 2), dim_add(w, 2)), (vn, 2, vh + 2, vw + 2))
        k = self.given((o, 2, 3, 3), (vo, 2, 3, 3))
        return c.compute(
            shape,
            lambda b, p, y, z: c.reduce(
                "sum", (2, 3, 3), lambda q, i, j: x[b, q, y + i, z + j] * k[p, q, i, j]
            ),
        )

    def share(self, shape, values) -> c.Tensor:
        x = self.given(shape, values)
        last = shape[-1]
        top = c.compute(
            (*shape[:-1], 1), lambda *i: c.reduce("max", (last,), lambda q: x[(*i[:-1], q)])
        )
        return c.compute(shape, lambda *i: x[i] - top[(*i[:-1], c.dim(0))])

    def copy(self, shape, values) -> c.Tensor:
        return self.given(shape, values)

    def curve(self, shape, values) -> c.Tensor:
        x = self.given(shape, values)
        return c.compute(shape, lambda *i: c.scalar("tanh", x[i]))


def joined(pieces: list[c.Tensor], axis: int) -> c.Tensor:
    """Return the join as `concatenate` writes it, the part found by halving."""
    starts = [0]
    for piece in pieces:
        starts.append(dim_add(starts[-1], piece.shape[axis]))

    def element(*i):
        def find(first: int, end: int):
            if end - first == 1:
                at = (*i[:axis], i[axis] - c.dim(starts[first]), *i[axis + 1 :])
                return pieces[first][at]
            middle = (first + end) // 2
            left, right = find(first, middle), find(middle, end)
            return c.select(i[axis] < c.dim(starts[middle]), left, right)

        return find(0, len(pieces))

    shape = list(pieces[0].shape)
    shape[axis] = starts[-1]
    return c.compute(tuple(shape), element)


def case(number: int) -> Case:
    r = Random(zlib.crc32(f"joins {number}".encode()))
    rank = r.integer(1, 4)
    axis = r.integer(0, rank - 1)
    made = Pieces(r, rank, axis)
    pieces = [made.piece() for _ in range(r.integer(2, 4))]
    if r.chance(0.2):
        pieces.append(pieces[0])
    result = joined(pieces, axis)
    if r.chance(0.4):
        whole = result
        result = c.compute(whole.shape, lambda *i: c.scalar("maximum", whole[i], 0.0) * 2.0)
    outputs = [result]
    if r.chance(0.3):
        outputs.append(next(p for p in pieces if p is not None))
    return r.case("joined", made.inputs, outputs, made.arrays)


def check(number: int) -> None:
    one = case(number)
    naive = interpret(lower(one.computation), one.arrays, one.dims)
    nest = schedule(one.computation, TARGETS[number % 2])
    verify_nest(nest)
    results = interpret(nest, one.arrays, one.dims, slices=1 + number % 3)
    for a, b in zip(naive, results, strict=True):
        assert a.tobytes() == b.tobytes(), f"{number}: {one.dims}\n{print_nest(nest)}"
    assert parse_nest(print_nest(nest)) == nest
    assert "index(" not in print_nest(nest), number


def test_parts_of_a_join_have_the_bits_of_naive_loops():
    for number in range(6):
        check(number)


@pytest.mark.slow
def test_more_parts_of_joins_have_the_bits_of_naive_loops():
    for number in range(6, 60):
        check(number)


def product(x: c.Tensor, w: c.Tensor) -> c.Tensor:
    k = x.shape[-1]
    shape = (*x.shape[:-1], w.shape[0])
    return c.compute(
        shape, lambda *i: c.reduce("sum", (k,), lambda q: x[(*i[:-1], q)] * w[i[-1], q])
    )


X = c.placeholder("x", (4, 8), "float32")
W = c.placeholder("w", (6, 8), "float32")
V = c.placeholder("v", (6, 8), "float32")


@pytest.mark.parametrize("axis", [0, 1])
def test_products_are_written_where_they_belong(axis):
    pieces = [product(X, W), product(X, V)]
    nest = schedule(Computation("k", (X, W, V), (joined(pieces, axis),)))
    assert nest.scratch == ()
    assert [b.name for b in nest.operands] == ["in0", "in1", "in2", "out0"]


def test_what_follows_a_join_is_computed_in_each_part():
    whole = joined([product(X, W), X], 1)
    curve = c.compute(whole.shape, lambda *i: c.scalar("tanh", whole[i]))
    twice = c.compute(whole.shape, lambda *i: curve[i] * 2.0)
    assert schedule(Computation("k", (X, W), (twice,))).scratch == ()


def test_a_part_that_something_else_reads_stays_where_it_is():
    part = product(X, W)
    other = c.compute(part.shape, lambda *i: c.scalar("tanh", part[i]))
    tensors, _ = split_outputs((joined([part, other], 0),))
    assert part not in tensors
    assert len(schedule(Computation("k", (X, W), (joined([part, other], 0),))).scratch) == 1


def test_joins_that_are_read_again_stay_whole():
    whole = joined([product(X, W), product(X, V)], 1)
    sums = c.compute((4,), lambda i: c.reduce("sum", (12,), lambda q: whole[i, q]))
    tensors, _ = split_outputs((whole, sums))
    assert tensors == (whole, sums)


def test_joins_of_what_needs_no_memory_are_one_loop():
    curve = c.compute(X.shape, lambda *i: c.scalar("tanh", X[i]))
    nest = schedule(Computation("k", (X,), (joined([X, curve], 0),)))
    assert len(nest.phases) == 1
