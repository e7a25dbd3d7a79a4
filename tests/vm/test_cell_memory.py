"""Cells that are taken apart and leave their memory, and cells that are made in it."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.diagnostics import Trap
from relayvm.vm.machine import VirtualMachine
from relayvm.vm.program import block_class
from tests.vm.programs import INT, entry, executable, tensor

PROGRAM = """
layout l0 tuple "pair" (w int64, o)
layout l1 tuple "other" (o, w int64)
layout l2 tuple "large" (w int64, w int64, w int64, o)
layout l3 tuple "empty" ()
function f0 "turned" (w, o) -> (o, w) registers 2 3 0 {
    cell_new o1, l0, (w0, o0)
    cell_unpack_keep o2, o1, l0, (w1, o0)
    cell_reuse o1, o2, l1, (o0, w1)
    cell_unpack o1, l1, (o0, w1)
    return (o0, w1)
}
function f1 "held" (w, o) -> (o, w) registers 2 4 0 {
    cell_new o1, l0, (w0, o0)
    retain o3, o1
    cell_unpack_keep o2, o1, l0, (w1, o0)
    cell_reuse o1, o2, l1, (o0, w1)
    release o3
    cell_unpack o1, l1, (o0, w1)
    return (o0, w1)
}
function f2 "larger" (w, o) -> (o, w) registers 2 3 0 {
    cell_new o1, l0, (w0, o0)
    cell_unpack_keep o2, o1, l0, (w1, o0)
    cell_reuse o1, o2, l2, (w0, w0, w1, o0)
    cell_unpack o1, l2, (w0, w0, w1, o0)
    return (o0, w1)
}
function f3 "given_back" (w, o) -> (o, w) registers 2 3 0 {
    cell_new o1, l0, (w0, o0)
    cell_unpack_keep o2, o1, l0, (w1, o0)
    retain o1, o2
    release o2
    release o1
    return (o0, w1)
}
function f4 "no_memory" (w, o) -> (o, w) registers 2 3 0 {
    retain o2, o0
    cell_reuse o1, o2, l0, (w0, o0)
    cell_unpack o1, l0, (w1, o0)
    return (o0, w1)
}
function f5 "wrong" (o) -> (o) registers 1 3 0 {
    cell_unpack_keep o1, o0, l0, (w0, o2)
    release o1
    return (o2)
}
function f6 "read_memory" (w, o) -> (w) registers 2 3 1 {
    cell_new o1, l0, (w0, o0)
    cell_unpack_keep o2, o1, l0, (w1, o0)
    field_borrow b0, o2, l0, 1
    release o0
    release o2
    return (w1)
}
function f7 "memory_left" (w, o) -> (o, w) registers 2 4 0 {
    cell_new o1, l0, (w0, o0)
    cell_unpack_keep o2, o1, l0, (w1, o0)
    cell_new o3, l3, ()
    cell_unpack_keep o1, o3, l1, (o3, w1)
    release o1
    release o2
    release o3
    return (o0, w1)
}
"""
ANY = tensor(None)
BOTH = {"kind": "tuple", "text": "(a, b)", "fields": [ANY, INT]}
GIVEN = [("n", INT), ("x", ANY)]
NAMES = ("turned", "held", "larger", "given_back", "no_memory")
ENTRIES = [
    *(entry(i, name, GIVEN, BOTH) for i, name in enumerate(NAMES)),
    entry(5, "wrong", [("x", ANY)], ANY),
    entry(6, "read_memory", GIVEN, INT),
    entry(7, "memory_left", GIVEN, BOTH),
]
X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module", params=["interpreter", "jit"])
def vm(request: pytest.FixtureRequest) -> VirtualMachine:
    return VirtualMachine(executable(PROGRAM, ENTRIES), engine=request.param)


@pytest.mark.parametrize(
    ("name", "new", "reused"),
    [("turned", 1, 1), ("held", 2, 0), ("larger", 2, 0), ("given_back", 1, 0), ("no_memory", 1, 0)],
)
def test_a_cell_is_made_where_one_died_if_nobody_holds_that_and_it_has_the_size(
    vm, name, new, reused
):
    before = vm.stats()
    x, n = vm.invoke(name, 5, X)
    after = vm.stats()
    assert np.array_equal(x, X)
    assert n == 5
    counts = [after[count] - before[count] for count in ("new_cells", "reused_cells")]
    assert counts == [new, reused]


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("wrong", (X,), "not the `pair`"),
        ("read_memory", (1, X), "not the `pair`"),
        ("memory_left", (1, X), "not the `other`"),
    ],
)
def test_memory_is_no_value_and_traps_give_it_back(vm, name, args, message):
    held = []
    for _ in range(3):
        with pytest.raises(Trap, match=message) as caught:
            vm.invoke(name, *args)
        assert caught.value.code == "bad-value"
        held.append(vm.stats()["held_bytes"])
    assert len(set(held[1:])) == 1


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
@pytest.mark.parametrize("fields", [0, 1, 2, 3, 63, 125, 126, 127, 300])
def test_cells_of_each_size_are_made_where_one_of_it_died_but_the_largest(engine, fields):
    words = ", ".join(["w0"] * fields)
    out = ", ".join(["w1"] * fields)
    text = f"""
layout l0 tuple "row" ({", ".join(["w int64"] * fields)})
function f0 "again" (w) -> (w) registers 2 2 0 {{
    move w1, w0
    cell_new o0, l0, ({words})
    cell_unpack_keep o1, o0, l0, ({out})
    cell_reuse o0, o1, l0, ({words})
    cell_unpack o0, l0, ({out})
    return (w1)
}}
"""
    machine = VirtualMachine(
        executable(text, [entry(0, "again", [("n", INT)], INT)]), engine=engine
    )
    assert machine.invoke("again", 7) == 7
    stats = machine.stats()
    small = block_class(fields) is not None
    assert small == (fields <= 126)
    assert (stats["new_cells"], stats["reused_cells"]) == ((1, 1) if small else (2, 0))
