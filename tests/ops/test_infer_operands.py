"""Operand types that an operator infers are found wherever the call stands: types of weights that
nobody wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations
from typing import Any

import pytest
from operator_cases import CASES, dtypes_of, types_of

import relayvm
from relayvm.base.dtypes import BOOL
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Call, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, TensorType, Type, scalar_type
from relayvm.ops import OPS

Given = tuple[tuple[Type, ...], tuple["Type | None", ...], dict[str, Any]]

INFERRING = sorted(name for name, op in OPS.items() if "infer_operands" in op.facets)


@cache
def calls(name: str) -> list[Given]:
    """Return for each case the types of operands, those left that the others follow from, and the
    attributes.
    """
    op = OPS[name]
    found: list[Given] = []
    for case in CASES[name]:
        types = types_of(case, next(iter(dtypes_of(op, case))))
        attrs = with_kernel(name, types, case.attrs)
        for known in left_out(types):
            if op.complete_types(known, attrs) == types:
                found.append((types, known, attrs))
                break
    return found


def left_out(types: tuple[Type, ...]) -> Iterator[tuple[Type | None, ...]]:
    """Yield the types without some of them, the fewest first."""
    for count in range(1, len(types)):
        for kept in combinations(range(len(types)), count):
            yield tuple(t if i in kept else None for i, t in enumerate(types))


def with_kernel(name: str, types: tuple[Type, ...], attrs: dict[str, Any]) -> dict[str, Any]:
    """Return attributes that say what the weight of a convolution says."""
    known = {attribute.name for attribute in OPS[name].attributes}
    weight = types[-1]
    if "kernel_size" not in known or not isinstance(weight, TensorType):
        return attrs
    result = OPS[name].result_type(types, attrs)
    assert isinstance(result, TensorType)
    return {"kernel_size": weight.shape[2:], "channels": result.shape[1], **attrs}


def params(known: tuple[Type | None, ...]) -> tuple[Var, ...]:
    return tuple(Var(f"p{i}", t) for i, t in enumerate(known))


def check(module: Module, name: str, types: tuple[Type, ...]) -> None:
    kind = infer_types(module)[name].checked_type
    assert isinstance(kind, FuncType)
    assert kind.arg_types[: len(types)] == types


def test_rows_with_inferred_operands_have_cases() -> None:
    assert len(INFERRING) > 10
    assert [name for name in INFERRING if not calls(name)] == []


@pytest.mark.parametrize("name", INFERRING)
def test_weights_are_inferred(name: str) -> None:
    for types, known, attrs in calls(name):
        args = params(known)
        check(Module({"main": Function(args, Call(OPS[name], args, attrs))}), "main", types)


@pytest.mark.parametrize("name", INFERRING)
def test_weights_are_inferred_inside_lets_tuples_and_branches(name: str) -> None:
    types, known, attrs = calls(name)[0]

    def wrapped(kind: str, call: Expr, flag: Expr) -> Expr:
        var = Var("v")
        if kind == "let":
            return Let(var, call, var)
        if kind == "tuple":
            return TupleGetItem(Tuple((call, flag)), 0)
        return If(flag, call, call)

    for kind in ("let", "tuple", "branch"):
        args, flag = params(known), Var("flag", scalar_type(BOOL))
        body = wrapped(kind, Call(OPS[name], args, attrs), flag)
        check(Module({"main": Function((*args, flag), body)}), "main", types)


@pytest.mark.parametrize("name", INFERRING)
def test_weights_are_inferred_in_a_function_that_is_called_from_elsewhere(name: str) -> None:
    types, known, attrs = calls(name)[0]
    inner, outer = params((None,) * len(types)), params(known)
    layer = Function(inner, Call(OPS[name], inner, attrs))
    main = Function(outer, Call(GlobalVar("layer"), outer))
    module = Module({"main": main, "layer": layer})
    check(module, "layer", types)
    check(module, "main", types)


@pytest.mark.parametrize("name", INFERRING)
def test_weights_are_inferred_behind_names_and_fields(name: str) -> None:
    types, known, attrs = calls(name)[0]
    args = params(known)
    names = [Var(f"n{i}") for i in range(len(args))]
    whole = Var("whole")
    fields = tuple(TupleGetItem(whole, i) for i in range(len(args)))
    body: Expr = Let(whole, Tuple(tuple(names)), Call(OPS[name], fields, attrs))
    for var, arg in zip(names, args):
        body = Let(var, arg, body)
    check(Module({"main": Function(args, body)}), "main", types)


CONV = "channels=4, kernel_size=[3, 3]"


@pytest.mark.parametrize(
    ("parameters", "call"),
    [
        ("%x: Tensor[(1, 8, 10), float32]", f"nn.conv2d(%x, %w, {CONV})"),
        ("%x: Tensor[(1, 8, 9, 9), float32]", "nn.conv2d(%x, %w, channels=4, kernel_size=[3])"),
        ("%x: Tensor[(1, 8, 9), float32]", f"nn.conv2d_transpose(%x, %w, {CONV})"),
        ("%x: (int32, int32)", "nn.dense(%x, %w, units=3)"),
        ("%x: Tensor[(3,), bool]", "nn.dense(%x, %w, units=3)"),
        ("%x: int32", "nn.dense(%x, %w, units=3)"),
        ("%x: int32", "nn.matmul(%x, %w, units=3)"),
        ("%x: Tensor[(4,), int32]", "nn.matmul(%x, %w, units=3, transpose_a=True)"),
        ("%x: Tensor[(4, 2), float32]", "nn.bias_add(%x, %w, axis=5)"),
        ("%x: Tensor[(4, 2), float32]", "nn.prelu(%x, %w, axis=5)"),
        ("%x: Tensor[(4, 2), float32]", "nn.layer_norm(%x, %w, %w, axis=5)"),
    ],
)
def test_what_an_operator_never_takes_is_told_alike_with_and_without_a_known_weight(
    parameters, call
):
    def told(weight: str) -> str:
        with pytest.raises(relayvm.RelayError) as raised:
            infer_types(relayvm.parse(f"def @main({parameters}, {weight}) {{ {call} }}"))
        return str(raised.value).partition("\n")[0]

    dtype = "float32" if "float32" in parameters else "bool" if "bool" in parameters else "int32"
    dims = {
        "conv2d(": "4, 8, 3, 3",
        "transpose(": "8, 4, 3, 3",
        "bias": "2,",
        "layer": "2,",
        "prelu": "2,",
    }
    shape = next((d for word, d in dims.items() if word in call), "3, 3")
    assert told("%w") == told(f"%w: Tensor[({shape}), {dtype}]")


@pytest.mark.parametrize(
    ("call", "size"),
    [
        ("nn.conv2d(%x, %w, channels=-4, kernel_size=[3, 3])", "axis 0 of `weight`"),
        ("nn.conv2d(%x, %w, channels=4, kernel_size=[3, -1])", "axis 3 of `weight`"),
        ("nn.dense(%x, %w, units=-3)", "axis 0 of `weight`"),
        ("nn.matmul(%x, %w, units=-3)", "axis 1 of `tensor_b`"),
    ],
)
def test_attributes_make_no_negative_size_of_a_weight(call, size):
    text = f"def @main(%x: Tensor[(1, 8, 9, 9), float32], %w) {{ {call} }}"
    with pytest.raises(relayvm.RelayError, match=f"by the attributes {size}"):
        infer_types(relayvm.parse(text))
