"""Networks that only pretend to be quantized, computed on integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.base.dtypes import FLOAT32, INT32
from relayvm.base.shapes import ShapeError
from relayvm.compiler.rewriting import CallRule, Site, rewrite_calls
from relayvm.compiler.rewriting.affine import Affine, Target, no_offset
from relayvm.compiler.rewriting.build import attrs_of, constant, is_call
from relayvm.compiler.rewriting.integer_rules import (
    GAINING,
    INTEGER_RULES,
    OPTIONAL_RULES,
    IntegerRule,
    Question,
)
from relayvm.ir.expr import Call, Constant, Expr, Tuple
from relayvm.ir.module import Module
from relayvm.ops.operator import Operator


def fake_quantization_to_integer(
    module: Module,
    hard_fail: bool = False,
    use_qat: bool = False,
    optional_qnn_ops: tuple[str, ...] = (),
) -> Module:
    """Compute on integers what lies between `dequantize` and `quantize`.

    `qnn.quantize(nn.relu(qnn.dequantize(%q, %s, %z)), %s, %z)` -> `maximum(%q, %z)`. Floats that
    have other users too stay for these. With `use_qat` products of dequantized tensors are computed
    on integers also where no `quantize` follows. `optional_qnn_ops` names operators that are left
    alone otherwise: `nn.softmax`. With `hard_fail` an operator without an integer form is refused
    with RelayError `bad-option`.
    """
    rules = dict(INTEGER_RULES)
    for name in optional_qnn_ops:
        if name not in OPTIONAL_RULES:
            known = ", ".join(f"`{known}`" for known in OPTIONAL_RULES)
            raise error("bad-option", f"`{name}` is no optional operator; these are {known}")
        rules[name] = OPTIONAL_RULES[name]
    forms = _Forms(rules, hard_fail)
    calls = [CallRule("quantize", "qnn.quantize", forms.quantize, rounds=True)]
    if use_qat:
        calls += [CallRule("product", name, forms.product, rounds=True) for name in GAINING]
    return rewrite_calls(module, calls)


class _Forms:
    """The integer forms of rewritten expressions; those that no target asked for are found once."""

    def __init__(self, rules: dict[str, IntegerRule], hard_fail: bool) -> None:
        self.rules = rules
        self.hard_fail = hard_fail
        # Expressions without a form for any target are known by None.
        self.known: dict[int, Affine | None] = {}
        self.kept: list[Expr] = []

    def quantize(self, node: Call, site: Site) -> Expr | None:
        """Return the integers of what is quantized, with the scale that is wanted."""
        attrs = attrs_of(node)
        scale, zero_point = (site.definition(arg) for arg in node.args[1:])
        target = Target(scale, zero_point, attrs["out_dtype"], attrs["axis"])
        form = self.form(node.args[0], target, site)
        return None if form is None else form.requantized(target, node.span).integers

    def product(self, node: Call, site: Site) -> Expr | None:
        """Return a product of dequantized tensors as a dequantized product."""
        forms = [self.form(arg, None, site) for arg in node.args]
        if any(form is None for form in forms):
            return None
        assert isinstance(node.op, Operator)
        target = Target(constant(1, FLOAT32), no_offset(), INT32, -1)
        made = self.rules[node.op.name](Question(node, forms, target))
        return None if made is None else made.as_floats(node.span)

    def form(self, root: Expr, target: Target | None, site: Site) -> Affine | None:
        """Return the integer form of an expression, or None if it has none."""
        local: dict[int, Any] = {}
        stack = [(root, False)]
        while stack:
            expr, ready = stack.pop()
            if id(expr) in local:
                continue
            if id(expr) in self.known:
                local[id(expr)] = self.known[id(expr)]
                continue
            node = site.definition(expr)
            below = tuple(self.operands(node))
            if not ready and below:
                stack.append((expr, True))
                stack.extend((part, False) for part in below)
                continue
            made = self.made(node, below, local, target, site)
            local[id(expr)] = made
            hopeless = self.is_hopeless(node, below)
            if hopeless or (isinstance(made, Affine) and not made.wants_target):
                self.known[id(expr)] = made
                self.kept.append(expr)
        result = local[id(root)]
        return result if isinstance(result, Affine) else None

    def is_hopeless(self, node: Expr, below: Sequence[Expr]) -> bool:
        """Return True if no target gives a node an integer form."""
        if any(self.known.get(id(part), node) is None for part in below):
            return True
        if isinstance(node, Tuple) or is_call(node, "qnn.dequantize"):
            return False
        return not isinstance(node, Call) or self.rule(node) is None

    def operands(self, node: Expr) -> Iterator[Expr]:
        """Yield what must have an integer form for a node to have one."""
        if isinstance(node, Tuple):
            yield from node.fields
        elif isinstance(node, Call) and self.rule(node) is not None:
            yield from (arg for arg in node.args if not isinstance(arg, Constant))

    def rule(self, node: Call) -> IntegerRule | None:
        return self.rules.get(node.op.name) if isinstance(node.op, Operator) else None

    def made(
        self,
        node: Expr,
        below: Sequence[Expr],
        local: dict[int, Any],
        target: Target | None,
        site: Site,
    ) -> Any:
        """Return the form of one node from those of its operands."""
        if isinstance(node, Tuple):
            parts = tuple(local[id(field)] for field in node.fields)
            return parts if all(isinstance(part, Affine) for part in parts) else None
        if not isinstance(node, Call):
            return None
        if is_call(node, "qnn.dequantize"):
            scale, zero_point = (site.definition(arg) for arg in node.args[1:])
            return Affine(node.args[0], scale, zero_point, attrs_of(node)["axis"])
        rule = self.rule(node)
        if rule is None:
            return self.refused(node)
        if target is None or not below or any(local[id(part)] is None for part in below):
            return None
        forms = [local.get(id(arg)) for arg in node.args]
        try:
            made = rule(Question(node, forms, target))
        except ShapeError:
            return None
        if made is not None and any(_wants_target(form) for form in forms):
            return replace(made, wants_target=True)
        return made

    def refused(self, node: Call) -> None:
        if self.hard_fail and isinstance(node.op, Operator):
            message = f"operator `{node.op.name}` has no form on integers"
            raise error("bad-option", message, span=node.span)


def _wants_target(form: Any) -> bool:
    parts = form if isinstance(form, tuple) else (form,)
    return any(isinstance(part, Affine) and part.wants_target for part in parts)
