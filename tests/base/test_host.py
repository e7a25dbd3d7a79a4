"""The cores that a process may use: those it is bound to, and those its control group pays for."""

from __future__ import annotations

import os

import pytest

from relayvm.base import host


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_a_quota_counts_as_whole_cores(files, cores, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert host._quota(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [(None, 5), (3, 3), (9, 5), (0, 5)])
def test_the_fewer_of_bound_and_paid_cores_may_be_used(monkeypatch, quota, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(5)), raising=False)
    monkeypatch.setattr(host, "_quota", lambda _: quota)
    assert host.available_cores() == cores
