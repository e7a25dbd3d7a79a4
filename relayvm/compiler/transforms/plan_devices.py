"""Checking that a program runs on one device, and dropping what says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from relayvm.base.diagnostics import error
from relayvm.base.source import Span
from relayvm.compiler.rewriting import CallRule, Site, rewrite_calls
from relayvm.compiler.rewriting.build import attrs_of, is_call
from relayvm.ir.expr import Attrs, Call, Expr, Function
from relayvm.ir.module import Module
from relayvm.ir.visit import post_order, rewrite

_PLACES = {"on_device": ("device",), "device_copy": ("src_device", "dst_device")}
_FUNCTION_PLACES = ("param_devices", "result_device")
# `cpu`, `cpu(0)` and `cpu:0` name the same device.
_NAME = re.compile(r"([^(:]*)[(:]?(\d*)\)?")


def plan_devices(module: Module) -> Module:
    """Drop annotations of devices from a program that runs on one.

    `exp(on_device(%x, device="cpu"))` -> `exp(%x)`. A program runs on one device as a whole, that
    of its target: annotations that name two are refused with RelayError `several-devices`.
    """
    first: tuple[str, Span | None] | None = None
    for name, span in _named_devices(module):
        if first is None:
            first = name, span
        elif name != first[0]:
            message = f"parts of the program are on `{first[0]}`, others on `{name}`"
            raise error("several-devices", message, span=span or first[1])
    without_calls = rewrite_calls(module, [CallRule(name, name, _operand) for name in _PLACES])
    functions = {name: _unmarked(f) for name, f in without_calls.functions.items()}
    return without_calls.with_functions(functions)


def _named_devices(module: Module) -> Iterator[tuple[str, Span | None]]:
    for function in module.functions.values():
        for node in post_order(function):
            names: list[object] = []
            if isinstance(node, Call) and is_call(node, *_PLACES):
                attrs = attrs_of(node)
                names = [attrs[key] for key in _PLACES[node.op.name]]  # type: ignore[attr-defined]
            elif isinstance(node, Function):
                for key in _FUNCTION_PLACES:
                    value = node.attrs.get(key, ())
                    names += value if isinstance(value, tuple) else (value,)
            for name in names:
                if isinstance(name, str) and name:
                    yield _canonical(name), node.span


def _canonical(name: str) -> str:
    found = _NAME.fullmatch(name)
    return f"{found[1]}({found[2] or 0})" if found else name


def _operand(node: Call, site: Site) -> Expr:
    return node.args[0]


def _unmarked(root: Function) -> Function:
    result = rewrite(root, _without_marks)
    assert isinstance(result, Function)
    return result


def _without_marks(node: Expr) -> Expr:
    if not isinstance(node, Function) or not any(key in node.attrs for key in _FUNCTION_PLACES):
        return node
    kept = Attrs({k: v for k, v in node.attrs.items() if k not in _FUNCTION_PLACES})
    return replace(node, attrs=kept)
