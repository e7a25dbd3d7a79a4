"""Assembly text: what is written is read, and wrong text is refused with its place."""

import dataclasses

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.vm.assembly import assemble, disassemble, instruction_text
from relayvm.vm.file.codec import encode
from relayvm.vm.program import Instr, Program, SourceText
from tests.vm.samples import PROBES, program


def test_reading_what_was_written_gives_the_program():
    made = program(*PROBES.values())
    assert encode(assemble(disassemble(made))) == encode(made)


def test_writing_what_was_read_gives_the_text():
    text = disassemble(program(*PROBES.values()))
    assert disassemble(assemble(text)) == text


def test_a_function_is_written_so():
    text = disassemble(program(PROBES["branch_false"]))
    assert text.endswith(
        'function f2 "probe" (w, w, o, o, b) -> (w) registers 4 8 3 {\n'
        "    branch_false w0, L0\n"
        "  L0:\n"
        "    release o0\n"
        "    release o1\n"
        "    return (w0)\n"
        "}\n"
    )


def test_a_kernel_is_written_so():
    text = disassemble(program())
    begin = text.index("kernel k0")
    assert text[begin : text.index('function f0 "')] == (
        'kernel k0 "scale" {\n'
        '  var d0 "n" operand 0 axis 0\n'
        '  var d1 "m" operand 2 axis -1\n'
        "  input dense float32 (d0)\n"
        "  input scalar float32 ()\n"
        "  input scalar int64 ()\n"
        "  input strided float32 (d0, 3)\n"
        "  output dense float32 (d0)\n"
        "  output scalar int64 ()\n"
        '  check d0 == broadcast(d1 * 2 + -1, d0) "rows"\n'
        "  in_place 4 0\n"
        "  scratch d0 // 3 + d0 * 4\n"
        "  private d1 * 64\n"
        "  phase d0\n"
        "  phase 2\n"
        "  work d0 * d0 * 3 + d1 + 7\n"
        "  | nest scale\n"
        "  |   with `two` lines\n"
        "}\n"
    )


def test_instructions_name_dtypes_and_traps():
    assert instruction_text(Instr("box_word", ("o0", "w1", 10))) == "box_word o0, w1, float32"
    assert instruction_text(Instr("trap", (3,))) == "trap MATCH_FAILED"
    assert instruction_text(Instr("word", ("w0", -1))) == "word w0, -1"


def test_any_source_text_survives():
    for text in ("", "\n", "}\n| x", "a\r\nb\x0bc\u2028d", "é ∀\t", "| |"):
        made = dataclasses.replace(program(), sources=(SourceText('q"\n\\', text),))
        made = dataclasses.replace(made, functions=made.functions[:1])
        assert assemble(disassemble(made)).sources == made.sources


def test_large_constants_are_left_out_on_request():
    made = Program(constants=(np.zeros(100), np.zeros(2)))
    text = disassemble(made, data=False)
    assert "constant c0 float64 (100) ...\n" in text
    assert "constant c1 float64 (2) x00" in text
    with pytest.raises(RelayError, match="were left out of the text"):
        assemble(text)


def test_comments_and_empty_lines_are_skipped():
    read = assemble('; a comment\n\nsignature s0 (w) -> (o) ; another\nlayout l0 tuple "t" ()\n')
    assert len(read.signatures) == len(read.layouts) == 1


WRONG = {
    "an unknown statement": ("fly", 1, "`fly` is none of"),
    "a stray character": ("signature s0 (w) & (w)", 18, "'&' cannot stand here"),
    "a number out of order": ("signature s1 () -> ()", 11, "`s0` comes next"),
    "an unknown class": ("signature s0 (b) -> ()", 15, "a class of w, o expected"),
    "more on a line": ("signature s0 () -> () 7", 23, "the line should end here"),
    "an unknown dtype": ("tensor_type t0 float7 ()", 16, "`float7` is none of bool"),
    "too many axes": (
        "tensor_type t0 bool (1, 2, 3, 4, 5, 6, 7, 8, 9)",
        48,
        "a tensor has at most 8 axes",
    ),
    "a number too large": ("constant c0 bool (99999999999999999999)", 19, "n < 7036874417766"),
    "contents of another size": ("constant c0 int16 (2) x0102", 23, "4 bytes expected, not 2"),
    "a text with a wrong escape": (r'layout l0 tuple "\q" ()', 17, "an escape that does not exist"),
    "a text with a zero": (r'layout l0 tuple "\u0000" ()', 17, "cannot be stored"),
    "a text with half a character": (r'layout l0 tuple "\ud800" ()', 17, "cannot be stored"),
    "an open block": ('source "a" {', 1, "this block is not closed"),
    "a block without a brace": ('source "a"', 11, "`{` expected"),
    "a manifest that is none": ("manifest {}", 1, "the manifest cannot be read"),
    "a manifest of something else": ("manifest 5", 1, "the manifest cannot be read"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_wrong_text_is_refused(name):
    text, column, message = WRONG[name]
    with pytest.raises(RelayError) as caught:
        assemble(text, "wrong.rvmasm")
    assert caught.value.code == "bad-assembly"
    assert message in caught.value.message
    assert str(caught.value.span) == f"wrong.rvmasm:1:{column}"


WRONG_CODE = {
    "an unknown instruction": ("fly w0", "there is no instruction `fly`"),
    "an unknown label": ("goto L", "there is no label `L`"),
    "a label twice": ("L:\nL:", "label `L` is here twice"),
    "no register": ("move w0, x0", "`x0` is not a register"),
    "a register too many": ("move w0, w2", "the function has 2 registers of this bank, not `w2`"),
    "a missing operand": ("move w0", "`,` expected"),
    "an index of another table": ("constant b0, k0", "`c` with a number below 65536 expected"),
    "an immediate too large": ("word w0, 18446744073709551616", "n < 18446744073709551616"),
}


@pytest.mark.parametrize("name", list(WRONG_CODE))
def test_wrong_code_is_refused(name):
    code, message = WRONG_CODE[name]
    with pytest.raises(RelayError) as caught:
        assemble(f'function f0 "f" () -> () registers 2 0 1 {{\n{code}\n}}')
    assert message in caught.value.message
    assert "^" in str(caught.value)


WRONG_KERNEL = {
    "outputs before inputs": ("output dense bool ()\ninput dense bool ()", "inputs come before"),
    "an unknown variable": ("phase d0", "there is no dim variable `d0`"),
    "a division by zero": ("phase 4 // 0", "a dim is divided by 0"),
    "a dim too deep": (f"phase {'(' * 40}1{')' * 40}", "nested more than 32 times"),
    "a dim too large": ("phase 4000000000000 * 4000000000000", "a dim is too large"),
}


@pytest.mark.parametrize("name", list(WRONG_KERNEL))
def test_wrong_kernels_are_refused(name):
    code, message = WRONG_KERNEL[name]
    with pytest.raises(RelayError) as caught:
        assemble(f'kernel k0 "k" {{\n{code}\n}}')
    assert message in caught.value.message
