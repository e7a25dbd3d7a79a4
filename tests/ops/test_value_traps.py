"""Every operator that values of operands can stop says so, and stays in front of writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from operator_case import Case
from operator_cases import CASES

import relayvm
from relayvm.base.dtypes import BY_NAME, dtype_of
from relayvm.base.shapes import ShapeError
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops import OPS

VALUES = (-100, -1, 0, 100, "many")
FREE_DTYPES = ("float32", "int32")
TRAPS = sorted(n for n, row in OPS.items() if row.value_traps is True)
# Random numbers take any key, at some length.
ASKED = [n for n in CASES if not OPS[n].is_data_dependent and not n.startswith("random.")]


def operands(case: Case, free: str, value: int | str) -> Iterator[Any]:
    """Yield operands whose elements are all the same, or grow."""

    def array(shape: Any, dtype: Any) -> np.ndarray:
        count = int(np.prod(shape))
        numbers = np.arange(count) * 9 if value == "many" else np.full(count, value)
        return numbers.reshape(shape).astype(BY_NAME[dtype].numpy)

    for index, shape in enumerate(case.shapes):
        dtype = case.dtypes.get(index, free)
        if isinstance(shape, list):
            dtypes = dtype if isinstance(dtype, tuple) else (dtype,) * len(shape)
            yield tuple(map(array, shape, dtypes))
        else:
            yield array(shape, dtype)


def type_of(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple(map(type_of, value)))
    return TensorType(value.shape, dtype_of(value.dtype))


def stops(name: str, case: Case) -> bool:
    """Return True if some values of types that fit give no result; checks what the row says."""
    row = OPS[name]
    for free in FREE_DTYPES:
        for value in VALUES:
            args = list(operands(case, free, value))
            types = list(map(type_of, args))
            try:
                row.result_type(types, case.attrs)
            except ShapeError:
                continue
            try:
                row.evaluate(args, case.attrs)
            except IndexError:
                assert row.traps_on_values(types, case.attrs), (name, value)
                return True
    return False


@pytest.mark.parametrize("name", ASKED)
def test_values_that_stop_an_operator_are_told_by_its_row(name: str) -> None:
    stopped = [stops(name, case) for case in CASES[name]]
    assert any(stopped) or name not in TRAPS


def test_taking_elements_traps_where_the_mode_or_an_empty_axis_says_so() -> None:
    take = OPS["take"]
    indices = TensorType((2,), BY_NAME["int32"])
    for shape, attrs, expected in (
        ((3,), {}, False),
        ((3,), {"mode": "fast"}, True),
        ((0,), {}, True),
        ((0, 3), {"axis": 1}, False),
        ((0, 3), {"axis": 0, "mode": "wrap"}, True),
    ):
        types = [TensorType(shape, BY_NAME["float32"]), indices]
        assert take.traps_on_values(types, attrs) is expected


WRITES = """
def @main(%r: ref(int32), %x: Tensor[(3), float32], %i: Tensor[(2), int32]) {{
  let %a = {call};
  let %u = ref_write(%r, 99);
  exp(%a)
}}
"""
CALLS = {
    "gather": "gather(%x, %i)",
    "gather_nd": "gather_nd(%x, reshape(%i, newshape=[1, 2]))",
    "adv_index": "adv_index((%x, %i))",
    "scatter_elements": "scatter_elements(%x, %i, ones(shape=[2], dtype='float32'))",
    "sparse_to_dense": "sparse_to_dense(%i, take(%x, %i), 0f, output_shape=[3])",
}


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("name", CALLS)
def test_what_stops_leaves_references_as_they_were(name: str, level: int) -> None:
    text = WRITES.format(call=CALLS[name].replace("'", '"'))
    text += "\ndef @make() { ref(5) }\ndef @read(%r: ref(int32)) { ref_read(%r) }\n"
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
    reference = vm.invoke("make")
    with pytest.raises(relayvm.Trap) as trap:
        vm.invoke("main", reference, np.ones(3, np.float32), np.array([0, 7], np.int32))
    assert trap.value.code == "index-out-of-range"
    assert vm.invoke("read", reference) == 5
