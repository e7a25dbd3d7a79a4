"""Long rounds of phases are cut into chains, and the bits stay those of whole rounds."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.kernels.schedules import rounds

PART = 64
BODIES = {
    "sum": "sum(power(%a, %a), axis=[1])",
    "max": "max(%a, axis=[1])",
    "argmax": "argmax(%a, axis=[1])",
    "argmin": "argmin(%a, axis=[1], select_last_index=True)",
    "all": "all(greater(%a, -9f), axis=[1])",
    "sum of integers": 'sum(cast(%a, dtype="int32"), axis=[1])',
    "variance": "variance(%a, mean(%a, axis=[1], keepdims=True), axis=[1])",
    "softmax": "nn.softmax(%a)",
    "log_softmax": "nn.log_softmax(%a)",
    "norm": "nn.l2_normalize(%a, eps=1e-6, axis=[1])",
    "product": "nn.dense(%a, %a)",
    "columns": "sum(%a, axis=[0])",
    "rows beside": "add(%a, sum(%a, axis=[1], keepdims=True))",
}
SHAPES = [(1, 1), (1, 255), (1, 256), (2, 257), (3, 1000), (5, 16), (0, 3), (3, 0)]
SIZES = {"known": "({}, {})", "rows unknown": "(?, {1})", "unknown": "(n, m)"}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let parts be so small that short rows have several."""
    values = {"PART": PART, "MOST": 2 * PART, "SHORT": 8, "FEW": 3}
    for name, value in values.items():
        monkeypatch.setattr(rounds, name, value)


def _results(body: str, sizes: str, x: np.ndarray) -> list[bytes]:
    head = "@main[n: ShapeVar, m: ShapeVar]" if sizes == "unknown" else "@main"
    shape = SIZES[sizes].format(*x.shape)
    text = f"def {head}(%a: Tensor[{shape}, float32]) {{ {body} }}"
    exe = relayvm.compile(relayvm.parse(text))
    found = []
    for engine, threads in (("interpreter", 1), ("interpreter", 2), ("jit", 1)):
        vm = relayvm.VirtualMachine(exe, engine=engine, num_threads=threads)
        found.append(np.asarray(vm.run(x)).tobytes())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", BODIES)
def test_rounds_that_are_cut_have_the_bits_of_whole_ones(
    name: str, sizes: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    random = np.random.default_rng(3)
    shapes = [s for s in SHAPES if 0 not in s or "arg" not in name]
    data = [random.uniform(0.5, 2, shape).astype(np.float32) for shape in shapes]
    whole = [_results(BODIES[name], sizes, x) for x in data]
    request.getfixturevalue("small")
    for x, wanted in zip(data, whole):
        assert _results(BODIES[name], sizes, x) == wanted, x.shape
