"""Machine code of a program's functions in its file: when it runs, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.vm.executable import Executable, load
from relayvm.vm.file.codec import encode
from relayvm.vm.library import lib
from relayvm.vm.machine import VirtualMachine
from tests.vm import damage

# Kernels, calls, closures and cells.
TEXT = """
def @sum(%xs: List[int32], %f: fn (int32) -> int32) -> int32 {
  match (%xs) { Nil => 0, Cons(%x, %rest) => %f(%x) + @sum(%rest, %f) }
}
def @main(%n: int32, %x: Tensor[(n), float32]) {
  let %f = fn (%i: int32) -> int32 { %i * %n };
  (@sum(Cons(1, Cons(2, Nil)), %f), nn.relu(%x * 2f) + 1f)
}
"""
X = np.array([-1, 2, 3], np.float32)
OTHER_TARGETS = [
    "cpu -mtriple=aarch64-unknown-linux-gnu",
    "cpu -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu",
]


@pytest.fixture(scope="module")
def module() -> relayvm.Module:
    return relayvm.parse(TEXT.replace("(n)", "(?)"))


@pytest.fixture(scope="module")
def exe(module: relayvm.Module) -> Executable:
    return relayvm.compile(module, jit=True)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for somebody who did not compile the program here."""
    monkeypatch.setenv("RELAYVM_CACHE", "")


def is_native(exe: Executable) -> bool:
    return bool(lib.rvm_program_is_native(exe.handle))


def outcome(exe: Executable, engine: str) -> tuple[object, ...]:
    vm = VirtualMachine(exe, engine=engine)
    total, values = vm.run(7, X)
    return int(total), values.tobytes(), vm.stats()["steps"]


def changed(exe: Executable, **fields: object) -> bytes:
    """Return the file with other fields of the stored code or of its image."""
    program = exe.program()
    assert program.native is not None
    image = {k: v for k, v in fields.items() if k != "abi"}
    code = dataclasses.replace(
        program.native,
        image=dataclasses.replace(program.native.image, **image),
        abi=fields.get("abi", program.native.abi),
    )
    return encode(dataclasses.replace(program, native=code))


def reload(data: bytes, **options: object) -> Executable:
    return relayvm.load(data, **options)


def test_stored_functions_run_by_permission_and_give_the_same(module, exe, elsewhere):
    again = reload(exe.to_bytes(), native=True)
    assert is_native(again)
    assert VirtualMachine(again).native
    plain = relayvm.compile(module)
    expected = outcome(plain, "interpreter")
    assert expected[0] == 21
    assert not is_native(plain)
    for engine in ("interpreter", "jit", "auto"):
        assert outcome(again, engine) == expected


def test_without_permission_they_do_not_run(exe, elsewhere):
    assert not is_native(reload(exe.to_bytes()))


def test_who_compiled_them_here_need_not_allow_them(module, monkeypatch, tmp_path):
    monkeypatch.setenv("RELAYVM_CACHE", str(tmp_path))
    data = relayvm.compile(module, jit=True).to_bytes()
    assert is_native(reload(data))
    assert not is_native(
        reload(changed(reload(data), code=reload(data).program().native.image.code + b"\0"))
    )
    monkeypatch.setattr(
        "relayvm.vm.jit.compile.program_image", lambda *_, **__: pytest.fail("compiled")
    )
    assert relayvm.compile(module, jit=True).to_bytes() == data


def test_code_for_another_runtime_is_left_out(exe, elsewhere):
    abi = exe.program().native.abi
    assert is_native(reload(changed(exe, abi=abi), native=True))
    other = reload(changed(exe, abi=abi ^ 1), native=True)
    assert not is_native(other)
    assert outcome(other, "auto") == outcome(exe, "interpreter")


def test_code_for_another_cpu_is_left_out(exe, elsewhere):
    other = reload(changed(exe, features=("flying",)), native=True)
    assert not is_native(other)
    assert outcome(other, "auto") == outcome(exe, "interpreter")


@pytest.mark.parametrize("target", OTHER_TARGETS)
def test_it_is_made_for_the_cpu_of_the_target(module, target):
    made = relayvm.compile(module, target=target, jit=True).program()
    (kernel, *_) = made.kernels
    assert made.native.image.triple == kernel.image.triple
    assert made.native.image.features == kernel.image.features


@pytest.mark.parametrize(
    "section, field, value, message",
    [
        ("images", "num_functions", 1, "an image has 1 functions, the program"),
        ("images", "margin_bytes", 1 << 33, "need too much stack"),
        ("image_functions", "code", 1 << 31, "function 0 of an image is wrong"),
        ("image_functions", "enter", 1 << 31, "function 0 of an image is wrong"),
    ],
)
def test_what_cannot_be_is_refused(exe, section, field, value, message):
    images = exe.section("images")
    row = len(images) // damage.RECORDS["images"].size_bytes - 1 if section == "images" else 0
    with pytest.raises(RelayError, match=message) as caught:
        load(damage.edit_field(exe.to_bytes(), section, row, field, value))
    assert caught.value.code == "bad-executable"


def test_functions_are_stored_once(exe):
    program = exe.program()
    record = damage.RECORDS["images"].size_bytes
    images = bytes(exe.section("images"))
    assert program.native is not None
    assert len(images) == 2 * record  # of kernels, of functions


def test_an_executable_without_constants_keeps_its_functions(module, elsewhere):
    weights = np.arange(64, dtype=np.float32)
    text = "def @main(%x: Tensor[(64), float32], %w: Tensor[(64), float32]) { nn.relu(%x * %w) }"
    exe = relayvm.compile(relayvm.parse(text), params={"w": weights}, jit=True)
    without, arrays = exe.split_constants(1)
    again = reload(without.with_constants(arrays).to_bytes(), native=True)
    assert again.to_bytes() == exe.to_bytes()
    assert is_native(again)
