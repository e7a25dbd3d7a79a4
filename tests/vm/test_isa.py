"""The instruction table: its rules, and that what is generated from it is fresh."""

import pytest

from relayvm.base.dtypes import COMPUTED, NUMERIC
from relayvm.vm import generate
from relayvm.vm.isa import BY_OPCODE, ISA, KINDS, cast_name, word_name

CONTROL = {
    "goto",
    "branch_false",
    "switch_tag",
    "trap",
    "return",
    "call",
    "tail_call",
    "call_closure",
    "tail_call_closure",
    "kernel",
    "kernel_reuse",
}


def test_opcodes_are_positions():
    assert [row.opcode for row in BY_OPCODE] == list(range(len(ISA)))


def test_only_these_instructions_must_be_lowered_by_a_compiler():
    assert {row.name for row in BY_OPCODE if row.control} == CONTROL


def test_every_row_says_what_it_does_with_its_operands():
    for row in BY_OPCODE:
        names = [operand.name for operand in row.operands]
        assert len(set(names)) == len(names), row.name
        if "dst" in names and not row.control:
            assert row.effect.startswith("dst ="), row.name


def test_a_layout_stands_before_the_fields_it_classifies():
    for row in BY_OPCODE:
        for before, operand in zip((None, *row.operands), row.operands):
            if operand.kind.name in ("field_word", "field_object", "fields_in", "fields_out"):
                assert before is not None
                assert before.kind.name == "cell", row.name


def test_every_kind_is_used():
    assert {o.kind.name for row in BY_OPCODE for o in row.operands} == set(KINDS)


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_every_dtype_has_comparisons_and_casts(dtype):
    assert word_name("less_equal", dtype) in ISA
    for other in COMPUTED:
        assert (cast_name(dtype, other) in ISA) == (dtype is not other)


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_every_numeric_dtype_has_arithmetic(dtype):
    for operation in ("add", "floor_mod", "maximum", "negative"):
        assert word_name(operation, dtype) in ISA


def test_generated_files_are_fresh(capsys):
    assert generate.main(["--check"]) == 0, capsys.readouterr().out


def test_a_stale_file_fails_the_check(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    path = tmp_path / generate.GENERATED / "opcodes.h"
    path.write_text(path.read_text() + "\n")
    assert generate.main(["--check"]) == 1
    assert "stale: relayvm/vm/runtime/generated/opcodes.h" in capsys.readouterr().out
