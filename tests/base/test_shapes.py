"""Shape rules run against integers, symbols and unknown dims."""

from __future__ import annotations

import pytest

from relayvm.base.dims import ANY, Dim, DimVar, symbol
from relayvm.base.shapes import (
    Check,
    ShapeError,
    broadcast_shapes,
    join_dims,
    require_broadcast,
    require_equal,
    shape_context,
)

N, M = (symbol(DimVar(name)) for name in "nm")


def test_known_sizes_fold_without_checks() -> None:
    with shape_context() as context:
        assert broadcast_shapes((2, 1, 4), (3, 1)) == (2, 3, 4)
    assert context.checks == []


def test_known_difference_is_an_error_with_both_values() -> None:
    with pytest.raises(ShapeError, match=r"rows of `a` and `b` differ: 3 and 4"):
        require_equal(3, 4, "rows of `a` and `b`")
    with pytest.raises(ShapeError, match=r"axis 0 of the shapes do not broadcast: 3 and 4"):
        broadcast_shapes((3,), (4,))


@pytest.mark.parametrize(("a", "b", "better"), [(ANY, 5, 5), (5, ANY, 5), (N, 5, 5), (N, ANY, N)])
def test_the_better_known_size_wins_and_leaves_a_check(a: Dim, b: Dim, better: Dim) -> None:
    with shape_context() as context:
        assert require_equal(a, b, "both") == better
    assert context.checks == [Check(a, b, "both")]


@pytest.mark.parametrize(
    ("a", "b", "size"), [(ANY, 1, ANY), (ANY, 5, 5), (N, 1, N), (N, 5, 5), (ANY, ANY, ANY)]
)
def test_broadcast_of_unknown_sizes(a: Dim, b: Dim, size: Dim) -> None:
    with shape_context() as context:
        assert require_broadcast(a, b, "both") == size
    assert bool(context.checks) == (b != 1)


@pytest.mark.parametrize(
    ("a", "b", "size"), [(N * 12, M * 12 + 24, N * 12), (N * 12, 24, 24), (24, N * 12, 24)]
)
def test_sizes_that_cannot_be_1_are_equal(a: Dim, b: Dim, size: Dim) -> None:
    with shape_context() as context:
        assert require_broadcast(a, b, "both") == size
    assert context.checks == [Check(a, b, "both")]


def test_sizes_of_which_one_may_be_1_are_broadcast() -> None:
    for a in (N * 12, N * 12 + 13, N * M):
        with shape_context() as context:
            require_broadcast(a, N, "both")
        assert context.checks == [Check(a, N, "both", broadcast=True)]


def test_sizes_that_neither_agree_nor_can_be_1_are_an_error() -> None:
    with pytest.raises(ShapeError, match=r"both do not broadcast: n\*12 \+ 24 and n\*12"):
        require_broadcast(N * 12 + 24, N * 12, "both")


def test_a_check_is_noted_once() -> None:
    with shape_context() as context:
        require_equal(N, 5, "both")
        require_equal(N, 5, "both")
    assert len(context.checks) == 1


def test_contexts_nest() -> None:
    with shape_context() as outer:
        with shape_context() as inner:
            require_equal(ANY, 5, "both")
        assert len(inner.checks) == 1
    assert outer.checks == []


def test_join_keeps_what_agrees() -> None:
    assert join_dims(N, N) == N
    assert join_dims(5, 7) is ANY
    assert join_dims(5, ANY) is ANY
