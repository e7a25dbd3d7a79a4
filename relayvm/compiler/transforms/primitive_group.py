"""Writing a group of bindings as one primitive function and its call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from relayvm.base.shapes import shape_context
from relayvm.base.source import Span
from relayvm.compiler.analysis.traps import may_miss, may_trap
from relayvm.compiler.transforms.blocks import Binding, rebuild_block
from relayvm.ir.expr import Attrs, Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from relayvm.ir.types import FuncType, TensorType, TupleType, Type
from relayvm.ops import OPS
from relayvm.ops.operator import Operator

PRIMITIVE = Attrs(Primitive=1)


class GroupBuilder:
    """Builds one primitive function and the bindings around its call.

    `written` holds, by their names, bindings as they were before others took their places. Those
    stand in front, unread: a run compares sizes by their rules first, so what it says is about the
    program's own operators.
    """

    def __init__(self, written: Mapping[Var, Binding] | None = None) -> None:
        self.written = written or {}
        self.replaced = {b.var for b in self.written.values()}
        self.shown: dict[Expr, Var] = {}
        self.instead: set[Var] = set()
        self.before: list[Binding] = []
        self.body: list[Binding] = []
        self.params: list[Var] = []
        self.args: list[Expr] = []
        self.inner: dict[Expr, Expr] = {}
        self.own: dict[Var, Binding] = {}

    def add(self, binding: Binding) -> None:
        """Put a binding into the function; what it reads from outside becomes a parameter."""
        if binding.var in self.written:
            self._show(self.written[binding.var])
        value = binding.value
        if isinstance(value, Call):
            args = tuple(self._operand(a) for a in value.args)
            inner: Expr = Call(
                value.op,
                args,
                value.attrs,
                value.type_args,
                span=value.span,
                checked_type=value.checked_type,
            )
        elif isinstance(value, Tuple):
            fields = tuple(self._operand(f) for f in value.fields)
            inner = Tuple(fields, span=value.span, checked_type=value.checked_type)
        else:
            assert isinstance(value, TupleGetItem)
            inner = TupleGetItem(
                self._operand(value.tuple_value),
                value.index,
                span=value.span,
                checked_type=value.checked_type,
            )
        var = binding.var
        fresh = Var(var.name, var.type_annotation, span=var.span, checked_type=inner.checked_type)
        self.inner[var] = fresh
        self.own[var] = binding
        if var in self.written:
            self.instead.add(fresh)
        self.body.append(Binding(fresh, inner, binding.span))

    def _show(self, binding: Binding) -> None:
        """Put a binding into the function that nothing reads but others of its kind."""
        value = binding.value
        assert isinstance(value, Call)
        if binding.var in self.shown:
            return
        args = tuple(map(self._shown_operand, value.args))
        fresh = Var(binding.var.name, span=binding.var.span, checked_type=value.checked_type)
        self.shown[binding.var] = fresh
        self.body.append(Binding(fresh, replace(value, args=args), binding.span))

    def _shown_operand(self, operand: Expr) -> Expr:
        """Return an operand as the program wrote it. One that another kernel computes broadened is
        no more: something else of its sizes stands for it.
        """
        if operand not in self.replaced or operand in self.shown:
            return self.shown.get(operand) or self._operand(operand)
        kind = operand.checked_type
        assert isinstance(kind, TensorType), "what is broadened is a tensor"
        attrs = Attrs(shape=kind.shape, dtype=kind.dtype)
        empty = Call(OPS["zeros"], (), attrs, span=operand.span, checked_type=kind)
        self.shown[operand] = Var("z", span=operand.span, checked_type=kind)
        self.body.append(Binding(self.shown[operand], empty, operand.span))
        return self.shown[operand]

    def _operand(self, operand: Expr) -> Expr:
        if isinstance(operand, Constant) and operand.data.ndim == 0:
            return operand
        if operand in self.inner:
            return self.inner[operand]
        kind = operand.checked_type
        if isinstance(kind, TupleType):
            self.inner[operand] = self._unpack(operand, kind)
        else:
            assert kind is not None
            self.inner[operand] = self._param(operand, kind)
        return self.inner[operand]

    def _param(self, operand: Expr, kind: Type) -> Var:
        param = Var(f"p{len(self.params)}", kind, span=operand.span, checked_type=kind)
        self.params.append(param)
        self.args.append(operand)
        return param

    def _unpack(self, operand: Expr, kind: TupleType) -> Expr:
        """Pass a tuple that is made elsewhere field by field: kernels take tensors only."""
        fields: list[Expr] = []
        for index, field_type in enumerate(kind.fields):
            item = TupleGetItem(operand, index, span=operand.span, checked_type=field_type)
            var = Var(f"f{index}", field_type, span=operand.span, checked_type=field_type)
            self.before.append(Binding(var, item, operand.span))
            fields.append(self._param(var, field_type))
        whole = Var("t", kind, span=operand.span, checked_type=kind)
        self.body.append(Binding(whole, Tuple(tuple(fields), checked_type=kind), operand.span))
        return whole

    def finish(self, outputs: list[Var]) -> list[Binding]:
        """Return the bindings: projections before, the call, and one binding for each output."""
        flat: list[Expr] = []
        after: list[Binding] = []
        span = self.body[-1].span
        result = Var("g", span=span)
        single = len(outputs) == 1 and isinstance(type_of(self.own[outputs[0]].value), TensorType)

        def project(kind: Type, value: Expr) -> Expr:
            flat.append(value)
            return TupleGetItem(result, len(flat) - 1, span=span, checked_type=kind)

        for var in outputs:
            kind = type_of(self.own[var].value)
            inner = self.inner[var]
            if isinstance(kind, TupleType):
                parts: list[Expr] = []
                for index, field_type in enumerate(kind.fields):
                    item = Var(f"{var.name}_{index}", field_type, checked_type=field_type)
                    inside = Var(f"{var.name}_{index}", field_type, checked_type=field_type)
                    get = TupleGetItem(inner, index, checked_type=field_type)
                    self.body.append(Binding(inside, get, span))
                    after.append(Binding(item, project(field_type, inside), span))
                    parts.append(item)
                whole = Tuple(tuple(parts), span=span, checked_type=kind)
                after.append(Binding(var, whole, self.own[var].span))
            else:
                after.append(Binding(var, project(kind, inner), self.own[var].span))
        return self.before + self._call(flat, after, result, outputs[0] if single else None)

    def _call(
        self, flat: list[Expr], after: list[Binding], result: Var, single: Var | None
    ) -> list[Binding]:
        types = tuple(type_of(e) for e in flat)
        kind: Type = types[0] if single else TupleType(types)
        tail = flat[0] if single else Tuple(tuple(flat), checked_type=kind)
        span = self._place()
        if tail is self.body[-1].var:
            tail = self.body.pop().value
        body = rebuild_block(self.body, tail)
        signature = FuncType(tuple(type_of(p) for p in self.params), kind)
        function = Function(
            tuple(self.params), body, kind, (), PRIMITIVE, span=span, checked_type=signature
        )
        call = Call(function, tuple(self.args), span=span, checked_type=kind)
        if single:
            return [Binding(single, call, self.own[single].span)]
        typed = Var(result.name, kind, span=span, checked_type=kind)
        renamed = [Binding(b.var, _with_tuple(b.value, result, typed), b.span) for b in after]
        return [Binding(typed, call, span), *renamed]

    def _place(self) -> Span | None:
        """Return the place of the call: where it can trap, else where its last value is made."""
        for binding in self.body:
            if binding.var in self.instead or not isinstance(binding.value, Call):
                continue
            if is_checked_at_run(binding.value):
                return binding.value.span or self.body[-1].span
        return self.body[-1].span


def _with_tuple(value: Expr, old: Var, new: Var) -> Expr:
    if isinstance(value, TupleGetItem) and value.tuple_value is old:
        return TupleGetItem(new, value.index, span=value.span, checked_type=value.checked_type)
    return value


def is_checked_at_run(call: Call) -> bool:
    """Tell whether a run compares sizes or indices for this operator itself."""
    if not isinstance(call.op, Operator) or not may_trap(call):
        return False
    if may_miss(call):
        return True
    types = tuple(a.checked_type for a in call.args)
    with shape_context() as context:
        call.op.result_type([t for t in types if t is not None], call.attrs)
    return bool(context.checks)


def type_of(value: Expr) -> Type:
    """Return the type of a typed expression."""
    assert value.checked_type is not None
    return value.checked_type
