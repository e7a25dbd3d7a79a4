"""Each instruction on words gives the same bits interpreted, by its C body from compiled code, and
lowered in place, on edge values of every dtype."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import BFLOAT16, BOOL, BY_NAME, COMPUTED, FLOATS, DType
from relayvm.vm import isa
from relayvm.vm.jit import make_native
from relayvm.vm.jit.module import INLINE
from relayvm.vm.machine import VirtualMachine
from tests.vm.test_word_instructions import program, samples

# Instructions whose C body is called from compiled code; all others are lowered in place.
BY_BODY = {
    *(isa.cast_name(d, BFLOAT16) for d in COMPUTED if d.bits == 64),
    "ref_new_word",
    "ref_new",
    "array_new",
    "tensor_view",
    "tensor_view_take",
    "slice_view",
    "tensor_from_words",
    "box_word",
}


def test_these_instructions_are_lowered_in_place():
    assert set(isa.ISA) - INLINE == BY_BODY
    assert set(isa.ISA) >= INLINE


# What programs are made of, by what it is for.
PLACED = {
    "moves": {"move", "move_object", "borrow"},
    "constants": {"word", "constant"},
    "branches": {"goto", "branch_false", "select"},
    "calls": {"call", "return", "tail_call", "call_closure", "tail_call_closure"},
    "matches": {"switch_tag", "tag"},
    "fields": {"field_word", "field_borrow", "field_retain"},
    "cells": {"cell_new", "cell_unpack", "cell_unpack_keep", "cell_reuse"},
    "counts": {"retain", "release"},
    "kernels": {"kernel", "kernel_reuse"},
    "references": {"ref_read_word", "ref_read", "ref_write_word", "ref_write", "ref_take"},
    "arrays": {
        *("array_length", "array_get_word", "array_get", "array_set_word", "array_set"),
        *("array_push_word", "array_push"),
    },
    "tensors": {
        *("tensor_dim", "tensor_rank", "unbox_word"),
        *("check_dim", "check_equal", "tensor_check"),
    },
    "comparisons": {isa.word_name(n, d) for n in isa.COMPARISONS for d in COMPUTED},
    "integers": {isa.word_name(n, d) for n in isa.ARITHMETIC for d in COMPUTED if d.is_integer},
    "bits": {isa.word_name(n, d) for n in isa.BITWISE for d in COMPUTED if not d.is_float},
    "floats": {isa.word_name(n, d) for n in isa.ARITHMETIC for d in FLOATS},
    "signs": {isa.word_name(n, d) for n in isa.UNARY for d in COMPUTED if not d.is_bool},
    "casts": {isa.cast_name(a, b) for a in COMPUTED for b in COMPUTED if a is not b} - BY_BODY,
}


@pytest.mark.parametrize("name", PLACED)
def test_what_programs_are_made_of_is_lowered_in_place(name):
    assert PLACED[name] <= INLINE


def rows_of(dtype: DType) -> list[tuple[str, tuple[DType, ...], DType]]:
    """Return the instructions that read words of a dtype: name, operands, result."""
    rows = []
    numeric = not dtype.is_bool
    if numeric:
        rows += [(isa.word_name(n, dtype), (dtype, dtype), dtype) for n in isa.ARITHMETIC]
        rows += [(isa.word_name(n, dtype), (dtype,), dtype) for n in isa.UNARY]
    else:
        rows += [(name, (dtype, dtype), dtype) for name in isa.LOGICAL]
        rows += [("logical_not", (dtype,), dtype), ("select", (dtype, dtype, dtype), dtype)]
    if not dtype.is_float:
        rows += [(isa.word_name(n, dtype), (dtype, dtype), dtype) for n in isa.BITWISE]
        rows.append((isa.word_name("bitwise_not", dtype), (dtype,), dtype))
    if dtype.is_integer:
        rows += [(isa.word_name(n, dtype), (dtype, dtype), dtype) for n in isa.SHIFTS]
    rows += [(isa.word_name(n, dtype), (dtype, dtype), BOOL) for n in isa.COMPARISONS]
    rows += [(isa.cast_name(dtype, t), (dtype,), t) for t in COMPUTED if t is not dtype]
    return rows


def edges(dtype: DType) -> list:
    """Return edge values, for floats also the least numbers and NaNs of other bits."""
    values = list(samples(dtype))
    if dtype.is_float:
        whole = np.dtype(f"u{dtype.itemsize_bytes}").type
        one, sign = int(np.ones(1, dtype.numpy).view(whole)[0]), 1 << (dtype.bits - 1)
        infinity = int(np.full(1, np.inf, dtype.numpy).view(whole)[0])
        bits = [1, sign | 1, one - 1, one + 1, infinity - 1, infinity + 1, sign | (infinity + 3)]
        values += [np.array(b, whole).view(dtype.numpy)[()] for b in bits]
    return values


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_the_three_ways_give_the_same_bits(dtype):
    rows = rows_of(dtype)
    exes = [program(rows) for _ in range(3)]
    make_native(exes[1], inline=False)
    engines = ("interpreter", "jit", "jit")
    interpreter, body, inline = (VirtualMachine(e, engine=k) for e, k in zip(exes, engines))
    values = edges(dtype)
    for name, operands, _ in rows:
        for args in product(values, repeat=len(operands)):
            wanted = interpreter.invoke(name, *args)
            for vm in (body, inline):
                given = vm.invoke(name, *args)
                assert is_same(given, wanted, args), (name, args, given, wanted)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_remainders_of_close_and_far_floats_are_as_interpreted(dtype):
    names = [isa.word_name(n, dtype) for n in ("mod", "floor_mod", "floor_divide")]
    exes = [program([(name, (dtype, dtype), dtype) for name in names]) for _ in range(2)]
    interpreter, jit = (VirtualMachine(e, engine=k) for e, k in zip(exes, ("interpreter", "jit")))
    rng = np.random.default_rng(11)
    whole = np.dtype(f"u{dtype.itemsize_bytes}").type
    for _ in range(400):
        b = rng.integers(0, 1 << dtype.bits, 1, np.uint64).astype(whole).view(dtype.numpy)[0]
        with np.errstate(all="ignore"):
            near = dtype.numpy.type(b * dtype.numpy.type(rng.integers(1, 1 << rng.integers(1, 60))))
            step = (np.array(near).view(whole) + rng.integers(-2, 3)).astype(whole)
        a = rng.choice([near, step.view(dtype.numpy)[()], -near]).astype(dtype.numpy)
        for name in names:
            for args in ((a, b), (b, a), (a, -b)):
                given, wanted = (vm.invoke(name, *args) for vm in (jit, interpreter))
                assert is_same(given, wanted, args), (name, args, given, wanted)


def is_same(given, wanted, args) -> bool:
    """Of two NaNs, either may be the result of an operation."""
    if given.tobytes() == wanted.tobytes():
        return True
    with np.errstate(invalid="ignore"):  # ml_dtypes tells of signalling NaNs
        nans = [bool(np.isnan(v)) for v in (*args, given, wanted)]
    return sum(nans[:-2]) > 1 and all(nans[-2:])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", ["mod", "floor_mod", "floor_divide", "divide", "maximum"])
def test_a_constant_operand_does_not_ask_for_a_library(name: str, dtype: str) -> None:
    suffix = {"float16": "f16", "bfloat16": "bf16", "float32": "f", "float64": "f64"}[dtype]
    calls = ", ".join(f"{name}(%x, {c}{suffix})" for c in ("1", "-1", "2", "0.5"))
    exe = relayvm.compile(relayvm.parse(f"def @main(%x: {dtype}) {{ ({calls}) }}"))
    for value in (2.5, -2.5, 0.0, 1e4):
        x = np.array(value).astype(BY_NAME[dtype].numpy)
        results = [
            [np.asarray(part).tobytes() for part in VirtualMachine(exe, engine=engine).run(x)]
            for engine in ("interpreter", "jit")
        ]
        assert results[0] == results[1]
