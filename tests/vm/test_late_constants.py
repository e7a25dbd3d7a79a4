"""Constants that are bound late: an executable knows what it lacks and runs only with that."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import relayvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import DTYPES, DType
from relayvm.vm.assembly import assemble
from relayvm.vm.executable import load, read_executable
from relayvm.vm.file.codec import encode
from relayvm.vm.file.format import checksum
from relayvm.vm.late_constants import checksum as checksum_of
from relayvm.vm.library import ffi, lib
from relayvm.vm.machine import VirtualMachine
from relayvm.vm.program import LateConstant, Program
from tests.vm.damage import edit, edit_field, place
from tests.vm.samples import build, program

A, B, C = np.random.default_rng(1).normal(size=(3, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def whole() -> relayvm.Executable:
    x = relay.var("x", shape=(64,))
    body = relay.tanh(x * relay.const(A) + relay.const(B[:1])) + relay.const(C)
    module = relayvm.IRModule.from_expr(relay.Function([x], body))
    return relay.vm.compile(module).native


def refusal(work) -> RelayError:
    with pytest.raises(RelayError) as caught:
        work()
    return caught.value


def test_large_constants_leave_and_come_back_to_the_bit(whole: relayvm.Executable) -> None:
    small, moved = whole.split_constants(256)
    assert {n: a.tobytes() for n, a in moved.items()} == {
        f"const_{i}": c.tobytes()
        for i, c in enumerate(whole.program().constants)
        if c.nbytes >= 256
    }
    assert len(moved) == 2 and not whole.late_constants
    back = small.with_constants(moved)
    assert back.to_bytes() == whole.to_bytes()
    expected = VirtualMachine(whole).run(B)
    assert VirtualMachine(back).run(B).tobytes() == expected.tobytes()
    np.testing.assert_allclose(expected, np.tanh(B * A + B[:1]) + C, rtol=1e-5, atol=1e-6)


def test_the_file_is_smaller_by_what_left(whole: relayvm.Executable, tmp_path) -> None:
    small, moved = whole.split_constants(256)
    whole.save(tmp_path / "whole")
    small.save(tmp_path / "small")
    sizes = [(tmp_path / name).stat().st_size for name in ("whole", "small")]
    assert sizes[0] - sizes[1] >= sum(a.nbytes for a in moved.values())
    loaded = load(tmp_path / "small", native=True)
    assert loaded.late_constants == small.late_constants
    assert VirtualMachine(loaded.with_constants(moved)).run(C).tobytes() == (
        VirtualMachine(whole).run(C).tobytes()
    )


def test_what_is_lacking_is_known_by_dtype_shape_and_checksum(whole: relayvm.Executable) -> None:
    small, moved = whole.split_constants(0)
    assert list(small.late_constants) == list(moved) == ["const_0", "const_1", "const_2"]
    for name, row in small.late_constants.items():
        array = moved[name]
        assert (row.dtype, row.shape, row.nbytes) == (array.dtype, array.shape, array.nbytes)
        assert row.checksum == checksum(array.tobytes())
    assert not len(small.section("data"))


def test_no_machine_runs_without_the_constants(whole: relayvm.Executable) -> None:
    small, _ = whole.split_constants(256)
    failure = refusal(lambda: VirtualMachine(small))
    first, second = small.late_constants
    assert str(failure) == (
        "error[late-constants]: this executable lacks constants, which are bound late: "
        f"`{first}`, `{second}`\n"
        "help: `exe.with_constants(arrays)` returns the executable that has them; by TVM's "
        "names, `load_late_bound_consts(path)` puts them in"
    )
    assert lib.rvm_machine_new(small.handle, 1 << 30, 1 << 30, 100) == ffi.NULL
    assert refusal(lambda: small.split_constants(0)).code == "late-constants"
    loaded = load(small.to_bytes(), native=True)
    assert refusal(lambda: VirtualMachine(loaded)).code == "late-constants"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda m: m.pop("const_1"), "`const_1` is missing"),
        (lambda m: m.update(other=A), "`other` is not among them"),
        (lambda m: m.update(const_1=A + 1), "`const_1` has other elements"),
        (lambda m: m.update(const_1=A.astype("f8")), "`const_1` is float64[64], not float32[64]"),
        (
            lambda m: m.update(const_1=A.reshape(8, 8)),
            "`const_1` is float32[8, 8], not float32[64]",
        ),
        (lambda m: m.update(const_1=[[1], [1, 2]]), "`const_1` is no array: "),
        (
            lambda m: m.clear() or m.update(x=1),
            "`const_0` is missing, `const_1` is missing, `x` is",
        ),
    ],
)
def test_wrong_constants_are_refused_with_their_names(change, told: str) -> None:
    exe = read_executable(encode(Program(constants=(A, B))))
    small, moved = exe.split_constants(0)
    given = dict(moved)
    change(given)
    failure = refusal(lambda: small.with_constants(given))
    assert failure.code == "wrong-constants" and told in failure.message
    assert small.with_constants(moved).to_bytes() == exe.to_bytes()


def test_wrong_constants_are_told_at_once() -> None:
    small, _ = read_executable(encode(Program(constants=(A, B, C)))).split_constants(0)
    failure = refusal(lambda: small.with_constants({"const_0": A, "const_1": A, "other": C}))
    assert str(failure) == (
        "error[wrong-constants]: these are not its constants: `const_2` is missing, "
        "`const_1` has other elements, `other` is not among them\n"
        "help: `relayvm explain wrong-constants`"
    )


def test_many_wrong_constants_are_not_all_told() -> None:
    small, moved = read_executable(encode(Program(constants=(A,) * 20))).split_constants(0)
    assert len(moved) == 20
    told = refusal(lambda: small.with_constants({})).message
    assert "`const_7` is missing, and 12 more" in told and "const_8" not in told
    assert "`const_7` and 12 more" in refusal(lambda: VirtualMachine(small)).message


@pytest.mark.parametrize("least", [-1, 1.5, "1", None, True])
def test_a_number_of_bytes_is_needed(whole: relayvm.Executable, least) -> None:
    assert refusal(lambda: whole.split_constants(least)).code == "bad-option"


def test_an_executable_that_lacks_nothing_takes_nothing(whole: relayvm.Executable) -> None:
    same, moved = whole.split_constants(1 << 40)
    assert not moved and same.to_bytes() == whole.to_bytes()
    assert whole.with_constants({}) is whole
    assert "`x` is not among them" in refusal(lambda: whole.with_constants({"x": A})).message
    assert refusal(lambda: whole.with_constants([A])).code == "bad-option"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 5)])
def test_constants_of_every_dtype_and_shape_may_be_late(dtype: DType, shape) -> None:
    count = int(np.prod(shape))
    array = np.arange(count).astype(dtype.numpy).reshape(shape)
    exe = read_executable(encode(Program(constants=(A, array, B))))
    small, moved = exe.split_constants(0)
    assert small.with_constants(moved).to_bytes() == exe.to_bytes()
    assert checksum_of(array) == checksum(array.tobytes())
    part, some = exe.split_constants(A.nbytes)
    assert list(some) == ["const_0", "const_2"] or array.nbytes >= A.nbytes
    assert part.with_constants({n: np.asfortranarray(a) for n, a in some.items()})


def test_the_code_of_kernels_outlives_the_executable_it_came_from() -> None:
    x = relay.var("x", shape=(64,))
    module = relayvm.IRModule.from_expr(relay.Function([x], relay.tanh(x) + relay.const(A)))
    exe = relay.vm.compile(module).native
    exe = load(exe.to_bytes(), native=True)
    expected = VirtualMachine(exe).run(B)
    for _ in range(3):
        small, moved = exe.split_constants(1)
        arrays = {n: a.copy() for n, a in moved.items()}
        del exe, moved
        gc.collect()
        exe = small.with_constants(arrays)
        del small
        gc.collect()
        assert VirtualMachine(exe).run(B).tobytes() == expected.tobytes()


def test_programs_share_code_only_with_the_same_kernels() -> None:
    exe = load(encode(program()), builder=build)
    for other in (Program(), program()):
        target = read_executable(encode(other))
        same = len(other.kernels) == 1
        assert (lib.rvm_program_share_code(target.handle, exe.handle) == 0) == same
    assert lib.rvm_program_first_unlinked(target.handle) == -1
    assert lib.rvm_program_share_code(target.handle, exe.handle) == -1, "it has code already"


def test_late_constants_have_a_text(whole: relayvm.Executable) -> None:
    small, _ = whole.split_constants(256)
    text = small.disassemble(data=True)
    rows = [c for c in small.program().constants if isinstance(c, LateConstant)]
    assert len(rows) == 2
    assert all(f"float32 (64) late x{row.checksum:016x}\n" in text for row in rows)
    again = assemble(text).constants
    assert [c for c in again if isinstance(c, LateConstant)] == rows
    for wrong, told in (
        ("constant c0 float32 (2) late x00", "16 digits"),
        (f"constant c0 float32 ({1 << 45}) late x{0:016x}", "too large"),
        ("constant c0 float32 (2) late", "a checksum"),
    ):
        failure = refusal(lambda wrong=wrong: assemble(wrong))
        assert failure.code == "bad-assembly" and told in failure.message


LATE = encode(Program(constants=(A, LateConstant(B.dtype, B.shape, checksum(B.tobytes())), C)))


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        (1, "late", 2),
        (1, "late", 0),
        (0, "late", 1),
        (2, "late", 1),
        (1, "offset", 64),
        (1, "size_bytes", 252),
        (0, "checksum", 1),
        (1, "dtype", 200),
        (1, "rank", 2),
    ],
)
def test_a_table_that_is_damaged_is_refused(row: int, field: str, value: int) -> None:
    failure = refusal(lambda: read_executable(edit_field(LATE, "constants", row, field, value)))
    assert failure.code == "bad-executable" and failure.message.startswith("byte ")


def test_a_checksum_or_a_shape_that_was_changed_refuses_the_constant() -> None:
    arrays = {"const_1": B}
    assert read_executable(LATE).with_constants(arrays).program().constants[1].tobytes() == (
        B.tobytes()
    )
    other = read_executable(edit_field(LATE, "constants", 1, "checksum", 7))
    assert "has other elements" in refusal(lambda: other.with_constants(arrays)).message
    dims = np.array([64, 16, 64])
    begin, _ = place(LATE, "dims")
    assert LATE[begin : begin + 24] == np.array([64, 64, 64]).tobytes()
    changed = edit_field(LATE, "constants", 1, "size_bytes", 64)
    changed = edit(changed, "dims", 0, dims.tobytes())
    other = read_executable(changed)
    told = refusal(lambda: other.with_constants(arrays)).message
    assert "is float32[64], not float32[16]" in told


def test_the_table_of_late_constants_is_checksummed() -> None:
    begin, size = place(LATE, "constants")
    for at in range(begin, begin + size):
        damaged = LATE[:at] + bytes([LATE[at] ^ 1]) + LATE[at + 1 :]
        assert refusal(lambda damaged=damaged: read_executable(damaged)).code == (
            "checksum-mismatch"
        )
