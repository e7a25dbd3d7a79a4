"""A field stands for its projection only where nothing else happens on the way to the tuple."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("(let %v = %r; ref_write(%v, %x); (5, 1)).1", 1),
        ("{ ref_write(%r, %x); (%x + 1, 1) }.0", 5),
        ("{ ref_write(%r, %x); (5, 1) }.1 + 1", 2),
        ("(if (%x > 0) { ref_write(%r, %x); (5, 1) } else { (6, 2) }).1", 1),
        ("{ let %u = { ref_write(%r, %x); 1 }; (%u, 2) }.1", 2),
    ],
)
def test_what_is_written_before_a_tuple_is_made_stays_written(value, result, level):
    text = f"def @main(%x: int32) {{ let %r = ref(0); let %y = {value}; (%y, ref_read(%r)) }}"
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
    assert [int(v) for v in machine.run(np.int32(4))] == [result, 4]
