"""RELAYVM_TRACE: instructions and the values they write on stderr."""

from __future__ import annotations

import io

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import Trap
from relayvm.vm.machine import VirtualMachine
from tests.vm.programs import list_machine, loops


@pytest.fixture(autouse=True)
def traced(monkeypatch):
    monkeypatch.setenv("RELAYVM_TRACE", "1")


def test_each_instruction_is_shown_with_what_it_wrote(capsys):
    assert VirtualMachine(loops()).run(1, 2, 5) == 16
    assert capsys.readouterr().err.split("\n")[:8] == [
        "@loop: less_i64 w3, w0, w1",
        "    w3 = 1",
        "@loop: branch_false w3, L0",
        "@loop: word w4, 3",
        "    w4 = 3",
        "@loop: multiply_i64 w5, w2, w4",
        "    w5 = 15",
        "@loop: add_i64 w2, w5, w0",
    ]


def test_calls_are_indented_and_give_their_results_when_they_return(capsys):
    VirtualMachine(loops()).invoke("depth", 1)
    lines = capsys.readouterr().err.split("\n")
    call = lines.index("@depth: call f2, (w3), (w2)  ; @depth")
    assert lines[call + 1] == "  @depth: word w1, 0"
    assert lines[-6:-3] == ["  @depth: return (w0)", "    w2 = 0", "@depth: add_i64 w2, w2, w1"]


def test_objects_are_named_by_their_layout(capsys):
    list_machine().invoke("range", 1)
    text = capsys.readouterr().err
    assert "cell_new o0, l0, ()  ; Nil\n    o0 = Nil of List\n" in text
    assert "    o1 = Cons of List\n" in text


def test_tensors_are_short_and_kernels_are_named(capsys):
    text = "def @main(%x: Tensor[(8), float32], %s: float32) -> Tensor[(8), float32] { %x * %s }"
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    vm.run(np.arange(8, dtype=np.float32), 0.5)
    lines = capsys.readouterr().err.split("\n")
    assert lines[0].startswith("@main: kernel k0, (b0, w0), (o0)  ; ")
    assert lines[1] == "    o0 = Tensor[(8), float32] 0, 0.5, 1, 1.5, 2, 2.5, ..."


def test_floats_are_shown_as_such(capsys):
    text = "def @main(%x: float32) -> float32 { if (%x < 1f) { %x + 1f } else { %x } }"
    relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text))).run(0.25)
    assert "    w1 = 1.25\n" in capsys.readouterr().err.replace("w2 =", "w1 =")


def test_a_run_after_a_trap_starts_anew(capsys):
    vm = list_machine()
    with pytest.raises(Trap):
        vm.invoke("first", [])
    vm.invoke("first", [1])
    lines = capsys.readouterr().err.split("\n")
    assert lines == [
        "@first_or_trap: switch_tag b0, l0, (L0, L1)  ; Nil",
        "@first_or_trap: trap MATCH_FAILED",
        "@first_or_trap: switch_tag b0, l0, (L0, L1)  ; Nil",
        "@first_or_trap: field_word w0, b0, l1, 0  ; Cons",
        "    w0 = 1",
        "@first_or_trap: return (w0)",
        "",
    ]


def test_a_broken_stderr_ends_the_run(monkeypatch):
    class Broken(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Broken())
    vm = VirtualMachine(loops())
    with pytest.raises(BrokenPipeError):
        vm.run(0, 10, 1)


def test_machines_are_not_traced_without_the_setting(capsys, monkeypatch):
    monkeypatch.setenv("RELAYVM_TRACE", "0")
    VirtualMachine(loops()).run(0, 3, 1)
    assert capsys.readouterr().err == ""
