"""Small programs in assembly, and machines for them."""

from __future__ import annotations

import json

from relayvm.vm.assembly import assemble
from relayvm.vm.executable import Executable, load
from relayvm.vm.file.codec import encode
from relayvm.vm.machine import VirtualMachine

INT = {"kind": "tensor", "text": "int64", "dtype": "int64"}
LIST = {"kind": "data", "text": "List[int64]", "name": "List[int64]"}
INT_TO_INT = {
    "kind": "function",
    "text": "fn (int64) -> int64",
    "fields": [INT, INT],
    "signature": 0,
}
LIST_REF = {"kind": "ref", "text": "ref(List[int64])", "layout": 4, "fields": [LIST]}
INT_REF = {"kind": "ref", "text": "ref(int64)", "layout": 3, "fields": [INT]}


def tensor(*dims, dtype="float32"):
    sizes = ", ".join("?" if d is None else str(d) for d in dims)
    text = f"Tensor[({sizes}), {dtype}]"
    return {"kind": "tensor", "text": text, "dtype": dtype, "dims": list(dims)}


def entry(function, name, parameters, result, results=("output",)):
    """Return the manifest's row of an entry; parameters are (name, type) pairs."""
    return {
        "function": function,
        "name": name,
        "parameters": [list(p) for p in parameters],
        "result": result,
        "results": list(results),
    }


def manifest_line(entries, types=()) -> str:
    rows = {"devices": ["cpu"], "entries": list(entries), "types": list(types), "version": ""}
    return f"manifest {json.dumps(rows)}\n"


def executable(text, entries, types=()) -> Executable:
    """Return the loaded program of an assembly text without its manifest line."""
    return load(encode(assemble(manifest_line(entries, types) + text)))


LIST_TYPE = {
    "name": "List[int64]",
    "constructors": [
        {"name": "Nil", "layout": 0, "fields": []},
        {"name": "Cons", "layout": 1, "fields": [INT, LIST]},
    ],
}

LISTS = """
source "lists.relay" {
  | def @sum(%l: List[int64]) -> int64 {
  |   match (%l) { Nil => 0, Cons(%h, %t) => %h + @sum(%t) }
  | }
}
signature s0 (w) -> (w)
layout l0 constructor "Nil" () type "List" tag 0 of 2
layout l1 constructor "Cons" (w int64, o) type "List" tag 1 of 2
layout l2 closure "add_n" (w int64) function f5 signature s0
layout l3 ref "ref(int64)" (w int64)
layout l4 ref "ref(List)" (o) cyclic
layout l5 array "array(int64)" (w int64)
layout l6 array "array(List)" (o)
layout l7 closure "landin" (o) function f12 signature s0 cyclic
layout l8 ref "ref(fn)" (o) cyclic
layout l9 tuple "pair" (o, w int64)
function f0 "build" (w, o) -> (o) registers 4 2 0 {
    word w1, 0
    less_equal_i64 w2, w0, w1
    branch_false w2, More
    return (o0)
  More:
    word w3, 1
    subtract_i64 w0, w0, w3
    cell_new o1, l1, (w0, o0)
    tail_call f0, (w0, o1)
}
function f1 "range" (w) -> (o) registers 1 1 0 {
    cell_new o0, l0, ()
    tail_call f0, (w0, o0)
}
function f2 "sum" (b) -> (w) registers 2 0 2 {
  name w0 "%h: int64"
  line 0 2 10
    switch_tag b0, l0, (Nil, Cons)
  Nil:
    word w0, 0
    return (w0)
  Cons:
    field_word w0, b0, l1, 0
    field_borrow b1, b0, l1, 1
  line 0 2 50
    call f2, (b1), (w1)
    add_i64 w0, w0, w1
    return (w0)
}
function f3 "reverse_onto" (o, o) -> (o) registers 1 4 0 {
    switch_tag o0, l0, (Nil, Cons)
  Nil:
    release o0
    return (o1)
  Cons:
    cell_unpack_keep o3, o0, l1, (w0, o2)
    cell_reuse o3, o3, l1, (w0, o1)
    tail_call f3, (o2, o3)
}
function f4 "reverse" (o) -> (o) registers 0 2 0 {
    cell_new o1, l0, ()
    tail_call f3, (o0, o1)
}
function f5 "add_n_body" (o, w) -> (w) registers 3 1 0 {
    field_word w1, o0, l2, 0
    release o0
    add_i64 w2, w0, w1
    return (w2)
}
function f6 "adder" (w) -> (o) registers 1 1 0 {
    cell_new o0, l2, (w0)
    return (o0)
}
function f7 "map" (o, o) -> (o) registers 2 5 0 {
    switch_tag o1, l0, (Nil, Cons)
  Nil:
    release o0
    return (o1)
  Cons:
    cell_unpack o1, l1, (w0, o2)
    retain o3, o0
    call_closure o3, s0, (w0), (w1)
    call f7, (o0, o2), (o4)
    cell_new o1, l1, (w1, o4)
    return (o1)
}
function f8 "bump" (b) -> (w) registers 3 0 1 {
    ref_read_word w0, b0, l3
    word w1, 1
    add_i64 w2, w0, w1
    ref_write_word b0, l3, w2
    return (w0)
}
function f9 "push" (b, w) -> (w) registers 1 2 1 {
    ref_take o0, b0, l4
    cell_new o1, l1, (w0, o0)
    ref_write b0, l4, o1
    return (w0)
}
function f10 "first_or_trap" (b) -> (w) registers 1 0 1 {
  line 0 2 3
    switch_tag b0, l0, (Nil, Cons)
  Nil:
    trap 3
  Cons:
    field_word w0, b0, l1, 0
    return (w0)
}
function f11 "make_cycle" (w) -> (w) registers 2 4 0 {
    cell_new o0, l2, (w0)
    ref_new o1, l8, o0
    retain o2, o1
    cell_new o3, l7, (o2)
    ref_write o1, l8, o3
    release o1
    return (w0)
}
function f12 "landin_body" (o, w) -> (w) registers 1 1 0 {
    release o0
    return (w0)
}
function f13 "apply" (o, w) -> (w) registers 2 1 0 {
    tail_call_closure o0, s0, (w0)
}
function f14 "sum_owned" (o) -> (w) registers 2 1 0 {
    call f2, (o0), (w0)
    release o0
    return (w0)
}
function f15 "take_twice" (o) -> (w) registers 1 3 0 {
    ref_new o1, l4, o0
    ref_take o0, o1, l4
    release o0
    ref_read o2, o1, l4
    release o2
    release o1
    word w0, 1
    return (w0)
}
function f16 "squares" (w) -> (w) registers 5 2 0 {
    word w1, 0
    array_new o0, l5, w1
    tail_call f17, (o0, w1, w0)
}
function f17 "squares_loop" (o, w, w) -> (w) registers 6 2 0 {
    less_i64 w2, w0, w1
    branch_false w2, Done
    multiply_i64 w3, w0, w0
    array_push_word o1, o0, l5, w3
    word w4, 1
    add_i64 w0, w0, w4
    tail_call f17, (o1, w0, w1)
  Done:
    word w4, 1
    subtract_i64 w5, w1, w4
    array_get_word w2, o0, l5, w5
    release o0
    return (w2)
}
function f18 "array_alias" (o) -> (w) registers 4 5 0 {
    word w0, 2
    array_new o1, l6, w0
    retain o2, o0
    array_push o3, o1, l6, o2
    retain o4, o3
    word w1, 0
    array_set o1, o3, l6, w1, o0
    array_length w2, o4, l6
    array_get o0, o4, l6, w1
    release o4
    release o1
    release o0
    return (w2)
}
function f19 "pair_with" (o) -> (o, w) registers 1 1 0 {
    word w0, 7
    return (o0, w0)
}
function f20 "ref_of" (o) -> (o) registers 0 2 0 {
    ref_new o1, l4, o0
    return (o1)
}
function f21 "many_cycles" (w, b) -> (w) registers 4 0 1 {
    word w1, 0
    less_equal_i64 w2, w0, w1
    branch_false w2, More
    call f2, (b0), (w1)
    return (w1)
  More:
    call f11, (w0), (w3)
    word w1, 1
    subtract_i64 w0, w0, w1
    tail_call f21, (w0, b0)
}
function f22 "prepend" (b, w) -> (w) registers 1 2 1 {
    ref_read o0, b0, l4
    cell_new o1, l1, (w0, o0)
    ref_write b0, l4, o1
    return (w0)
}
function f23 "cycles_beside" (w, o) -> (w) registers 2 6 0 {
    cell_new o1, l2, (w0)
    ref_new o2, l8, o1
    retain o3, o2
    cell_new o4, l7, (o3)
    ref_write o2, l8, o4
    cell_new o5, l0, ()
    call f21, (w0, o5), (w1)
    release o5
    ref_read o4, o2, l8
    release o2
    call_closure o4, s0, (w0), (w1)
    call f14, (o0), (w1)
    return (w1)
}
function f24 "take_and_trap" (b) -> (w) registers 1 1 1 {
    ref_take o0, b0, l4
    release o0
    trap 3
}
"""

LIST_ENTRIES = (
    entry(1, "range", [("n", INT)], LIST),
    entry(2, "sum", [("l", LIST)], INT),
    entry(4, "reverse", [("l", LIST)], LIST),
    entry(6, "adder", [("n", INT)], INT_TO_INT),
    entry(7, "map", [("f", INT_TO_INT), ("l", LIST)], LIST),
    entry(8, "bump", [("r", INT_REF)], INT),
    entry(9, "push", [("r", LIST_REF), ("x", INT)], INT),
    entry(10, "first", [("l", LIST)], INT),
    entry(11, "make_cycle", [("n", INT)], INT),
    entry(13, "apply", [("f", INT_TO_INT), ("x", INT)], INT),
    entry(14, "sum_owned", [("l", LIST)], INT),
    entry(15, "take_twice", [("l", LIST)], INT),
    entry(16, "squares", [("n", INT)], INT),
    entry(18, "array_alias", [("l", LIST)], INT),
    entry(
        19,
        "pair_with",
        [("l", LIST)],
        {"kind": "tuple", "text": "(List[int64], int64)", "layout": 9, "fields": [LIST, INT]},
        ("list", "seven"),
    ),
    entry(20, "ref_of", [("l", LIST)], LIST_REF),
    entry(21, "many_cycles", [("n", INT), ("l", LIST)], INT),
    entry(22, "prepend", [("r", LIST_REF), ("x", INT)], INT),
    entry(23, "cycles_beside", [("n", INT), ("l", LIST)], INT),
    entry(24, "take_and_trap", [("r", LIST_REF)], INT),
)


def lists() -> Executable:
    """Return a program over lists, references, closures and arrays."""
    return executable(LISTS, list(LIST_ENTRIES), [LIST_TYPE])


def list_machine(**limits) -> VirtualMachine:
    return VirtualMachine(lists(), **limits)


LOOPS = """
function f0 "loop" (w, w, w) -> (w) registers 7 0 0 {
    less_i64 w3, w0, w1
    branch_false w3, L
    word w4, 3
    multiply_i64 w5, w2, w4
    add_i64 w2, w5, w0
    word w6, 1
    add_i64 w0, w0, w6
    tail_call f0, (w0, w1, w2)
  L:
    return (w2)
}
function f1 "fib" (w) -> (w) registers 7 0 0 {
    word w1, 2
    less_i64 w2, w0, w1
    branch_false w2, R
    return (w0)
  R:
    word w3, 1
    subtract_i64 w4, w0, w3
    call f1, (w4), (w5)
    subtract_i64 w4, w4, w3
    call f1, (w4), (w6)
    add_i64 w5, w5, w6
    return (w5)
}
function f2 "depth" (w) -> (w) registers 4 0 0 {
  name w0 "n: int64"
  name w2 "rest: int64"
    word w1, 0
    less_equal_i64 w2, w0, w1
    branch_false w2, R
    return (w0)
  R:
    word w1, 1
    subtract_i64 w3, w0, w1
    call f2, (w3), (w2)
    add_i64 w2, w2, w1
    return (w2)
}
function f3 "even" (w) -> (w) registers 3 0 0 {
    word w1, 0
    not_equal_i64 w2, w0, w1
    branch_false w2, Yes
    word w1, 1
    subtract_i64 w0, w0, w1
    tail_call f4, (w0)
  Yes:
    word w1, 1
    return (w1)
}
function f4 "odd" (w) -> (w) registers 9 0 0 {
    word w1, 0
    not_equal_i64 w2, w0, w1
    branch_false w2, No
    word w1, 1
    subtract_i64 w8, w0, w1
    tail_call f3, (w8)
  No:
    return (w1)
}
"""


def loops() -> Executable:
    """Return a program over int64 words alone."""
    return executable(
        LOOPS,
        [
            entry(0, "main", [("i", INT), ("n", INT), ("acc", INT)], INT),
            entry(1, "fib", [("n", INT)], INT),
            entry(2, "depth", [("n", INT)], INT),
            entry(3, "even", [("n", INT)], INT),
        ],
    )
