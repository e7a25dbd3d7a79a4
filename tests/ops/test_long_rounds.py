"""No kernel that an operator writes itself runs long between two looks at the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import operator_cases as cases
import operator_kernels as kernels
import pytest
from round_lengths import LOOK_WORK, rounds_between_looks

import relayvm
import relayvm.kernels.lower as lowering
from relayvm.base.dims import DimVar, dim_value, dim_variables
from relayvm.kernels.compute import Tensor
from relayvm.kernels.lower import Computation, dim_names, lower, work_estimate
from relayvm.kernels.schedules import program
from relayvm.kernels.schedules.rounds import cut_rounds
from relayvm.ops import OPS
from relayvm.ops.tracing import trace_shape

LONG = 10**8
# About 50 ms: a step of a walk takes 1 or 2 ns.
MOST = 25_000_000

ENTRIES = "a row of a sparse matrix is added up in one go, and so are as many rows of a dense one"
REGION = "an element of the result is one go: all parts of the data that belong to it"
WINDOW = "an element of the result is one go: all of a window"
BOX = "a box is one go, with all its numbers"
LEFT_OUT = {
    "image.dilation2d_change": WINDOW,
    "image.dilation2d_grad": WINDOW,
    "nn.sparse_conv2d": ENTRIES,
    "nn.sparse_dense": ENTRIES,
    "nn.sparse_dense_grad": ENTRIES,
    "vision.roi_align": REGION,
    "vision.roi_align_grad": REGION,
    "vision.roi_align_pick": REGION,
    "vision.all_class_non_max_suppression": "what was chosen of one class is copied in one go",
    "vision.get_valid_counts": BOX,
    "vision.multibox_transform_loc": BOX,
    "vision.non_max_suppression": BOX,
}

# Rows of known length that schedules walk: a vector, and a product of matrices of a long K.
VECTOR, LEFT, RIGHT = f"({LONG},)", f"(2, {LONG // 2})", f"({LONG // 2}, 1)"
ROWS = {
    "sum": (VECTOR, "sum(power(%a, %a))"),
    "max": (VECTOR, "max(%a)"),
    "argmax": (VECTOR, "argmax(power(%a, %a))"),
    "softmax": (VECTOR, "nn.softmax(%a)"),
    "log_softmax": (VECTOR, "nn.log_softmax(%a)"),
    "variance": (VECTOR, "variance(%a, mean(%a, keepdims=True))"),
    "dense": (f"(1, {LONG})", "nn.dense(%a, %a)"),
    "matmul": (LEFT, f"nn.matmul(%a, full(2f, shape={RIGHT}, dtype='float32'))"),
}


class _Looks:
    """Stands for `operator_kernels.run`: holds the loops of programs against `MOST`. Only kernels
    that compute sizes are run; what the others give is not looked at here.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run = kernels.run
        self.tied: list[set[DimVar]] = []
        self.of_values: set[DimVar] = set()
        self.sizes_are_next = False
        self.written: set[str] = set()
        self.longest = 0
        monkeypatch.setattr(kernels, "run", self.look)
        monkeypatch.setattr(kernels, "trace_shape", self.trace)
        monkeypatch.setattr(lowering, "program_phases", self.phases)

    def phases(self, *args: Any) -> Any:
        found = program.program_phases(*args)
        self.written |= {phase.var.name for phase in found}
        return found

    def trace(self, *args: Any) -> Any:
        """Note which sizes must be equal, and which follow from values: they grow with all."""
        trace = trace_shape(*args)
        pairs = [(c.a, c.b) for c in trace.checks if not c.broadcast]
        self.tied = [{v for side in pair for v in dim_variables(side)} for pair in pairs]
        self.of_values = set(trace.value_dims)
        self.sizes_are_next = bool(self.of_values)
        return trace

    def grown(self, first: DimVar) -> set[DimVar]:
        group = {first} | self.of_values
        for _ in self.tied:
            for tied in self.tied:
                group |= tied if tied & group else set()
        return group

    def look(
        self,
        outputs: Sequence[Tensor],
        inputs: Sequence[Tensor],
        arrays: Sequence[np.ndarray],
        sizes: Mapping[DimVar, int],
        strided: frozenset[int],
    ) -> Any:
        self.written.clear()
        variables = tuple(sizes)
        computation = Computation("test", tuple(inputs), tuple(outputs), variables, strided)
        nest, names = lower(computation), dim_names(variables)
        for grown in variables if self.written else ():
            if grown in self.of_values:
                continue
            given = {v: max(1, size) for v, size in sizes.items()}
            given |= {v: LONG for v in self.grown(grown) if v in given}
            work = dim_value(work_estimate(computation.outputs), given)
            dims = {names[v]: size for v, size in given.items()}
            rounds = rounds_between_looks(nest, work, dims)
            written = [p.var.name in self.written for p in nest.phases]
            self.longest = max(self.longest, *(r for r, own in zip(rounds, written) if own))
        if not self.sizes_are_next:
            return tuple(outputs)
        self.sizes_are_next = False
        return self.run(outputs, inputs, arrays, sizes, strided)


def _longest(name: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the most rounds of loops between two looks, with one size after the other long."""
    op, looks = OPS[name], _Looks(monkeypatch)
    for case in cases.CASES[name]:
        if name == "squeeze" and "axis" not in case.attrs:
            continue
        dtypes = next(cases.dtypes_of(op, case))
        values = cases.values_of(case, dtypes, np.random.default_rng(0), special=False)
        types = cases.types_of(case, dtypes)
        kernels.compute_result(op, types, values, case.attrs, True, case.known)
    return looks.longest


@pytest.mark.slow
def test_loops_that_operators_write_are_cut_wherever_a_line_is_long() -> None:
    for name in OPS:
        with pytest.MonkeyPatch.context() as monkeypatch:
            longest = _longest(name, monkeypatch)
        assert (longest > MOST) == (name in LEFT_OUT), f"{name}: {longest} rounds between looks"


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_known_length_are_cut_whatever_schedule_walks_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []

    def look(*args: Any) -> Any:
        nest = cut_rounds(*args)
        rounds.extend(rounds_between_looks(nest, LONG * LOOK_WORK, {}))
        return nest

    monkeypatch.setattr(lowering, "cut_rounds", look)
    monkeypatch.setenv("RELAYVM_CACHE", "")
    shape, body = ROWS[name]
    text = f"def @main(%a: Tensor[{shape}, float32]) {{ {body} }}".replace("'", '"')
    relayvm.compile(relayvm.parse(text))
    assert rounds and max(rounds) <= MOST


@pytest.mark.parametrize("size", [program.WALKED - 1, program.WALKED, 2 * program.WALKED])
def test_what_is_counted_along_whole_parts_is_handed_on_where_their_number_is_unknown(
    size: int,
) -> None:
    x = np.random.default_rng(0).integers(0, size // 3, size)
    text = "def @main(%x: Tensor[(?), int64]) { unique(%x, sorted=True, return_counts=True) }"
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    found, *_, counts = (np.asarray(a) for a in vm.run(x))
    wanted, often = np.unique(x, return_counts=True)
    assert (found == wanted).all() and (counts == often).all()
