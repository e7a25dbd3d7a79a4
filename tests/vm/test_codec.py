"""Programs to bytes and back."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from relayvm.base.abi import Kernel
from relayvm.base.diagnostics import InternalError, RelayError
from relayvm.base.dims import DimVar, dim_floordiv, dim_max, symbol
from relayvm.vm.executable import load_parts, read_executable
from relayvm.vm.file.codec import decode, dim_code, encode, encode_signature, encoded_parts
from relayvm.vm.file.decode import dim_of_code
from relayvm.vm.file.format import RECORDS, SECTIONS, checksum
from relayvm.vm.library import ffi, lib
from relayvm.vm.program import FunctionCode, Instr, Program
from tests.vm.samples import PROBES, kernel, program


def test_the_same_program_gives_the_same_bytes():
    assert encode(program(*PROBES.values())) == encode(program(*PROBES.values()))


def test_decoding_and_encoding_gives_the_same_bytes():
    data = encode(program(*PROBES.values(), stored=True))
    assert encode(decode(data)) == data


def test_every_part_of_a_program_comes_back():
    made = program(*PROBES.values(), stored=True)
    again = decode(encode(made))
    for field in dataclasses.fields(Program):
        if field.name not in ("constants", "kernels"):
            assert getattr(again, field.name) == getattr(made, field.name), field.name
    for a, b in zip(again.constants, made.constants):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)
    (a,), (b,) = again.kernels, made.kernels
    assert (a.name, a.nest, a.image) == (b.name, b.nest, b.image)
    assert encode_signature(a.signature) == encode_signature(b.signature)


def test_signatures_that_differ_have_other_bytes():
    one = kernel().signature
    for other in (
        dataclasses.replace(one, work=5),
        dataclasses.replace(one, in_place=()),
        dataclasses.replace(one, sources=one.sources[:1] + one.sources[:1]),
        dataclasses.replace(one, operands=one.operands[:-1]),
    ):
        assert encode_signature(one) != encode_signature(other)


def test_an_image_of_several_kernels_is_stored_once():
    made = program(stored=True)
    first = made.kernels[0]
    image = dataclasses.replace(first.image, entries={"scale": (0, 0), "other": (8, 0)})
    kernels = (
        dataclasses.replace(first, image=image),
        Kernel("other", first.nest, first.signature, image),
    )
    again = decode(encode(dataclasses.replace(made, kernels=kernels)))
    assert again.kernels[0].image == image
    assert again.kernels[0].image is again.kernels[1].image


def test_empty_constants_and_no_tables_are_written():
    made = Program(constants=(np.zeros((0, 3), np.float16), np.array(True)))
    again = decode(encode(made))
    assert [c.shape for c in again.constants] == [(0, 3), ()]
    assert encode(decode(encode(Program()))) == encode(Program())


@pytest.mark.parametrize(
    "code",
    [
        Instr("fly", ()),
        Instr("move", ("w0",)),
        Instr("move", ("w0", "w9")),
        Instr("move", ("w0", "x0")),
        Instr("goto", ("nowhere",)),
        Instr("constant", ("b0", 70000)),
        Instr("word", ("w0", 1 << 64)),
        Instr("word", ("w0", -(1 << 63) - 1)),
        Instr("kernel_reuse", (0, 1 << 32, (), ())),
        Instr("kernel_reuse", (0, -1, (), ())),
    ],
    ids=lambda code: f"{code.name} {len(code.operands)}",
)
def test_what_has_no_encoding_is_an_internal_error(code):
    function = FunctionCode("f", "", "", 1, 0, 1, (code,))
    with pytest.raises(InternalError):
        encode(Program((function,)))


def test_of_two_lines_at_one_instruction_the_later_counts():
    sample = program().functions[1]
    line = sample.lines[0]
    lines = (line, dataclasses.replace(line, line=2))
    made = dataclasses.replace(
        program(), functions=(dataclasses.replace(sample, lines=lines),), layouts=()
    )
    assert decode(encode(made)).functions[0].lines == lines[1:]


def test_dims_survive_postfix():
    n, m = DimVar("n"), DimVar("n")
    a, b = symbol(n), symbol(m)
    for dim in (a, a * b + 3, dim_max(a * 2, b), dim_floordiv(a * a + b, 4) * 2 - 7, a - b):
        assert dim_of_code(dim_code(dim, (n, m)), (n, m)) == dim


def test_the_code_of_a_dim_does_not_depend_on_addresses():
    def code():
        # both variables have one name, so that a DimExpr orders them by address
        variables = tuple(DimVar("n") for _ in range(8))
        total = 0
        for i, v in enumerate(variables):
            total = total + symbol(v) * (i + 1)
        return dim_code(total, variables)

    keep = []
    for _ in range(20):
        keep.append(code())
    assert all(c == keep[0] for c in keep)


def test_python_and_c_compute_one_checksum():
    random = np.random.default_rng(1)
    for size in (*range(20), 1000, 4097, (1 << 20) + 9):
        data = random.bytes(size)
        assert lib.rvm_checksum(ffi.from_buffer(data), size) == checksum(data)


def test_a_checksum_of_parts_is_that_of_the_whole():
    data = np.random.default_rng(3).bytes((1 << 19) + 3)
    for cuts in ((), (8,), (0, 64, 64, 1 << 18)):
        edges = [0, *cuts, len(data)]
        assert checksum(*(data[a:b] for a, b in pairwise(edges))) == checksum(data)


def test_a_program_is_loaded_from_its_parts():
    sizes = (3, 0, 70, 64, 1, 5000, 65_537, 0, 70_000, 5, 65_536)
    made = program(*PROBES.values())
    constants = (*made.constants, *(np.arange(n, dtype=np.uint8) for n in sizes))
    made = dataclasses.replace(made, constants=constants)
    whole = load_parts(encoded_parts(made), native=False)
    assert whole.to_bytes() == encode(made) == b"".join(encoded_parts(made))
    for given, kept in zip(constants, whole.program().constants, strict=True):
        assert given.tobytes() == kept.tobytes()
    read_executable(encode(made), verify_constants=True)


def test_parts_that_are_no_program_are_refused():
    parts = encoded_parts(program(*PROBES.values()))
    with pytest.raises(RelayError) as caught:
        load_parts(parts[:-2], native=False)
    assert caught.value.code == "bad-executable"


def test_a_changed_bit_changes_the_checksum():
    data = bytearray(np.random.default_rng(2).bytes(200))
    before = checksum(data)
    for place in range(len(data) * 8):
        data[place // 8] ^= 1 << place % 8
        assert checksum(data) != before
        data[place // 8] ^= 1 << place % 8


def test_sections_and_records_agree():
    for section in SECTIONS:
        assert section.doc
        if section.record is not None:
            assert RECORDS[section.name].size_bytes == section.element_bytes
