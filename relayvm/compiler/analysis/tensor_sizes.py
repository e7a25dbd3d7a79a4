"""Refuses programs whose tensors or types could never exist: more bytes than an address can reach,
types that share their parts and would fill any memory if they did not.
"""

from __future__ import annotations

from relayvm.base.abi import MAX_BYTES
from relayvm.base.diagnostics import Diagnostic, RelayError, error
from relayvm.base.source import Span
from relayvm.compiler.kinds import MOST_WORDS, TOO_LARGE
from relayvm.ir.expr import Op
from relayvm.ir.module import Module
from relayvm.ir.printer import print_type
from relayvm.ir.types import UNIT, RefType, TensorType, TupleType, Type, TypeCall
from relayvm.ir.visit import TypeWords, node_types, post_order


class _Sink:
    """Collects messages, each with the first place it has."""

    def __init__(self) -> None:
        self.places: dict[str, Span | None] = {}

    def add(self, message: str, span: Span | None) -> None:
        self.places.setdefault(message, span)

    def raise_if_any(self) -> None:
        if self.places:
            raise RelayError(Diagnostic("size-overflow", m, s) for m, s in self.places.items())


def check_sizes(module: Module) -> None:
    """Raise RelayError `size-overflow` where a static size is beyond what the machine can hold,
    `too-large-type` where a type is.

    Each type is reported once, where it comes first. Sizes that only a run can tell trap there with
    the same code.
    """
    sink = _Sink()
    seen: set[int] = set()
    words = TypeWords()
    for function in module.functions.values():
        for param in function.params:
            _check(param.checked_type or UNIT, param.span, sink, seen)
        for node in post_order(function):
            if isinstance(node, Op):
                continue
            for kind in (node.checked_type, *node_types(node)):
                if kind is not None:
                    if id(kind) not in seen and words(kind) > MOST_WORDS:
                        raise error("too-large-type", TOO_LARGE, node.span)
                    _check(kind, node.span, sink, seen)
    sink.raise_if_any()


def _check(kind: Type, span: Span | None, sink: _Sink, seen: set[int]) -> None:
    pending = [kind]
    while pending:
        kind = pending.pop()
        if id(kind) in seen:
            continue
        seen.add(id(kind))
        match kind:
            case TensorType() as tensor:
                if _is_too_large(tensor):
                    sink.add(f"`{print_type(tensor)}` needs more than 2^46 bytes", span)
            case TupleType() as whole:
                pending.extend(whole.fields)
            case RefType() as ref:
                pending.append(ref.value)
            case TypeCall() as call:
                pending.extend(call.args)
            case _:
                pass


def _is_too_large(tensor: TensorType) -> bool:
    count = tensor.dtype.itemsize_bytes
    for dim in tensor.shape:
        if isinstance(dim, int):
            if dim >= MAX_BYTES:
                return True
            count *= dim
    return count >= MAX_BYTES
