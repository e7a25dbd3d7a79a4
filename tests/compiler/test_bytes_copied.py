"""Bytes that a compiled program writes: parts along the leading axis are views, other parts and
joins are read in place or written where they belong.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm.base.abi import Direction

X = np.arange(24, dtype=np.float32).reshape(6, 4)
FLOAT = 4


def run(body: str, *args: Any, params: str = "%x: Tensor[(6, 4), float32]") -> tuple[Any, int]:
    """Return the result of a program and the bytes that its kernels write in one run of each."""
    exe = relayvm.compile(relayvm.parse(f"def @main({params}) {{ {body} }}"))
    written = 0
    for kernel in exe.program().kernels:
        signature = kernel.signature
        results = [o for o in signature.operands if o.direction is Direction.OUTPUT]
        written += sum(math.prod(o.dims) * o.dtype.itemsize_bytes for o in results)
        written += signature.scratch_bytes
    return relayvm.VirtualMachine(exe).run(*args), written


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("strided_slice(%x, begin=[2], end=[4])", (2, 4)),
        ("strided_slice(%x, begin=[-3, 0], end=[100, 4], strides=[1, 1])", (3, 6)),
        ('strided_slice(%x, begin=[1], end=[2], slice_mode="size")', (1, 3)),
        ("split(%x, indices_or_sections=3, axis=0).1", (2, 4)),
        ("split(%x, indices_or_sections=[1, 4], axis=-2).2", (4, 6)),
        ("strided_slice(strided_slice(%x, begin=[1], end=[6]), begin=[2], end=[4])", (3, 5)),
        ("strided_slice(%x, begin=[3], end=[3])", (3, 3)),
        ("strided_slice(%x, begin=[8], end=[9])", (6, 6)),
    ],
)
def test_parts_of_the_leading_axis_are_views(body: str, rows: tuple[int, int]) -> None:
    result, written = run(body, X)
    np.testing.assert_array_equal(result, X[slice(*rows)])
    assert written == 0


PARTS = [
    ("strided_slice(%x, begin=[2], end=[4])", lambda x: x[2:4]),
    ("strided_slice(%x, begin=[-3, 0], end=[100, 4], strides=[1, 1])", lambda x: x[-3:]),
    ("strided_slice(%x, begin=[1, 0], end=[-1, 2147483647])", lambda x: x[1:-1]),
    ("strided_slice(%x, begin=[-5], end=[-2])", lambda x: x[-5:-2]),
    ('strided_slice(%x, begin=[1], end=[2], slice_mode="size")', lambda x: x[1:3]),
    ('strided_slice(%x, begin=[1], end=[-1], slice_mode="size")', lambda x: x[1:]),
    (
        "strided_slice(strided_slice(%x, begin=[1], end=[6]), begin=[-4], end=[4])",
        lambda x: x[1:6][-4:4],
    ),
    ("split(%x, indices_or_sections=3, axis=0).1", lambda x: x[len(x) // 3 : len(x) // 3 * 2]),
    ("split(%x, indices_or_sections=[1, 3], axis=-2).2", lambda x: x[3:]),
    (
        "split(strided_slice(%x, begin=[-3], end=[9]), indices_or_sections=3, axis=0).2",
        lambda x: x[-3:9][2:],
    ),
]


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
@pytest.mark.parametrize("length", ["n", "?", "n*3"])
def test_parts_of_axes_of_any_length_are_views(length: str, engine: str, tmp_path: Path) -> None:
    generic = "[n]" if "n" in length else ""
    parameter = f"%x: Tensor[({length}, 4), float32]"
    entries = [f"def @p{i}{generic}({parameter}) {{ {body} }}" for i, (body, _) in enumerate(PARTS)]
    compiled = relayvm.compile(relayvm.parse("\n".join(entries)))
    assert not compiled.program().kernels
    compiled.save(tmp_path / "parts.rvm")
    vm = relayvm.VirtualMachine(relayvm.load(tmp_path / "parts.rvm"), engine=engine)
    for rows in (3, 6, 12):
        x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
        for i, (body, meant) in enumerate(PARTS):
            np.testing.assert_array_equal(vm.invoke(f"p{i}", x), meant(x), body)


@pytest.mark.parametrize(
    ("part", "rows"),
    [("indices_or_sections=2", 5), ("indices_or_sections=[1, 4]", 3), ("indices_or_sections=4", 2)],
)
def test_a_split_that_does_not_fit_an_axis_of_any_length_traps(part: str, rows: int) -> None:
    text = f"def @main(%x: Tensor[(?, 4), float32]) {{\n  split(%x, {part}, axis=0)\n}}"
    exe = relayvm.compile(relayvm.parse(text))
    assert not exe.program().kernels
    with pytest.raises(relayvm.Trap, match=r"must be equal\n.*:2:3") as trap:
        relayvm.VirtualMachine(exe).run(np.zeros((rows, 4), np.float32))
    assert trap.value.code == "run-time-shape"


@pytest.mark.parametrize(("long", "short"), [("6", "2"), ("n", "2"), ("n*3", "n"), ("?", "?")])
def test_parts_as_long_as_others_are_views(long: str, short: str) -> None:
    generic = "[n]" if "n" in long else ""
    params = f"%x: Tensor[({long}, 4), float32], %y: Tensor[({short}, 4), float32]"
    body = """
      let %z = strided_slice(%x, begin=[1], end=[5]);
      let %p = split_like(%x, (%y, %z), axis=-2);
      (slice_like(%x, %y), slice_like(%z, %y, axes=[0]), %p.0, %p.1)
    """
    exe = relayvm.compile(relayvm.parse(f"def @main{generic}({params}) {{ {body} }}"))
    assert not exe.program().kernels
    vm = relayvm.VirtualMachine(exe)
    results = vm.run(X, np.zeros((2, 4), np.float32))
    for result, wanted in zip(results, (X[:2], X[1:3], X[:2], X[2:])):
        np.testing.assert_array_equal(result, wanted)
    if short == "?":
        with pytest.raises(relayvm.Trap, match="`split_like`: sizes 6 and 7 must be equal"):
            vm.run(X, np.zeros((3, 4), np.float32))


SLICE = "%x: Tensor[(?, 64), float32], %v: Tensor[({0}), int64], %w: Tensor[({0}), int64]"
SLICE += ", %s: Tensor[({0}), int64]"


def grown(vm: relayvm.VirtualMachine, *args: Any) -> tuple[Any, int]:
    """Return the result of a run and how many more bytes than before the machine held at once."""
    before = vm.stats()["peak_bytes"]
    result = vm.run(*args)
    return result, vm.stats()["peak_bytes"] - before


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
def test_rows_between_bounds_of_the_run_are_views(engine: str) -> None:
    x = np.arange(1000 * 64, dtype=np.float32).reshape(1000, 64)
    one, two = (
        relayvm.compile(
            relayvm.parse(f"def @main({SLICE.format(n)}) {{ dyn.strided_slice(%x, %v, %w, %s) }}")
        )
        for n in (1, 2)
    )
    cases = [
        ((10,), (900,), (1,)),
        ((-5,), (2000,), (1,)),
        ((2000,), (3000,), (1,)),
        ((5,), (2,), (1,)),
    ]
    cases += [((10, 0), (900, 64), (1, 1)), ((-900, -64), (-1, 100), (1, 1))]
    for begin, end, step in cases:
        vm = relayvm.VirtualMachine((one, two)[len(begin) - 1], engine=engine)
        bounds = [np.array(b, np.int64) for b in (begin, end, step)]
        result, held = grown(vm, x, *bounds)
        np.testing.assert_array_equal(result, x[begin[0] : end[0]])
        assert held < 64 * 1024, (begin, end)
    for begin, end, step in [((900, 0), (10, 64), (-1, 1)), ((10, 1), (900, 64), (1, 1))]:
        bounds = [np.array(b, np.int64) for b in (begin, end, step)]
        result = relayvm.VirtualMachine(two, engine=engine).run(x, *bounds)
        wanted = x[tuple(slice(*b) for b in zip(begin, end, step))]
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
@pytest.mark.parametrize(
    ("call", "values", "shape"),
    [
        ("dyn.reshape(%x, %v)", [10, -1, 64], (10, 100, 64)),
        ("dyn.expand_dims(%x, take(%v, 0), num_newaxis=1)", [1], (1000, 1, 64)),
        ("dyn.squeeze(expand_dims(%x, axis=0), %v)", [0], (1000, 64)),
    ],
)
def test_shapes_of_the_run_are_views(call: str, values: list, shape: tuple, engine: str) -> None:
    params = f"%x: Tensor[(?, 64), float32], %v: Tensor[({len(values)}), int64]"
    exe = relayvm.compile(relayvm.parse(f"def @main({params}) {{ {call} }}"))
    x = np.arange(1000 * 64, dtype=np.float32).reshape(1000, 64)
    vm = relayvm.VirtualMachine(exe, engine=engine)
    result, held = grown(vm, x, np.array(values, np.int64))
    np.testing.assert_array_equal(result, x.reshape(shape))
    assert held < 64 * 1024
    with pytest.raises(relayvm.Trap) as trap:
        vm.run(x, np.array([7] * len(values), np.int64))
    assert trap.value.code == "bad-value"


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
def test_what_is_updated_in_place_is_not_seen_through_rows_of_the_run(engine: str) -> None:
    text = """
    def @main(%x: Tensor[(?, 4), float32], %v: Tensor[(1), int64], %w: Tensor[(1), int64]) {
      let %y = exp(%x);
      let %p = dyn.strided_slice(%y, %v, %w, reshape(1i64, newshape=[1]));
      let %q = dyn.reshape(%p, concatenate((%w - %v, reshape(4i64, newshape=[1]))));
      let %n = negative(%y);
      let %r = @other(%p, 3);
      (%p, %q, %n, %r, %p + %q)
    }
    def @other(%x: Tensor[(?, 4), float32], %n: int32) -> Tensor[(?, 4), float32] {
      if (%n < 1) { %x } else { @other(%x * 2f, %n - 1) }
    }
    """
    exe = relayvm.compile(relayvm.parse(text))
    vm = relayvm.VirtualMachine(exe, engine=engine)
    part, same, turned, other, both = vm.run(X / 8, np.array([1]), np.array([5]))
    wanted = np.exp(X / 8)
    np.testing.assert_allclose(part, wanted[1:5], rtol=1e-6)
    np.testing.assert_array_equal(same, part)
    np.testing.assert_allclose(turned, -wanted, rtol=1e-6)
    np.testing.assert_array_equal(other, part * 8)
    np.testing.assert_array_equal(both, part * 2)


def test_parts_that_only_leave_are_views_beside_a_kernel_that_reads_others() -> None:
    body = "let %p = split(%x, indices_or_sections=3, axis=0); (%p.2, exp(%p.0), %p.1)"
    (last, powers, middle), written = run(body, X)
    np.testing.assert_array_equal(last, X[4:])
    np.testing.assert_array_equal(middle, X[2:4])
    np.testing.assert_allclose(powers, np.exp(X[:2]), rtol=1e-6)
    assert written == 2 * 4 * FLOAT


def test_parts_go_to_functions_without_a_copy() -> None:
    text = """
    def @f(%x: Tensor[(2, 4), float32], %n: int32) -> Tensor[(2, 4), float32] {
      if (%n < 1) { %x } else { @f(negative(%x), %n - 1) }
    }
    def @main(%x: Tensor[(6, 4), float32], %n: int32) {
      let %p = strided_slice(%x, begin=[2], end=[4]);
      (@f(%p, %n), %p, @f(%p, %n + 1))
    }
    """
    exe = relayvm.compile(relayvm.parse(text))
    assert [k.name for k in exe.program().kernels] == ["negative"]
    odd, part, even = relayvm.VirtualMachine(exe).run(X, np.int32(3))
    np.testing.assert_array_equal(part, X[2:4])
    np.testing.assert_array_equal(odd, -X[2:4])
    np.testing.assert_array_equal(even, X[2:4])


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize(("rows", "half"), [("6", "3"), ("?", "?")])
def test_what_is_written_in_place_is_not_seen_through_a_part(
    rows: str, half: str, opt_level: int
) -> None:
    text = """
    def @turned(%x: Tensor[(6, 4), float32]) -> Tensor[(6, 4), float32] { exp(%x) }
    def @main(%x: Tensor[(6, 4), float32]) {
      let %y = @turned(%x);
      let %p = split(%y, indices_or_sections=2, axis=0);
      let %q = @other(%p.0, 2);
      (%q, %p.0, %p.1)
    }
    def @other(%x: Tensor[(3, 4), float32], %n: int32) -> Tensor[(3, 4), float32] {
      if (%n < 1) { %x } else { @other(%x + 1f, %n - 1) }
    }
    """
    text = text.replace("(6,", f"({rows},").replace("(3,", f"({half},")
    exe = relayvm.compile(relayvm.parse(text), opt_level=opt_level)
    q, first, second = relayvm.VirtualMachine(exe).run(X)
    wanted = np.exp(X)
    np.testing.assert_allclose(first, wanted[:3], rtol=1e-6)
    np.testing.assert_allclose(second, wanted[3:], rtol=1e-6)
    np.testing.assert_allclose(q, wanted[:3] + 2, rtol=1e-6)


def test_computed_rows_are_computed_alone() -> None:
    result, written = run("strided_slice(exp(%x), begin=[2], end=[4])", X)
    np.testing.assert_allclose(result, np.exp(X[2:4]), rtol=1e-6)
    assert written == 2 * 4 * FLOAT


def test_columns_are_read_where_they_are() -> None:
    body = "tanh(strided_slice(%x, begin=[1], end=[3], axes=[1])) + split(%x, 2, axis=1).0"
    body = body.replace("%x, 2", "%x, indices_or_sections=2")
    result, written = run(body, X)
    np.testing.assert_allclose(result, np.tanh(X[:, 1:3]) + X[:, :2], rtol=1e-6)
    assert written == 6 * 2 * FLOAT


@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_joined_is_computed_where_it_belongs(axis: int) -> None:
    result, written = run(f"concatenate((exp(%x), tanh(%x), %x), axis={axis})", X)
    np.testing.assert_allclose(result, np.concatenate((np.exp(X), np.tanh(X), X), axis), rtol=1e-6)
    assert written == 3 * X.size * FLOAT


def test_gates_are_written_once_and_read_in_their_columns() -> None:
    params = (
        "%x: Tensor[(1, 8), float32], %h: Tensor[(1, 4), float32], %c: Tensor[(1, 4), float32],"
    )
    params += "%w: Tensor[(16, 12), float32], %b: Tensor[(16), float32]"
    body = """
      let %s = concatenate((%x, %h), axis=1);
      let %g = split(nn.bias_add(nn.dense(%s, %w), %b), indices_or_sections=4, axis=1);
      let %n = sigmoid(%g.0) * %c + sigmoid(%g.1) * tanh(%g.2);
      (sigmoid(%g.3) * tanh(%n), %n)
    """
    rng = np.random.default_rng(0)
    shapes = ((1, 8), (1, 4), (1, 4), (16, 12), (16,))
    _, written = run(
        body, *(rng.standard_normal(s).astype(np.float32) for s in shapes), params=params
    )
    states, joined, gates = 2 * 4, 12, 16
    assert written <= FLOAT * (states + joined + gates) + 2 * 64


def test_heads_are_written_turned_and_split_as_views() -> None:
    params = "%x: Tensor[(6, 8), float32], %w: Tensor[(8, 8), float32]"
    body = """
      let %y = reshape(nn.dense(%x, %w), newshape=[6, 2, 4]);
      reshape(transpose(%y, axes=[1, 0, 2]), newshape=[2, 6, 4])
    """
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((6, 8), (8, 8)))
    result, written = run(body, x, w, params=params)
    wanted = (x @ w.T).reshape(6, 2, 4).transpose(1, 0, 2)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
    assert written <= 2 * 6 * 8 * FLOAT


@pytest.mark.parametrize("join", ["concatenate((%a, %b), axis=0)", "concatenate((%a, %b), axis=1)"])
@pytest.mark.parametrize("then", ["{}", "nn.relu({})", "tanh({}) * 2f"])
def test_products_are_computed_where_a_join_has_them(join: str, then: str) -> None:
    params = "%x: Tensor[(6, 4), float32], %v: Tensor[(4, 4), float32]"
    params += ", %w: Tensor[(4, 4), float32]"
    body = f"let %a = nn.dense(%x, %v); let %b = nn.dense(%x, %w); {then.format(join)}"
    rng = np.random.default_rng(0)
    v, w = (rng.standard_normal((4, 4)).astype(np.float32) for _ in range(2))
    result, written = run(body, X, v, w, params=params)
    wanted = np.concatenate((X @ v.T, X @ w.T), axis=int("axis=1" in join))
    after = {"nn.relu({})": lambda y: np.maximum(y, 0), "tanh({}) * 2f": lambda y: np.tanh(y) * 2}
    np.testing.assert_allclose(result, after.get(then, lambda y: y)(wanted), rtol=1e-4, atol=1e-5)
    assert written == 2 * X.size * FLOAT


@pytest.mark.parametrize("kind", ["nn.dense(%x, %w)", "exp(%x)", "nn.softmax(%x)"])
def test_parts_of_a_join_may_come_out_of_a_tuple(kind: str) -> None:
    params = "%x: Tensor[(6, 4), float32], %w: Tensor[(4, 4), float32]"
    body = f"""
      let %p = ({kind}, (nn.dense(%x, %w), %x));
      let %q = %p.1;
      concatenate((%p.0, %q.0), axis=0)
    """
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 4)).astype(np.float32)
    result, written = run(body, X / 8, w, params=params)
    product = (X / 8) @ w.T
    power = np.exp(X / 8)
    first = {"e": power, "n": product}[kind[0]]
    first = power / power.sum(1, keepdims=True) if "softmax" in kind else first
    np.testing.assert_allclose(result, np.concatenate((first, product)), rtol=1e-4, atol=1e-5)
    assert written <= 2 * X.size * FLOAT + 256


def test_a_stack_has_its_products_computed_in_place() -> None:
    params = "%x: Tensor[(6, 4), float32], %v: Tensor[(4, 4), float32]"
    params += ", %w: Tensor[(4, 4), float32]"
    body = "stack((nn.dense(%x, %v), nn.dense(%x, %w), %x), axis=0)"
    rng = np.random.default_rng(0)
    v, w = (rng.standard_normal((4, 4)).astype(np.float32) for _ in range(2))
    result, written = run(body, X, v, w, params=params)
    np.testing.assert_allclose(result, np.stack((X @ v.T, X @ w.T, X)), rtol=1e-4, atol=1e-5)
    assert written == 3 * X.size * FLOAT


def test_channels_of_a_convolution_are_computed_beside_those_that_it_reads() -> None:
    params = "%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32]"
    body = "concatenate((%x, nn.relu(nn.conv2d(%x, %w, padding=[1, 1]))), axis=1)"
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 3, 8, 8), (2, 3, 3, 3)))
    result, written = run(body, x, w, params=params)
    np.testing.assert_array_equal(result[:, :3], x)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    wanted = np.maximum(np.einsum("bchwij,ocij->bohw", windows, w), 0)
    np.testing.assert_allclose(result[:, 3:], wanted, rtol=1e-4, atol=1e-5)
    assert written == 5 * 64 * FLOAT


BRANCHES = """
%x: Tensor[(6, 4), float32], %w: Tensor[(4, 4), float32], %c: bool, %d: bool
"""


def written_where(body: str, *args: Any) -> tuple[Any, int]:
    """Return the result of a program and the bytes that its kernels write in this run."""
    exe = relayvm.compile(relayvm.parse(f"def @main({BRANCHES}) {{ {body} }}"))
    vm = relayvm.VirtualMachine(exe, engine="interpreter", num_threads=1)
    result = vm.run(*args)
    calls = {row.name: row.calls for row in vm.profile(*args).kernels}
    written = 0
    for kernel in exe.program().kernels:
        results = [o for o in kernel.signature.operands if o.direction is Direction.OUTPUT]
        size = sum(math.prod(o.dims) * o.dtype.itemsize_bytes for o in results)
        written += calls.get(kernel.name, 0) * size
    return result, written


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        "let %b = if (%c) { nn.dense(%x, %w) } else { tanh(%x) }; concatenate((exp(%x), %b))",
        "let %b = if (%c) { if (%d) { exp(%x) } else { nn.dense(%x, %w) } } else { %x };"
        "concatenate((%b, %x), axis=1)",
        "let %a = if (%d) { nn.softmax(%x) } else { nn.dense(%x, %w) };"
        "let %b = if (%c) { nn.dense(tanh(%x), %w) } else { %x }; stack((%a, %b), axis=1)",
        "let %b = if (%c) { nn.dense(%x, %w) } else { %x }; nn.relu(concatenate((%b, %x))) * 2f",
    ],
)
def test_branches_write_their_part_of_a_join(body: str, first: bool, second: bool) -> None:
    w = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    args = (X / 24, w, np.bool_(first), np.bool_(second))
    result, written = written_where(body, *args)
    module = relayvm.parse(f"def @main({BRANCHES}) {{ {body} }}")
    plain = relayvm.VirtualMachine(relayvm.compile(module, opt_level=0)).run(*args)
    np.testing.assert_array_equal(result, plain)
    assert written == 2 * X.size * FLOAT
