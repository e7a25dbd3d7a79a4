"""What schedules assume of CPUs."""

import pytest

from relayvm.base.target import Target
from relayvm.kernels.schedules import machine


@pytest.mark.parametrize(
    ("target", "registers"),
    [
        (Target(cpu="skylake-avx512"), 16),
        (Target(cpu="x86-64-v4"), 16),
        (Target(cpu="x86-64-v3"), 6),
        (Target(cpu="haswell"), 6),
        (Target(triple="aarch64-linux-gnu", cpu="generic"), 6),
        (Target(triple="riscv64-linux-gnu"), 6),
    ],
    ids=str,
)
def test_wide_vectors_leave_room_for_more_partials(target, registers):
    assert machine.vector_registers(target) == registers


def test_the_cache_of_another_cpu_is_taken_to_be_usual():
    assert machine.cache_bytes(Target(cpu="haswell")) == machine.USUAL_CACHE_BYTES


@pytest.mark.parametrize(
    ("found", "taken"),
    [(1 << 20, 1 << 20), (1280 << 10, 1 << 20), (16 << 20, 1 << 21), (0, 1 << 18)],
)
def test_the_cache_of_this_machine_is_rounded_to_a_power_of_two(monkeypatch, found, taken):
    monkeypatch.setattr(machine, "_host_cache_bytes", lambda: found)
    assert machine.cache_bytes(Target()) == taken


def test_cache_sizes_that_cannot_be_read_are_the_usual(monkeypatch, tmp_path):
    (tmp_path / "index0").mkdir()
    (tmp_path / "index1").mkdir()
    (tmp_path / "index1" / "level").write_text("2\n")
    (tmp_path / "index1" / "size").write_text("lots\n")
    monkeypatch.setattr(machine, "_CACHES", tmp_path)
    assert machine._host_cache_bytes.__wrapped__() == machine.USUAL_CACHE_BYTES
    (tmp_path / "index1" / "size").write_text("768K\n")
    assert machine._host_cache_bytes.__wrapped__() == 768 << 10
