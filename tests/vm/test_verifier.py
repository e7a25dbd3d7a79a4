"""What the verifier refuses, each with the message that says why; and what it lets pass."""

import re

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.vm.assembly import assemble, disassemble
from relayvm.vm.executable import Executable, load
from relayvm.vm.file.codec import encode
from relayvm.vm.isa import ISA
from relayvm.vm.program import FunctionCode, Instr, Program
from tests.vm.samples import build, program

CONTEXT = disassemble(program())


def load_function(code, params="w, w, o, o, b", results="w", registers="4 8 3"):
    body = "\n".join(f"    {line.strip()}" for line in code.strip().split("\n"))
    head = f'function f2 "probe" ({params}) -> ({results}) registers {registers} {{'
    return load(encode(assemble(f"{CONTEXT}{head}\n{body}\n}}\n")), builder=build)


def refusal(code, **options):
    with pytest.raises(RelayError) as caught:
        load_function(code, **options)
    assert caught.value.code == "bad-executable"
    assert re.match(r"byte \d+: `\w+` .* in function `probe`", caught.value.message)
    return caught.value.message


# Parameters are w0 w1 o0 o1 b0; layouts as in samples.py.
END = "\nrelease o0\nrelease o1\nreturn (w0)"

REJECTED = {
    # words
    "a word is read before it is written": (
        "add_i64 w2, w0, w3" + END,
        "`add_i64` operand `b` (w3) is read before it is written",
    ),
    "a word set on one path only is not set after the join": (
        "branch_false w0, L\nword w2, 1\nL:\nmove w3, w2" + END,
        "operand `src` (w2) is read before it is written",
    ),
    "a returned word must be set": (
        "release o0\nrelease o1\nreturn (w3)",
        "operand `values` (w3) is read before it is written",
    ),
    # banks
    "an owned register is not a word": (
        "move w2, o0" + END,
        "operand `src` (o0) must be a word register",
    ),
    "a word is not an owned register": (
        "release w0" + END,
        "operand `src` (w0) must be an owned register",
    ),
    "a word cannot be lent": (
        "borrow b1, w0" + END,
        "operand `src` (w0) must be an owned or borrowed register",
    ),
    "a borrowed register cannot be consumed": (
        "release b0" + END,
        "operand `src` (b0) must be an owned register",
    ),
    "a borrowed result needs a borrowed register": (
        "constant o2, c0" + END,
        "operand `dst` (o2) must be a borrowed register",
    ),
    "a word of a list must be a word": (
        "tensor_view o2, b0, (w0, o0)" + END,
        "operand `dims` (o0) must be a word register",
    ),
    # ownership
    "an object is consumed once": (
        "release o0\nrelease o0\nrelease o1\nreturn (w0)",
        "operand `src` (o0) is empty",
    ),
    "an object is consumed once in one instruction": (
        "call f1, (w0, o0, o0), (w2)\nrelease o1\nreturn (w0)",
        "operand `args` (o0) is lent but empty",
    ),
    "an empty register is not consumed": (
        "release o5" + END,
        "operand `src` (o5) is empty",
    ),
    "a full register is not written": (
        "retain o0, b0" + END,
        "operand `dst` (o0) is written but full",
    ),
    "one instruction fills a register once": (
        "cell_unpack o0, l2, (w2, o1)\nrelease o1\nreturn (w0)",
        "operand `dst` (o1) is written but full",
    ),
    "nothing is left at return": (
        "release o0\nreturn (w0)",
        "leaves the function while o1 is full",
    ),
    "nothing is left at a tail call": (
        "tail_call f1, (w0, o0, b0)",
        "leaves the function while o1 is full",
    ),
    "nothing is left at a tail call of a closure": (
        "retain o2, b0\ntail_call_closure o0, s0, (w0, o1)",
        "leaves the function while o2 is full",
    ),
    "paths that meet agree on what is owned": (
        "branch_false w0, L\nrelease o0\nL:\nrelease o1\nreturn (w0)",
        "is where paths meet that disagree whether o0 is full",
    ),
    "jumps that meet agree on what is owned": (
        "branch_false w0, A\nrelease o0\ngoto B\nA:\ngoto B\nB:\nrelease o1\nreturn (w0)",
        "disagree whether o0 is full",
    ),
    "an empty register is not lent": (
        "tensor_rank w2, o4" + END,
        "operand `src` (o4) is lent but empty",
    ),
    # borrowing
    "a borrowed register is valid only after it is set": (
        "tensor_rank w2, b1" + END,
        "operand `src` (b1) is lent but nothing keeps its object alive",
    ),
    "releasing the root ends its borrowers": (
        "borrow b1, o0\nrelease o0\ntensor_rank w2, b1\nrelease o1\nreturn (w0)",
        "operand `src` (b1) is lent but nothing keeps its object alive",
    ),
    "moving the root ends its borrowers": (
        "borrow b1, o0\nmove_object o2, o0\ntensor_rank w2, b1\nrelease o2\nrelease o1\n"
        "return (w0)",
        "operand `src` (b1) is lent but nothing keeps its object alive",
    ),
    "filling the root again does not revive its borrowers": (
        "borrow b1, o0\nrelease o0\nretain o0, b0\ntensor_rank w2, b1" + END,
        "operand `src` (b1) is lent but nothing keeps its object alive",
    ),
    "a borrowed field dies with the root of its parent": (
        "field_borrow b1, o0, l2, 1\nborrow b2, b1\nrelease o0\ntag w2, b2, l1\n"
        "release o1\nreturn (w0)",
        "operand `src` (b2) is lent but nothing keeps its object alive",
    ),
    "an operand is not lent by the instruction that consumes its root": (
        "borrow b1, o0\ncall f1, (w0, o0, b1), (w2)\nrelease o1\nreturn (w0)",
        "operand `args` (b1) is lent but nothing keeps its object alive",
    ),
    "an owned register is not lent by the instruction that consumes it": (
        "kernel_reuse k0, 1, (o0, w0, w1, o0), (o2, w2)\nrelease o2\nrelease o1\nreturn (w0)",
        "operand `inputs` (o0) is lent but empty",
    ),
    "borrowers of different roots do not survive a join": (
        "borrow b1, o0\nbranch_false w0, L\nborrow b1, o1\nL:\ntensor_rank w2, b1" + END,
        "operand `src` (b1) is lent but nothing keeps its object alive",
    ),
    "borrowers of the caller's and of an own object do not survive a join": (
        "borrow b1, o0\nbranch_false w0, L\nborrow b1, b0\nL:\ntensor_rank w2, b1" + END,
        "operand `src` (b1) is lent but nothing keeps its object alive",
    ),
    "a root filled again on one path ends its borrowers at the join": (
        "borrow b1, o0\nbranch_false w0, L\nrelease o0\nretain o0, b0\nL:\ntensor_rank w2, b1"
        + END,
        "operand `src` (b1) is lent but nothing keeps its object alive",
    ),
    "a tail call is not lent an owned register": (
        "tail_call f1, (w0, o0, o1)",
        "operand `args` (o1) is lent to a tail call but dies with its frame",
    ),
    "a tail call is not lent what an owned register keeps": (
        "borrow b1, o1\ntail_call f1, (w0, o0, b1)",
        "operand `args` (b1) is lent to a tail call but dies with its frame",
    ),
    # control
    "control does not run over the end": (
        "release o0",
        "is the end of the code, but control goes on",
    ),
    "a jump goes forward": (
        "L:\ngoto L",
        "jumps to unit 0, which is not among 3..2",
    ),
    "a jump to its own end of code is refused": (
        "branch_false w0, L\nrelease o0\nrelease o1\nreturn (w0)\nL:",
        "jumps to unit",
    ),
    "a switch has one label for each constructor": (
        "switch_tag b0, l1, (L)\nL:" + END,
        "operand `targets` has 1 item instead of 2",
    ),
    "a switch names constructor 0": (
        "switch_tag b0, l2, (L, L)\nL:" + END,
        "operand `type`: layout 2 `Cons` is not the first constructor of a data type",
    ),
    "trap code 0 is none": ("trap NONE", "operand `code` (0) is no trap code"),
    # indices
    "a function exists": (
        "call f9, (w0), (w2)" + END,
        "operand `callee` (function 9) is out of range (0 <= n < 3)",
    ),
    "a layout exists": (
        "field_word w2, b0, l8, 0" + END,
        "operand `type` (layout 8) is out of range (0 <= n < 8)",
    ),
    "a constant exists": (
        "constant b1, c2" + END,
        "operand `k` (constant 2) is out of range (0 <= n < 2)",
    ),
    "a kernel exists": (
        "kernel k1, (), ()" + END,
        "operand `k` (kernel 1) is out of range (0 <= n < 1)",
    ),
    "a closure signature exists": (
        "call_closure o0, s1, (), ()\nrelease o1\nreturn (w0)",
        "operand `type` (signature 1) is out of range (0 <= n < 1)",
    ),
    "a tensor type exists": (
        "tensor_check b0, t2" + END,
        "operand `type` (tensor type 2) is out of range (0 <= n < 2)",
    ),
    "an axis is below 8": (
        "tensor_dim w2, b0, 8" + END,
        "operand `axis` (axis 8) is out of range (0 <= n < 8)",
    ),
    "a field exists": (
        "field_word w2, b0, l0, 2" + END,
        "operand `i` (field 2) is out of range (0 <= n < 2)",
    ),
    "a word field is a word": (
        "field_word w2, b0, l0, 1" + END,
        "operand `i`: field 1 of layout 0 `pair` is not a word",
    ),
    "an object field is an object": (
        "field_retain o2, b0, l0, 0\nrelease o2" + END,
        "operand `i`: field 0 of layout 0 `pair` is not an object",
    ),
    "a reference is not a cell": (
        "field_word w2, b0, l4, 0" + END,
        "operand `type`: layout 4 `ref(int64)` is not a tuple, constructor or closure",
    ),
    "a reference to an object holds no word": (
        "ref_read_word w2, b0, l5" + END,
        "layout 5 `ref(List)` is not a reference to a word",
    ),
    "a reference to a word holds no object": (
        "ref_take o2, b0, l4\nrelease o2" + END,
        "layout 4 `ref(int64)` is not a reference to an object",
    ),
    "an array of words holds no objects": (
        "array_get o2, b0, l6, w0\nrelease o2" + END,
        "layout 6 `array(int64)` is not an array of objects",
    ),
    "a tuple is not an array": (
        "array_length w2, b0, l0" + END,
        "layout 0 `pair` is not an array",
    ),
    # lists
    "a call has all arguments": (
        "call f1, (w0, o0), (w2)\nrelease o1\nreturn (w0)",
        "operand `args` has 2 items instead of 3",
    ),
    "a call has all results": (
        "call f1, (w0, o0, b0), ()\nrelease o1\nreturn (w0)",
        "operand `dst` has 0 items instead of 1",
    ),
    "arguments are of the callee's classes": (
        "call f1, (w0, w1, b0), (w2)" + END,
        "operand `args` (w1) must be an owned register",
    ),
    "results are of the callee's classes": (
        "call f1, (w0, o0, b0), (o2)\nrelease o2\nrelease o1\nreturn (w0)",
        "operand `dst` (o2) must be a word register",
    ),
    "a closure's arguments are of its signature's classes": (
        "call_closure o0, s0, (o1, w0), (w2)\nreturn (w0)",
        "operand `args` (o1) must be a word register",
    ),
    "a cell has all fields": (
        "cell_new o2, l0, (w0)\nrelease o2" + END,
        "operand `fields` has 1 item instead of 2",
    ),
    "a kernel has all inputs": (
        "kernel k0, (b0, w0, w1), (o2, w2)\nrelease o2" + END,
        "operand `inputs` has 3 items instead of 4",
    ),
    "a scalar input is a word": (
        "kernel k0, (b0, b0, w1, b0), (o2, w2)\nrelease o2" + END,
        "operand `inputs` (b0) must be a word register",
    ),
    "a tensor output is owned": (
        "kernel k0, (b0, w0, w1, b0), (w3, w2)" + END,
        "operand `outputs` (w3) must be an owned register",
    ),
    "a given input is owned": (
        "kernel_reuse k0, 1, (b0, w0, w1, b0), (o2, w2)\nrelease o2" + END,
        "operand `inputs` (b0) must be an owned register",
    ),
    "a scalar is not given": (
        "kernel_reuse k0, 2, (b0, w0, w1, b0), (o2, w2)\nrelease o2" + END,
        "operand `given` names input 1, which is a word",
    ),
    "given inputs exist": (
        "kernel_reuse k0, 16, (b0, w0, w1, b0), (o2, w2)\nrelease o2" + END,
        "operand `given` (16) names inputs beyond 4",
    ),
    "return gives all results": (
        "release o0\nrelease o1\nreturn ()",
        "operand `values` has 0 items instead of 1",
    ),
}


@pytest.mark.parametrize("name", list(REJECTED))
def test_refused(name):
    code, message = REJECTED[name]
    assert message in refusal(code)


def test_a_tail_call_gives_the_results_of_its_function():
    message = refusal("tail_call f1, (w0, o0, b0)", params="w, o, b", results="o")
    assert "the callee's results are not those of this function" in message


def test_parameters_need_registers():
    with pytest.raises(RelayError, match="function `probe` has no register for parameter 2"):
        load_function("return (w0)", params="w, w, w", registers="2 0 0")


ACCEPTED = {
    "a borrower survives a join where both paths keep its root": (
        "borrow b1, o0\nbranch_false w0, L\nword w2, 1\nL:\ntensor_rank w2, b1" + END
    ),
    "a root filled on both paths keeps what borrows it on both": (
        "branch_false w0, A\nretain o2, b0\nborrow b1, o2\ngoto B\nA:\nmove_object o2, o0\n"
        "borrow b1, o2\nretain o0, b0\nB:\ntensor_rank w2, b1\nrelease o2" + END
    ),
    "a register is consumed and filled by one instruction": (
        "array_push_word o0, o0, l6, w0" + END
    ),
    "a tail call may be lent what the caller keeps": (
        "release o1\nborrow b1, b0\ntail_call f1, (w0, o0, b1)"
    ),
    "a tail call may be lent a constant": (
        "release o1\nconstant b1, c0\ntail_call f1, (w0, o0, b1)"
    ),
    "a loop is a tail call to itself": "tail_call f2, (w1, w0, o1, o0, b0)",
    "a call may be lent an owned register": (
        "call f1, (w0, o0, o1), (w2)\nrelease o1\nreturn (w2)"
    ),
    "a trap may leave registers full": "trap MATCH_FAILED",
    "code after a trap is not followed": "trap MATCH_FAILED\nrelease o7\nreturn (w3)",
}


@pytest.mark.parametrize("name", list(ACCEPTED))
def test_accepted(name):
    load_function(ACCEPTED[name])


def test_the_message_names_the_byte_of_the_instruction():
    executable = load_function("move w2, w0" + END)
    code = bytes(executable.section("code"))
    move = np.array([ISA["move"].opcode, 2, 0], "<u2").tobytes()
    place = executable.to_bytes().index(code) + code.rindex(move)
    message = refusal("move w2, w3" + END)
    assert message.startswith(f"byte {place}: `move` operand `src` (w3)")


def load_words(count: int, code: tuple[Instr, ...]) -> Executable:
    """Load a function that has so many words and nothing else."""
    function = FunctionCode("f", "", "", count, 0, 0, (*code, Instr("return", ((),))))
    return load(encode(Program((function,))))


@pytest.mark.slow
def test_a_program_too_large_to_verify_is_refused():
    words = [Instr("word", (f"w{i}", 1)) for i in range(60_000)]
    branch = Instr("branch_false", ("w0", "L"))
    # Each branch meets what the first one left at the label: it knows nothing of 59,999 words.
    code = (words[0], branch, *words[1:], *[branch] * 10_000, Instr("label", ("L",)))
    with pytest.raises(RelayError, match="too many jumps over too many registers"):
        load_words(60_000, code)


@pytest.mark.slow
def test_many_jumps_over_many_registers_that_do_not_change_are_verified():
    branch = Instr("branch_false", ("w0", "L"))
    load_words(65535, (Instr("word", ("w0", 1)), *[branch] * 20_000, Instr("label", ("L",))))
    deep = [Instr("branch_false", ("w0", f"L{i}")) for i in range(20_000)]
    ends = [Instr("label", (f"L{i}",)) for i in reversed(range(20_000))]
    load_words(65535, (Instr("word", ("w0", 1)), *deep, *ends))


def test_many_functions_with_many_registers_are_verified():
    function = FunctionCode("f", "", "", 65535, 0, 0, (Instr("return", ((),)),))
    load(encode(Program((function,) * 10000)))


@pytest.mark.parametrize("count", [15, 16, 17, 255, 256, 257, 4095, 4096, 4097, 65535])
def test_a_word_is_set_behind_a_join_if_it_is_set_on_both_paths(count):
    last = f"w{count - 1}"
    code = (
        Instr("word", ("w0", 1)),
        Instr("branch_false", ("w0", "A")),
        Instr("word", (last, 1)),
        Instr("goto", ("B",)),
        Instr("label", ("A",)),
        Instr("word", (last, 2)),
        Instr("label", ("B",)),
        Instr("move", ("w0", last)),
    )
    load_words(count, code)
    with pytest.raises(RelayError, match=rf"`src` \({last}\) is read before it is written"):
        load_words(count, code[:5] + code[6:])
