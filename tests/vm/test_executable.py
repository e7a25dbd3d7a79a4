"""Executables: files, their damage, and whether their native code may run."""

import dataclasses
import os
import platform
import struct
import threading
import time
import zlib

import numpy as np
import pytest

from relayvm.base.abi import LARGE_BYTES, PAGE_BYTES, Kernel
from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import DTYPES
from relayvm.vm import executable as executables
from relayvm.vm.executable import can_run, load
from relayvm.vm.file.codec import encode
from relayvm.vm.file.format import RECORDS
from relayvm.vm.library import lib
from relayvm.vm.machine import VirtualMachine
from relayvm.vm.manifest import Entry, Parameter, ValueType
from relayvm.vm.program import Program
from tests.vm import damage
from tests.vm.samples import PROBES, build, image_of, kernel, program

DATA = encode(program(PROBES["switch_tag"], stored=True))
PORTABLE = encode(program(PROBES["switch_tag"]))
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the sample image is for x86-64")


def refusal(data, **options):
    with pytest.raises(RelayError) as caught:
        load(data, **{"builder": build} | options)
    return caught.value


# --- files ------------------------------------------------------------------------------------


@on_x86
def test_a_saved_file_is_the_bytes_and_loads(tmp_path):
    made = load(DATA, native=True)
    made.save(tmp_path / "a.rvm")
    assert (tmp_path / "a.rvm").read_bytes() == DATA
    again = load(tmp_path / "a.rvm", native=True, verify_constants=True)
    assert again.to_bytes() == DATA
    assert encode(again.program()) == DATA
    assert os.listdir(tmp_path) == ["a.rvm"]


def test_saving_replaces_a_file_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a.rvm"
    path.write_bytes(b"old")
    made = load(PORTABLE, builder=build)
    monkeypatch.setattr(executables.os, "replace", _fail)
    with pytest.raises(RelayError, match=r"a\.rvm` cannot be written: no space"):
        made.save(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.rvm"]


def _fail(*_):
    raise OSError("no space")


def test_an_executable_says_what_it_holds():
    made = load(PORTABLE, builder=build)
    assert made.entries == ("callee",)
    assert made.manifest.entry("callee").parameters[1].type.name == "List"
    assert made.manifest.entry("other") is None
    assert repr(made) == f"Executable(callee; {len(PORTABLE):,} bytes)"
    assert 'function f2 "probe"' in made.disassemble()


def test_large_constants_are_shown_only_on_request():
    made = load(encode(Program(constants=(np.zeros(100),))))
    assert "(100) ..." in made.disassemble()
    assert "(100) x00" in made.disassemble(data=True)


def test_constants_stay_in_the_file(tmp_path):
    path = tmp_path / "big.rvm"
    path.write_bytes(encode(Program(constants=(np.arange(1 << 20),))))
    held = load(path)
    with open("/proc/self/maps") as maps:
        assert str(path) in maps.read()
    assert np.array_equal(held.program().constants[0], np.arange(1 << 20))


def test_large_constants_begin_in_the_middle_of_a_page(tmp_path):
    """What they meet begins with a page, so rows of both are not in the same sets of a cache."""
    rng = np.random.default_rng(0)
    small, large = (rng.standard_normal(n) for n in (3, LARGE_BYTES // 8))
    given = (large, small, large[1:], small, large)
    data = encode(Program(constants=given))
    assert data.find(large.tobytes()) % PAGE_BYTES == PAGE_BYTES // 2
    assert data.find(small.tobytes()) % 64 == 0
    path = tmp_path / "large.rvm"
    path.write_bytes(data)
    for executable in (load(data), load(path)):
        kept = executable.program().constants
        assert all(map(np.array_equal, kept, given))


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    for path in (tmp_path / "none.rvm", tmp_path):
        with pytest.raises(RelayError) as caught:
            load(path)
        assert caught.value.code == "bad-executable"
        assert "cannot be read" in caught.value.message


def test_threads_load_and_drop_one_file(tmp_path):
    path = tmp_path / "a.rvm"
    path.write_bytes(PORTABLE)
    failures = []

    def work():
        for _ in range(20):
            if load(path, builder=build).entries != ("callee",):
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_loading_takes_no_longer_than_a_checksum_of_the_file(tmp_path):
    path = tmp_path / "a.rvm"
    constants = (np.zeros(3 * (1 << 18), np.float32),)
    data = encode(dataclasses.replace(program(*PROBES.values()), constants=constants * 2))
    path.write_bytes(data)
    failure = executables.ffi.new("rvm_load_error *")

    def best(work):
        times = []
        for _ in range(30):
            begin = time.perf_counter()
            work()
            times.append(time.perf_counter() - begin)
        return min(times)

    def load_once():
        lib.rvm_program_release(lib.rvm_load_file(os.fsencode(path), 0, failure))

    assert best(load_once) < 2 * best(lambda: zlib.crc32(data))


# --- damage -----------------------------------------------------------------------------------


def test_bytes_of_something_else_are_refused():
    for data in (b"", b"x", b"\x7fELF" + bytes(2000), DATA[:8], DATA[:40], DATA[:-1], DATA + b"x"):
        failure = refusal(data)
        assert failure.code == "bad-executable"
        assert failure.message.startswith("byte ")


def test_another_version_is_refused_with_both_versions_and_the_way_out():
    failure = refusal(DATA[:8] + struct.pack("<I", 99) + DATA[12:])
    assert failure.code == "executable-version"
    assert failure.message == (
        "the executable has format version 99, this RelayVM reads version 9; compile the program "
        "again with this RelayVM, or use the one that wrote it"
    )


@pytest.mark.parametrize("section", ["manifest", "functions", "code", "strings", "nests"])
def test_a_changed_section_is_named(section):
    begin, size = damage.place(DATA, section)
    data = bytearray(DATA)
    data[begin + size // 2] ^= 4
    failure = refusal(bytes(data))
    assert failure.code == "checksum-mismatch"
    assert f"section `{section}` (byte {begin}, {size} bytes)" in failure.message


def test_a_changed_header_is_refused():
    data = bytearray(DATA)
    data[50] ^= 1
    assert refusal(bytes(data)).code == "checksum-mismatch"


def test_changed_constants_are_found_on_request_only(tmp_path):
    begin, size = damage.place(DATA, "data")
    data = bytearray(DATA)
    data[begin + size - 1] ^= 1
    path = tmp_path / "a.rvm"
    path.write_bytes(data)
    for source in (bytes(data), path):
        load(source, builder=build)
        failure = refusal(source, verify_constants=True)
        assert failure.code == "checksum-mismatch"
        assert "`data`" in failure.message


def test_a_damaged_manifest_is_an_error_when_it_is_read():
    begin, size = damage.place(PORTABLE, "manifest")
    loaded = load(damage.edit(PORTABLE, "manifest", 0, b"[" * size), builder=build)
    with pytest.raises(RelayError, match=f"byte {begin}: the manifest cannot be read"):
        loaded.manifest


FIELDS = {
    "a text outside the strings": ("functions", 0, "name_begin", 1 << 30, "no text of"),
    "a text without its end": ("functions", 0, "name_bytes", 3, "no text of 3 bytes"),
    "code that is not the next": ("functions", 1, "code_begin", 0, "section `code` from 0"),
    "code beyond its section": ("functions", 2, "code_units", 9999, "9999 elements of section"),
    "no code": ("functions", 0, "code_units", 0, "has no code"),
    "too many registers": ("functions", 0, "words", 65535, "registers, at most 65535 can be"),
    "classes beyond their section": ("functions", 0, "num_params", 999, "section `classes`"),
    "a line before the last": ("lines", 0, "unit", 999, "row 0 of the line table of `callee`"),
    "a line of no source": ("lines", 0, "source", 2, "row 0 of the line table of `callee`"),
    "a name of no register": ("register_names", 1, "slot", 3, "no register 3 to be named"),
    "an unknown kind of layout": ("layouts", 0, "kind", 5, "layout `pair` has kind 5"),
    "a reference of no field": ("layouts", 4, "num_fields", 0, "has 0 fields instead of 1"),
    "a tuple with a function": ("layouts", 0, "function", 0, "is no closure but names a function"),
    "a tuple with a tag": ("layouts", 0, "tags", 1, "is no constructor but has a tag"),
    "a closure of no function": ("layouts", 3, "function", 9, "has function 9 and signature 0"),
    "a closure of another function": ("layouts", 3, "function", 1, "does not fit signature 0"),
    "a constructor out of order": ("layouts", 1, "tag", 1, "`Nil` does not stand among"),
    "too many constructors": ("layouts", 1, "tags", 3, "does not stand among its type's 3"),
    "a tensor of no dtype": (
        "tensor_types",
        0,
        "dtype",
        len(DTYPES),
        f"{len(DTYPES)} is not a dtype",
    ),
    "a tensor of rank 9": ("constants", 0, "rank", 9, "9 is not a rank"),
    "a constant of another size": ("constants", 0, "size_bytes", 20, "does not fit its dims"),
    "a constant out of its place": ("constants", 1, "offset", 0, "is out of its place"),
    "an entry of no function": ("entries", 0, "function", 3, "entry `callee` is function 3 of 3"),
    "no phase": ("kernels", 0, "num_phases", 0, "too many operands, dims or phases"),
    "too many operands": ("kernels", 0, "num_outputs", 5000, "too many operands"),
    "an output among the inputs": ("operands", 0, "direction", 1, "operand 0 is wrong"),
    "a strided output": ("operands", 4, "access", 1, "operand 4 is wrong"),
    "a scalar with axes": ("operands", 0, "access", 2, "operand 0 is wrong"),
    "a dim source beyond the inputs": ("dim_sources", 0, "operand", 4, "variable 0 is wrong"),
    "a dim source beyond the axes": ("dim_sources", 0, "axis", 1, "variable 0 is wrong"),
    "a dim read from a float": ("dim_sources", 1, "operand", 1, "variable 1 is wrong"),
    "a pair of an input": ("in_place", 0, "output", 0, "in-place pair 0 is wrong"),
    "a pair with a strided input": ("in_place", 0, "input", 3, "in-place pair 0 is wrong"),
    "a dim of no kind": ("expressions", 0, "kind", 3, "a dim is wrong"),
    "a dim of no variable": ("expressions", 0, "value", 2, "a dim is wrong"),
    "a negative dim": ("expressions", 2, "value", -1, "a dim is wrong"),
    "an image out of its place": ("images", 0, "code_begin", 64, "is out of its place"),
    "an image too large": ("images", 0, "code_bytes", 65, "is out of its place"),
    "an unknown import": ("image_imports", 0, "symbol", 3, "import 0 of an image is wrong"),
    "an import outside the image": ("image_imports", 0, "slot", 64, "import 0 of an image"),
    "an import between two slots": ("image_imports", 0, "slot", 52, "import 0 of an image"),
    "a phase outside the image": ("image_phases", 1, "offset", 64, "phase 1 of an image is wrong"),
    "a phase of no kernel": ("image_phases", 1, "kernel", 1, "phase 1 of an image is wrong"),
    "a phase that the kernel lacks": ("image_phases", 1, "phase", 2, "phase 1 of an image"),
}


@pytest.mark.parametrize("name", list(FIELDS))
def test_a_table_with_a_wrong_field_is_refused(name):
    section, row, field, value, message = FIELDS[name]
    failure = refusal(damage.edit_field(DATA, section, row, field, value))
    assert failure.code == "bad-executable"
    assert failure.message.startswith("byte ")
    assert message in failure.message


def test_rows_that_nothing_uses_are_refused():
    begin, size = damage.place(DATA, "lines")
    data = damage.with_sections(DATA, {"lines": DATA[begin : begin + size] * 2})
    assert "section `lines` has 2 elements, of which 1 are used" in refusal(data).message


def test_a_class_that_is_none_is_refused():
    data = damage.edit(DATA, "classes", 0, b"\x03")
    assert "3 is not the class of a register here" in refusal(data).message


@pytest.mark.parametrize("section", ["manifest", "strings", "nests"])
def test_text_that_is_not_utf8_is_refused(section):
    begin, _ = damage.place(DATA, section)
    wrong = (b"\x80", b"\xc0\x80", b"\xc3(", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff")
    for text in wrong:
        message = refusal(damage.edit(DATA, section, 3, text)).message
        assert message == f"byte {begin + 3}: section `{section}` is not UTF-8 here"
    load(damage.edit(DATA, "nests", 3, "é∀😀".encode()), builder=build)


def test_a_text_begins_with_a_character():
    begin, size = damage.place(DATA, "strings")
    strings = DATA[begin : begin + size] + "é".encode() + b"\0"
    data = damage.with_sections(DATA, {"strings": strings})
    row = RECORDS["functions"].field_names
    assert row[:2] == ("name_begin", "name_bytes")
    load(damage.edit(data, "functions", 0, struct.pack("<II", size, 2)), builder=build)
    message = refusal(damage.edit(data, "functions", 0, struct.pack("<II", size + 1, 1))).message
    assert f"no text of 1 bytes is at {size + 1} of section `strings`" in message


def test_text_that_ends_inside_a_character_is_refused():
    _, size = damage.place(DATA, "nests")
    data = damage.edit(DATA, "nests", size - 2, b"\xe2\x88")
    assert "section `nests` is not UTF-8 here" in refusal(data).message


def test_an_unknown_opcode_is_refused():
    data = damage.edit(DATA, "code", 0, b"\xff\xff")
    assert "65535 is no instruction (0 <= n <" in refusal(data).message


def test_an_instruction_that_runs_over_the_end_is_refused():
    _, size = damage.place(DATA, "code")
    data = damage.edit(DATA, "code", size - 4, b"\xff\x00")
    assert "is cut short by the end of its code" in refusal(data).message


POSTFIX = {
    "an operation without operands": [2, 0, 5, 0, 6, 2],
    "an unknown operation": [0, 1, 0, 2, 9],
    "a variable that is not there": [1, 2, 0, 2, 3],
    "two values at the end": [0, 1, 0, 2, 0],
    "a constant cut off": [1, 0, 0, 1, 2, 0, 1, 2, 0, 1, 0],
}


@pytest.mark.parametrize("name", list(POSTFIX))
def test_a_wrong_dim_program_is_refused(name):
    words = POSTFIX[name]
    data = damage.edit(DATA, "dim_code", 0, struct.pack(f"<{len(words)}q", *words))
    assert "a dim is wrong" in refusal(data).message


# --- native code ------------------------------------------------------------------------------


@on_x86
def test_stored_code_runs_only_by_permission():
    assert lib.rvm_program_first_unlinked(load(DATA, native=True).handle) == -1
    failure = refusal(DATA, builder=None)
    assert failure.code == "native-not-allowed"
    assert "`native=True`" in str(failure)
    assert "install llvmlite" in str(failure)


@on_x86
def test_stored_code_runs_where_it_is_trusted():
    seen = []

    def trust(kernel):
        seen.append((kernel.name, kernel.image))
        return True

    load(DATA, trust=trust)
    assert seen == [("scale", image_of("scale"))]
    assert refusal(DATA, builder=None, trust=lambda kernel: False).code == "native-not-allowed"


def test_portable_kernels_are_given_to_the_builder():
    asked = []

    def builder(kernels, target):
        asked.extend((k.name, k.nest, str(target)) for k in kernels)
        return build(kernels, target)

    made = load(PORTABLE, builder=builder)
    assert asked == [("scale", kernel().nest, "cpu")]
    assert lib.rvm_program_first_unlinked(made.handle) == -1


def test_code_for_a_missing_feature_never_runs():
    image = dataclasses.replace(image_of("scale"), features=("sse2", "flying"))
    stored = program()
    stored = dataclasses.replace(stored, kernels=(dataclasses.replace(kernel(), image=image),))
    asked = []

    def builder(kernels, target):
        asked.extend(kernels)
        return build(kernels, target)

    load(encode(stored), native=True, builder=builder)
    assert len(asked) == 1
    assert refusal(encode(stored), native=True, builder=None).code == "native-not-allowed"


def test_a_built_kernel_keeps_its_signature():
    def builder(kernels, target):
        (made,) = build(kernels, target)
        return [
            Kernel(made.name, made.nest, dataclasses.replace(made.signature, work=1), made.image)
        ]

    failure = refusal(PORTABLE, builder=builder)
    assert "kernel `scale` has another signature than its portable nest" in failure.message


def test_a_missing_library_names_both_ways_out():
    def builder(kernels, target):
        raise ImportError("No module named 'llvmlite'")

    failure = refusal(PORTABLE, builder=builder)
    assert failure.code == "native-not-allowed"
    assert "No module named 'llvmlite'" in failure.message


def test_a_host_runs_its_own_code_only():
    arch = platform.machine()
    assert can_run(f"{arch}-unknown-linux-gnu", ())
    assert not can_run("riscv64-unknown-linux-gnu", ())
    assert not can_run(f"{arch}-pc-windows-msvc", ())
    assert not can_run(f"{arch}-unknown-linux-gnu", ("flying",))


def test_a_program_without_kernels_needs_no_permission():
    assert load(encode(Program())).entries == ()


@pytest.mark.parametrize(("dtype", "dims"), [("floaty", (3,)), ("float32", (-3,))])
def test_a_manifest_with_types_that_do_not_exist_is_refused(dtype, dims):
    made = program(*PROBES.values())
    wrong = ValueType("tensor", "x", dtype=dtype, dims=dims)
    entry = Entry("callee", 0, (Parameter("x", wrong),), wrong)
    loaded = load(encode(dataclasses.replace(made, entries=(entry,))), builder=build)
    with pytest.raises(RelayError, match="the manifest cannot be read") as caught:
        VirtualMachine(loaded).run(1)
    assert caught.value.code == "bad-executable"
