"""Measured runs by TVM's names: reports as objects, tables, CSV and JSON."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from relayvm.runtime import profiler_vm
from relayvm.runtime.profiling import Count, Duration, Percent, Ratio, Report

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError

X = np.ones((3, 4), np.float32)


def loop_module() -> tvm.IRModule:
    return relay.fromtext(
        """
        def @main(%i: int32, %x: Tensor[(3, 4), float32]) -> Tensor[(3, 4), float32] {
          if (%i == 0) { nn.softmax(%x) } else { @main(%i - 1, tanh(%x + 1f)) }
        }
        """
    )


@pytest.fixture(scope="module")
def machine() -> profiler_vm.VirtualMachineProfiler:
    return profiler_vm.VirtualMachineProfiler(relay.vm.compile(loop_module()), tvm.cpu())


def test_a_report_has_a_row_for_each_kernel(machine: profiler_vm.VirtualMachineProfiler) -> None:
    report = machine.profile(np.int32(6), X)
    counts = {row["Name"]: row["Count"].value for row in report.calls}
    assert sorted(counts.values()) == [1, 6]
    assert any("softmax" in name for name in counts)
    for row in report.calls:
        assert row["Duration (us)"].microseconds > 0 and 0 < row["Percent"].percent < 100
        assert "float32[3, 4]" in row["Argument Shapes"] and row["Device"] == "cpu(0)"
    assert report.device_metrics["cpu(0)"]["Percent"].percent == 100
    threads = machine.native.num_threads
    assert report.configuration == {"Executor": "VM", "Number of threads": threads}


def test_a_profiler_warms_up_and_takes_arguments_that_are_set() -> None:
    machine = profiler_vm.VirtualMachineProfiler(relay.vm.compile(loop_module()), tvm.cpu())
    machine.set_input("main", np.int32(2), X)
    report = machine.profile()
    assert sorted(row["Count"].count for row in report.calls) == [1, 2]
    assert machine.native.stats()["invocations"] == 4
    again = machine.profile(x=X, i=np.int32(1), func_name="main")
    assert [row["Count"].count for row in again.calls] == [1, 1]
    assert profiler_vm.enabled()


def test_a_profiler_is_a_machine(machine: profiler_vm.VirtualMachineProfiler) -> None:
    assert machine.invoke("main", np.int32(0), X).shape == (3, 4)
    with pytest.warns(UserWarning, match="use `profile`"):
        assert machine.get_stat() == ""


def test_what_is_not_measured_is_refused(machine: profiler_vm.VirtualMachineProfiler) -> None:
    with pytest.raises(RelayError, match="only times are measured"):
        machine.profile(np.int32(1), X, collectors=[object()])
    with pytest.raises(RelayError, match="there is no entry `other`"):
        machine.profile(X, func_name="other")
    with pytest.raises(AttributeError, match="only times are measured"):
        tvm.runtime.profiling.PAPIMetricCollector


def test_csv_has_a_head_and_the_rows(machine: profiler_vm.VirtualMachineProfiler) -> None:
    report = machine.profile(np.int32(5), X)
    rows = list(csv.DictReader(report.csv().splitlines()))
    assert [row["Name"] for row in rows] == [row["Name"] for row in report.calls]
    assert sorted(int(row["Count"]) for row in rows) == [1, 5]
    assert all(float(row["Duration (us)"]) > 0 for row in rows)


def test_json_is_read_again(machine: profiler_vm.VirtualMachineProfiler) -> None:
    report = machine.profile(np.int32(5), X)
    document = json.loads(report.json())
    assert document["calls"][0]["Duration (us)"]["microseconds"] > 0
    assert document["device_metrics"]["cpu(0)"]["Percent"] == {"percent": 100.0}
    again = Report.from_json(report.json())
    assert again.calls == report.calls and again.device_metrics == report.device_metrics
    assert str(again) == str(report)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"calls": [{"a": {"b": 1}}], "device_metrics": {}}', '{"calls": [3]}']
)
def test_text_that_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(RelayError, match="no report in JSON"):
        Report.from_json(text)


ROWS = [
    {"Name": "a", "Duration (us)": Duration(1.0), "Count": Count(1), "Rate": Ratio(0.5)},
    {"Name": "b", "Duration (us)": Duration(1500.0), "Count": Count(2), "Percent": Percent(75.0)},
    {"Name": "a", "Duration (us)": Duration(2.5), "Count": Count(4)},
]


def test_a_table_joins_sorts_and_adds() -> None:
    report = Report(ROWS, {"cpu": {"Duration (us)": Duration(2000.0)}}, {"Executor": "VM"})
    assert str(report) == report.table()
    assert report.table() == (
        "Name   Duration (us)  Percent  Count  Rate\n"
        "b           1,500.00    75.00      2\n"
        "a               3.50               5  0.50\n"
        "Sum         1,503.50    75.00      7\n"
        "Total       2,000.00\n"
        "Executor: VM\n"
    )


def test_a_table_may_show_rows_as_they_are() -> None:
    report = Report(ROWS, {}, {})
    lines = report.table(aggregate=False, col_sums=False).splitlines()
    assert [line.split()[0] for line in lines] == ["Name", "a", "b", "a"]
    unsorted = report.table(sort=False, col_sums=False).splitlines()
    assert [line.split()[0] for line in unsorted] == ["Name", "a", "b"]
    assert Report([], {}, {}).table(col_sums=False).startswith("Name")
