"""Writes to arrays in a loop: 100,000 take 100 times as long as 1,000."""

from __future__ import annotations

import time

import pytest

import relayvm
from relayvm.ir.prelude import parse_definitions, take_in
from relayvm.ops import OPS
from relayvm.relay.prelude import Prelude, TensorArrayOps

FEW, MANY = 1_000, 100_000

TENSOR_ARRAY = """
def @go(%ta: Array[tensor_float32_t], %i: int32, %n: int32) -> Array[tensor_float32_t] {
  if (%i == %n) { %ta } else {
    @go(@tensor_array_write_float32(%ta, %i, tensor0_float32(1f)), %i + 1, %n)
  }
}
def @main(%n: int32) -> int32 { array.length(@go(@tensor_array_float32(%n), 0, %n)) }
"""
IN_A_REFERENCE = """
def @main(%n: int32) -> int32 {
  let %r = ref(@array_fill(%n, 0));
  let %go = fn (%i: int32) -> int32 {
    if (%i == %n) { array.length(ref_read(%r)) }
    else { ref_write(%r, array.set(ref_read(%r), %i, %i)); %go(%i + 1) }
  };
  %go(0)
}
"""


@pytest.mark.parametrize("name", ["tensor_array", "in_a_reference"])
def test_writes_take_a_time_in_proportion_to_their_number(benchmark, capsys, name):
    prelude = Prelude()
    TensorArrayOps(prelude, "float32").register()
    base = prelude.mod.module
    text = TENSOR_ARRAY if name == "tensor_array" else IN_A_REFERENCE
    module = take_in(base, parse_definitions(text, OPS, base), OPS)
    vm = relayvm.VirtualMachine(relayvm.compile(module, entries=["main"]))
    times = {FEW: [], MANY: []}
    for n in (FEW, MANY) * 9:
        repeats = MANY // n
        start = time.process_time()
        for _ in range(repeats):
            vm.run(n)
        times[n].append((time.process_time() - start) / repeats)
    few, many = (min(times[n][1:]) for n in (FEW, MANY))
    ratio = many / few
    benchmark(vm.run, FEW)
    benchmark.extra_info[f"{MANY} / {FEW}"] = round(ratio, 1)
    with capsys.disabled():
        print(f"\n  {name}: {many / MANY * 1e9:.0f} ns a write; {ratio:.0f} times as long", end="")
    assert ratio < 150
