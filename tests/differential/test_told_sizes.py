"""Sizes that axes such as `n*2 + 1` tell: all engines and the reference find the same, and refuse
what no number gives.
"""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.to_python.run import PythonProgram


def results(text: str, *args: object) -> list[object]:
    """Return what each way to run a program gives, shapes for tensors, or the code of its error."""
    module = relayvm.parse(text)

    def on_machine(level: int, engine: str) -> object:
        executable = relayvm.compile(module, opt_level=level)
        return relayvm.VirtualMachine(executable, engine=engine).run(*args)

    ways = [
        lambda: on_machine(0, "interpreter"),
        lambda: on_machine(3, "interpreter"),
        lambda: on_machine(3, "jit"),
        lambda: Evaluator(infer_types(module)).call("main", args),
        lambda: PythonProgram(infer_types(module)).call("main", args),
    ]
    found: list[object] = []
    for run in ways:
        try:
            result = run()
        except RelayError as reason:
            found.append(reason.diagnostics[0].code)
        else:
            parts = result if isinstance(result, tuple) else (result,)
            found.append([part.shape for part in parts])
    return found


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


TOLD = "-> Tensor[(n,), float32] { zeros(shape=[n]) }"
HALVES = "reshape(%x, newshape=[-1, 2])"


@pytest.mark.parametrize(
    ("text", "args", "shapes"),
    [
        (f"def @main[n](%x: Tensor[(n*2,), float32]) {{ {HALVES} }}", [ones(6)], [(3, 2)]),
        (f"def @main[n](%x: Tensor[(n + 1,), float32]) {TOLD}", [ones(4)], [(3,)]),
        (f"def @main[n](%x: Tensor[(n + 1,), float32]) {TOLD}", [ones(1)], [(0,)]),
        (f"def @main[n](%x: Tensor[(n*2 - 3,), float32]) {TOLD}", [ones(7)], [(5,)]),
        (
            f"def @main[n](%t: (int32, Tensor[(2, n*3 + 1), float32])) {TOLD}",
            [(1, ones(2, 7))],
            [(2,)],
        ),
        (
            f"def @main[n](%x: Tensor[(n*2,), float32], %y: Tensor[(n + 1,), float32]) {TOLD}",
            [ones(6), ones(4)],
            [(3,)],
        ),
        (
            f"""def @half[n](%x: Tensor[(n*2,), float32]) {TOLD}
            def @main(%x: Tensor[(?,), float32]) {{ @half(%x) }}""",
            [ones(8)],
            [(4,)],
        ),
        (
            f"""def @main[k](%x: Tensor[(k,), float32]) {{
              let %half = fn [n](%y: Tensor[(n*2,), float32]) {TOLD};
              (%half(%x), %half(concatenate((%x, %x), axis=0))) }}""",
            [ones(6)],
            [(3,), (6,)],
        ),
        (
            """def @main[n](%x: Tensor[(n*2,), float32]) {
              let %ends = fn (%k: int32) {
                if (%k == 0) { zeros(shape=[n]) } else { ones(shape=[n]) }
              };
              (%ends(0), %ends(1)) }""",
            [ones(6)],
            [(3,), (3,)],
        ),
    ],
)
def test_an_axis_tells_a_size_that_has_a_factor_and_another_number(text, args, shapes):
    assert results(text, *args) == [shapes] * 5


@pytest.mark.parametrize(
    ("parameters", "args"),
    [
        ("%x: Tensor[(n*2,), float32]", [ones(5)]),
        ("%x: Tensor[(n + 1,), float32]", [ones(0)]),
        ("%x: Tensor[(n*3 + 1,), float32]", [ones(8)]),
        ("%x: Tensor[(n + 1,), float32], %y: Tensor[(n,), float32]", [ones(4), ones(4)]),
        ("%x: Tensor[(n*2,), float32], %y: Tensor[(n + 1,), float32]", [ones(6), ones(5)]),
        ("%x: Tensor[(n, n), float32]", [ones(2, 3)]),
        ("%x: Tensor[(n*n,), float32], %y: Tensor[(n,), float32]", [ones(10), ones(3)]),
    ],
)
def test_what_no_size_gives_is_refused_by_all(parameters, args):
    names = [f"%{name}" for name, _ in zip("xy", args)]
    free = [f"{n}: Tensor[({'?, ' * a.ndim}), float32]" for n, a in zip(names, args)]
    at_border = f"def @main[n]({parameters}) {{ %x }}"
    inside = f"""def @f[n]({parameters}) {{ nn.relu(%x) }}
    def @main({", ".join(free)}) {{ @f({", ".join(names)}) }}"""
    assert set(results(at_border, *args)) <= {"wrong-argument", "run-time-shape"}
    assert results(inside, *args) == ["run-time-shape"] * 5


@pytest.mark.parametrize("size", ["n*n", "10 - n", "n*m", "n//2"])
def test_an_axis_that_tells_no_size_is_refused_by_all(size):
    text = f"def @main[n, m](%x: Tensor[({size},), float32], %y: Tensor[(m,), float32]) {TOLD}"
    assert results(text, ones(4), ones(2)) == ["unreadable-dim"] * 5


@pytest.mark.parametrize(
    ("parameters", "given", "legal", "wrong"),
    [
        ("%x: Tensor[(n + 1,), float32], %w: Tensor[(n,), float32]", {"w": ones(3)}, 4, 5),
        ("%x: Tensor[(n,), float32], %w: Tensor[(n*2,), float32]", {"w": ones(6)}, 3, 4),
        ("%x: Tensor[(n*n,), float32], %w: Tensor[(n*2,), float32]", {"w": ones(6)}, 9, 6),
    ],
)
def test_an_array_given_at_compile_time_tells_the_sizes_of_arguments(
    parameters, given, legal, wrong
):
    module = relayvm.parse(f"def @main[n]({parameters}) {{ (%x, %w) }}")
    machine = relayvm.VirtualMachine(relayvm.compile(module, params=given))
    assert machine.run(ones(legal))[0].shape == (legal,)
    with pytest.raises(RelayError, match="`x` of `main` is"):
        machine.run(ones(wrong))


@pytest.mark.parametrize(
    "given",
    [
        {"v": ones(5), "w": ones(3)},
        {"v": ones(5)},
        {"w": ones(3), "v": ones(8)},
    ],
)
def test_arrays_given_at_compile_time_agree_in_any_order(given):
    parameters = "%v: Tensor[(n*2,), float32], %w: Tensor[(n,), float32]"
    module = relayvm.parse(f"def @main[n]({parameters}) {{ (%v, %w) }}")
    with pytest.raises(RelayError, match="wrong-argument"):
        relayvm.compile(module, params=given)
