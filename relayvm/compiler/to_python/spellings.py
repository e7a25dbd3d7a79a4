"""How calls of operators are written: in plain numpy where that gives the same bits, else as calls
of the operator table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from relayvm.base.dtypes import DType
from relayvm.compiler.to_python.text import OPERATOR, POSTFIX, Term, joined, tuple_text
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops.binary import BINARY_MEANINGS
from relayvm.ops.unary import UNARY_MEANINGS

MEANINGS = {**UNARY_MEANINGS, **BINARY_MEANINGS}
INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
}
Uses = Callable[[str], str]
Spelling = Callable[[Sequence[Term], Sequence[Type], Mapping[str, Any]], "Term | None"]


def spelled(
    name: str, args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any], uses: Uses
) -> Term | None:
    """Return a call in plain numpy, or None. `uses` is told the helpers that the text needs."""
    dtypes = [t.dtype for t in types if isinstance(t, TensorType)]
    within = (*(d for t in types for d in _dtypes_within(t)), *attrs.values())
    if any(isinstance(d, DType) and d.is_narrow for d in within):
        return None
    if name in MEANINGS and dtypes:
        return _elementwise(name, args, dtypes[0], uses)
    if name == "cast" and isinstance(types[0], TensorType):
        return _cast(args[0], dtypes[0], attrs["dtype"], uses)
    spelling = _SPELLINGS.get(name)
    return spelling(args, types, attrs) if spelling is not None else None


def _dtypes_within(type_: Type) -> set[DType]:
    """Return the dtypes of a tensor, or of a tuple of tensors."""
    if isinstance(type_, TupleType):
        return {d for field in type_.fields for d in _dtypes_within(field)}
    return {type_.dtype} if isinstance(type_, TensorType) else set()


def _elementwise(name: str, args: Sequence[Term], dtype: DType, uses: Uses) -> Term | None:
    symbol = INFIX.get(name)
    if symbol is not None and (symbol != "/" or dtype.is_float):
        return Term(f"{args[0].tight} {symbol} {args[1].tight}", OPERATOR)
    if name == "negative":
        return Term(f"-{args[0].tight}", OPERATOR)
    meaning = MEANINGS[name]
    if dtype == "float16" or (len(args) == 1 and not (dtype.is_float or dtype.is_bool)):
        return None
    if isinstance(meaning, np.ufunc):
        return Term(f"np.{meaning.__name__}({joined(args)})", POSTFIX)
    if is_helper(meaning):
        return Term(f"{uses(meaning.__name__)}({joined(args)})", POSTFIX)
    return None


def _cast(x: Term, source: DType, target: DType, uses: Uses) -> Term:
    if target.is_bool:
        return Term(f"{x.tight} != 0", OPERATOR)
    if source.is_float and target.is_integer:
        return Term(f"{uses('to_integer')}({x.loose}, np.{target})", POSTFIX)
    return Term(f"{x.tight}.astype(np.{target})", POSTFIX)


def _sizes(shape: Any) -> str | None:
    plain = all(isinstance(dim, int) for dim in shape)
    return tuple_text([str(dim) for dim in shape]) if plain else None


def _rank(type_: Type) -> int:
    return type_.rank if isinstance(type_, TensorType) else -1


def _wide(types: Sequence[Type]) -> bool:
    return all(isinstance(t, TensorType) and t.dtype in ("float32", "float64") for t in types)


def _reshape(args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]) -> Term | None:
    sizes = attrs["newshape"]
    plain = all(isinstance(n, int) and (n > 0 or n == -1) for n in sizes)
    if not plain or sizes.count(-1) > 1:
        return None
    return Term(f"{args[0].tight}.reshape({tuple_text([str(n) for n in sizes])})", POSTFIX)


def _transpose(
    args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]
) -> Term | None:
    axes = attrs["axes"]
    if not axes:
        return Term(f"np.transpose({args[0].loose})", POSTFIX)
    return Term(f"np.transpose({args[0].loose}, {axes!r})", POSTFIX)


def _joining(function: str) -> Spelling:
    def spelling(
        args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]
    ) -> Term | None:
        return Term(f"np.{function}({args[0].loose}, axis={attrs['axis']})", POSTFIX)

    return spelling


def _filled(function: str) -> Spelling:
    def spelling(
        args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]
    ) -> Term | None:
        shape = _sizes(attrs["shape"])
        dtype = attrs["dtype"] or "float32"
        return Term(f"np.{function}({shape}, np.{dtype})", POSTFIX) if shape else None

    return spelling


def _alike(function: str) -> Spelling:
    def spelling(
        args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]
    ) -> Term | None:
        return Term(f"np.{function}({args[0].loose})", POSTFIX)

    return spelling


def _expand_dims(
    args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]
) -> Term | None:
    if attrs["num_newaxis"] != 1:
        return None
    return Term(f"np.expand_dims({args[0].loose}, {attrs['axis']})", POSTFIX)


def _sum(args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]) -> Term | None:
    tensor = types[0]
    if attrs["exclude"] or not _wide(types) or attrs["axis"] == ():
        return None
    axis = attrs["axis"]
    where = f", axis={axis!r}" if axis is not None else ""
    keep = ", keepdims=True" if attrs["keepdims"] else ""
    assert isinstance(tensor, TensorType)
    return Term(f"np.sum({args[0].loose}{where}{keep}, dtype=np.{tensor.dtype})", POSTFIX)


def _dense(args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]) -> Term | None:
    if not _wide(types) or attrs["out_dtype"] is not None:
        return None
    return Term(f"np.matmul({args[0].loose}, {args[1].tight}.T)", POSTFIX)


def _matmul(args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]) -> Term | None:
    turned = attrs["transpose_a"] or attrs["transpose_b"]
    if turned or not _wide(types) or attrs["out_dtype"] is not None:
        return None
    return Term(f"np.matmul({joined(args)})", POSTFIX)


def _bias_add(args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]) -> Term | None:
    if not _wide(types) or attrs["axis"] not in (-1, _rank(types[0]) - 1):
        return None
    return Term(f"{args[0].tight} + {args[1].tight}", OPERATOR)


def _relu(args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]) -> Term | None:
    tensor = types[0]
    assert isinstance(tensor, TensorType)
    return Term(f"np.maximum({args[0].loose}, np.{tensor.dtype}(0))", POSTFIX)


def _where(args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]) -> Term | None:
    return Term(f"np.where({joined(args)})", POSTFIX)


def _copy(args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]) -> Term | None:
    return args[0]


def _split(args: Sequence[Term], types: Sequence[Type], attrs: Mapping[str, Any]) -> Term | None:
    parts = attrs["indices_or_sections"]
    return Term(f"tuple(np.split({args[0].loose}, {parts!r}, axis={attrs['axis']}))", POSTFIX)


_SPELLINGS: Mapping[str, Spelling] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "concatenate": _joining("concatenate"),
    "stack": _joining("stack"),
    "zeros": _filled("zeros"),
    "ones": _filled("ones"),
    "zeros_like": _alike("zeros_like"),
    "ones_like": _alike("ones_like"),
    "expand_dims": _expand_dims,
    "sum": _sum,
    "nn.dense": _dense,
    "nn.matmul": _matmul,
    "nn.batch_matmul": _matmul,
    "nn.bias_add": _bias_add,
    "nn.relu": _relu,
    "where": _where,
    "copy": _copy,
    "split": _split,
}


def is_helper(meaning: Any) -> bool:
    """Tell whether a meaning is a function that a text can hold as source."""
    return isinstance(meaning, FunctionType) and meaning.__module__ == "relayvm.ops.numeric"


def is_tensors(type_: Type | None) -> bool:
    """Tell whether a type is a tensor, or a tuple of tensors."""
    if isinstance(type_, TupleType):
        return all(map(is_tensors, type_.fields))
    return isinstance(type_, TensorType)


def spelled_names() -> frozenset[str]:
    """Return the operators that have a spelling in plain numpy."""
    return frozenset([*MEANINGS, *_SPELLINGS, "cast"])
