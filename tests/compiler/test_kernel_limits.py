"""What one kernel may have is limited; programs are not: fusion stays inside, wide operators are
taken apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm.ops import movement
from relayvm.vm.file.format import MAX_OPERANDS, MAX_PHASES, MAX_VARS


def run(text: str, *args: Any, opt_level: int = 3) -> tuple[Any, Any]:
    exe = relayvm.compile(relayvm.parse(text), opt_level=opt_level)
    return relayvm.VirtualMachine(exe).run(*args), exe.program().kernels


def assert_within_limits(kernels: Any) -> None:
    for kernel in kernels:
        signature = kernel.signature
        assert len(signature.operands) <= MAX_OPERANDS
        assert len(signature.phases) <= MAX_PHASES
        assert len(signature.dim_vars) <= MAX_VARS


def joined(operator: str, count: int, attrs: str, dims: str = "(2, 3)", params: str = "") -> str:
    names = [f"%x{i}" for i in range(count)]
    declared = ", ".join(f"{n}: Tensor[{dims}, float32]" for n in names)
    return f"def @main{params}({declared}) {{ {operator}(({', '.join(names)}), {attrs}) }}"


def arrays(count: int) -> list[np.ndarray]:
    return [np.full((2, 3), i, np.float32) for i in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("axis", [0])
def test_three_hundred_tensors_are_concatenated(axis: int) -> None:
    result, kernels = run(joined("concatenate", 300, f"axis={axis}"), *arrays(300))
    np.testing.assert_array_equal(result, np.concatenate(arrays(300), axis=axis))
    assert_within_limits(kernels)


@pytest.mark.slow
def test_tensors_of_unknown_sizes_are_concatenated() -> None:
    result, kernels = run(joined("concatenate", 70, "axis=1", "(?, ?)"), *arrays(70))
    np.testing.assert_array_equal(result, np.concatenate(arrays(70), axis=1))
    assert_within_limits(kernels)


@pytest.mark.slow
@pytest.mark.parametrize("axis", [1])
def test_a_hundred_tensors_are_stacked(axis: int) -> None:
    result, kernels = run(joined("stack", 100, f"axis={axis}"), *arrays(100))
    np.testing.assert_array_equal(result, np.stack(arrays(100), axis=axis))
    assert_within_limits(kernels)


def test_a_long_tuple_that_a_function_returns_is_joined() -> None:
    fields = ", ".join(f"multiply(%x, {i}f)" for i in range(40))
    text = f"""
    def @many(%x: Tensor[(2), float32], %n: int32) {{
      if (%n == 0) {{ ({fields}) }} else {{ @many(%x, %n - 1) }}
    }}
    def @main(%x: Tensor[(2), float32]) {{ concatenate(@many(%x, 2)) }}
    """
    x = np.asarray([1, 2], np.float32)
    result, kernels = run(text, x)
    np.testing.assert_array_equal(result, np.concatenate([x * i for i in range(40)]))
    assert_within_limits(kernels)


@pytest.mark.slow
@pytest.mark.parametrize("sections", [97])
def test_a_tensor_is_split_into_many_parts(sections: int) -> None:
    text = f"""
    def @main(%x: Tensor[({2 * sections}, 2), float32]) {{
      split(%x, indices_or_sections={sections})
    }}
    """
    x = np.arange(4 * sections, dtype=np.float32).reshape(-1, 2)
    result, kernels = run(text, x)
    assert len(result) == sections
    for part, wanted in zip(result, np.split(x, sections)):
        np.testing.assert_array_equal(part, wanted)
    assert_within_limits(kernels)


@pytest.mark.slow
def test_parts_like_many_tensors_are_cut() -> None:
    names = [f"%x{i}" for i in range(40)]
    declared = ", ".join(f"{n}: Tensor[(?, 3), float32]" for n in names)
    text = f"""
    def @main(%data: Tensor[(80, 3), float32], {declared}) {{
      split_like(%data, ({", ".join(names)}))
    }}
    """
    data = np.arange(240, dtype=np.float32).reshape(80, 3)
    result, kernels = run(text, data, *arrays(40))
    for part, wanted in zip(result, np.split(data, 40)):
        np.testing.assert_array_equal(part, wanted)
    assert_within_limits(kernels)


@pytest.mark.slow
@pytest.mark.parametrize("opt_level", [0, 3])
def test_a_hundred_results_of_one_operand_are_several_kernels(opt_level: int) -> None:
    fields = ", ".join(f"add(%x, {i}f)" for i in range(100))
    x = np.asarray([1, 2, 3], np.float32)
    text = f"def @main(%x: Tensor[(3), float32]) {{ ({fields}) }}"
    result, kernels = run(text, x, opt_level=opt_level)
    for i, part in enumerate(result):
        np.testing.assert_array_equal(part, x + np.float32(i))
    assert len(kernels) > 1
    assert_within_limits(kernels)


@pytest.mark.slow
def test_operands_with_many_sizes_are_spread_over_kernels() -> None:
    names = [f"%x{i}" for i in range(20)]
    declared = ", ".join(f"{n}: Tensor[(?, ?, ?, ?), float32]" for n in names)
    sums = "".join(f"let %s{i + 1} = add(%s{i}, %x{i + 1}); " for i in range(1, 19))
    text = f"def @main({declared}) {{ let %s1 = add(%x0, %x1); {sums} %s19 }}"
    values = [np.full((1, 2, 1, 2), i, np.float32) for i in range(20)]
    result, kernels = run(text, *values)
    np.testing.assert_array_equal(result, sum(values))
    assert_within_limits(kernels)


def test_kernels_of_a_long_split_compute_each_part_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    part = movement._part

    def counted(*args: Any) -> Any:
        made.append(1)
        return part(*args)

    monkeypatch.setattr(movement, "_part", counted)
    text = "def @main(%x: Tensor[(90), float32]) { split(%x, indices_or_sections=90) }"
    x = np.arange(90, dtype=np.float32)
    result, kernels = run(text, x)
    np.testing.assert_array_equal(np.concatenate(result), x)
    rests = 2 * len(kernels)
    assert len(made) <= 90 + rests


@pytest.mark.slow
def test_many_products_of_one_operand_are_few_kernels_within_the_limits() -> None:
    count = 60
    params = ", ".join(f"%w{i}: Tensor[(3, 5), float32]" for i in range(count))
    sums = " + ".join(f"tanh(nn.dense(%x, %w{i}))" for i in range(count))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5)).astype(np.float32)
    weights = [rng.standard_normal((3, 5)).astype(np.float32) for _ in range(count)]
    text = f"def @main(%x: Tensor[(2, 5), float32], {params}) {{ {sums} }}"
    result, kernels = run(text, x, *weights)
    np.testing.assert_allclose(result, sum(np.tanh(x @ w.T) for w in weights), rtol=1e-3, atol=1e-4)
    assert 1 < len(kernels) < count // 2
    assert_within_limits(kernels)


def test_a_chain_of_products_is_cut_into_pairs() -> None:
    body = "%x"
    for _ in range(6):
        body = f"tanh(nn.dense({body}, %w))"
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 4), (4, 4)))
    text = f"def @main(%x: Tensor[(2, 4), float32], %w: Tensor[(4, 4), float32]) {{ {body} }}"
    result, kernels = run(text, x, w)
    wanted = x
    for _ in range(6):
        wanted = np.tanh(wanted @ w.T)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
    assert len(kernels) == 1  # Three calls of one kernel of two products.
