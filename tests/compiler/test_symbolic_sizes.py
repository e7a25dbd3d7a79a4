"""Symbols in shapes, end to end: manifest, file, checks of arguments and checks inside a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError, Trap

PROGRAM = """
def @product[n, m](%x: Tensor[(n, m), float32], %y: Tensor[(m, n), float32])
    -> Tensor[(n, n), float32] { nn.dense(%x, transpose(%y)) }
def @joined[n, m](%x: Tensor[(n, 2), float32], %y: Tensor[(m, 2), float32])
    -> Tensor[(n + m, 2), float32] { concatenate((%x, %y)) }
def @open(%x: Tensor[(?, 2), float32], %y: Tensor[(?, 2), float32]) -> Tensor[(?, 2), float32] {
  add(%x, %y)
}
def @claimed[n](%x: Tensor[(n), float32], %y: Tensor[(?), float32]) -> Tensor[(n), float32] {
  let %z: Tensor[(n), float32] = %y;
  add(%x, %z)
}
def @passed_on[n](%x: Tensor[(n), float32], %y: Tensor[(?), float32]) -> Tensor[(n), float32] {
  @equal(%x, %y)
}
def @equal[k](%x: Tensor[(k), float32], %y: Tensor[(k), float32]) -> Tensor[(k), float32] {
  if (sum(%x) > 1000f) { @equal(%y, %x) } else { add(%x, %y) }
}
"""


@pytest.fixture(scope="module", params=[0, 3])
def executable(request, tmp_path_factory) -> relayvm.Executable:
    path: Path = tmp_path_factory.mktemp("symbols") / "symbols.rvm"
    relayvm.compile(relayvm.parse(PROGRAM), opt_level=request.param).save(path)
    return relayvm.load(path)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def test_the_manifest_names_the_symbols(executable):
    entries = {entry.name: entry for entry in executable.manifest.entries}
    product = entries["product"]
    assert [p.type.dims for p in product.parameters] == [("n", "m"), ("m", "n")]
    assert product.result.dims == ("n", "n")
    assert entries["joined"].result.dims == ("m + n", 2)
    assert [p.type.dims for p in entries["open"].parameters] == [(None, 2), (None, 2)]


@pytest.mark.parametrize(
    ("entry", "shapes", "result"),
    [
        ("product", [(2, 3), (3, 2)], (2, 2)),
        ("product", [(0, 3), (3, 0)], (0, 0)),
        ("joined", [(2, 2), (3, 2)], (5, 2)),
        ("open", [(2, 2), (2, 2)], (2, 2)),
        ("open", [(1, 2), (3, 2)], (3, 2)),
        ("claimed", [(4,), (4,)], (4,)),
        ("passed_on", [(4,), (4,)], (4,)),
    ],
)
def test_one_executable_runs_for_all_sizes(executable, entry, shapes, result):
    machine = relayvm.VirtualMachine(executable)
    assert machine.invoke(entry, *(zeros(*s) for s in shapes)).shape == result


@pytest.mark.parametrize(
    ("entry", "shapes", "message"),
    [
        (
            "product",
            [(2, 3), (4, 2)],
            "size `m` is 3 on axis 1 of `x` of `product` and 4 on axis 0 of `y` of `product`",
        ),
        (
            "product",
            [(2, 3), (3, 5)],
            "size `n` is 2 on axis 0 of `x` of `product` and 5 on axis 1 of `y` of `product`",
        ),
        ("joined", [(2, 3), (3, 2)], "`Tensor[(n, 2), float32]`, but `Tensor[(2, 3), float32]`"),
    ],
)
def test_arguments_that_disagree_are_refused_by_symbol_and_both_sizes(
    executable, entry, shapes, message
):
    with pytest.raises(RelayError) as caught:
        relayvm.VirtualMachine(executable).invoke(entry, *(zeros(*s) for s in shapes))
    assert caught.value.code == "wrong-argument"
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "shapes", "message"),
    [
        ("open", [(2, 2), (3, 2)], "axis 0 of the shapes do not broadcast in `add`: 2 and 3"),
        ("claimed", [(2,), (3,)], "axis 0 has size 3 where 2 is required"),
        ("passed_on", [(2,), (3,)], "axis 0 has size 3 where 2 is required"),
    ],
)
def test_what_only_a_run_can_compare_traps_with_both_sizes_at_its_line(
    executable, entry, shapes, message
):
    with pytest.raises(Trap) as caught:
        relayvm.VirtualMachine(executable).invoke(entry, *(zeros(*s) for s in shapes))
    assert caught.value.code == "run-time-shape"
    assert message in str(caught.value)
    assert f"at @{entry}" in str(caught.value)
