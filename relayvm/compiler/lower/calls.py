"""Selection of calls: functions, closures, constructors, kernels, word instructions, views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from relayvm.base.abi import TrapCode
from relayvm.base.diagnostics import InternalError, RelayError, error
from relayvm.base.dims import Dim
from relayvm.base.dtypes import INT64, DType
from relayvm.base.source import Span
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.analysis.sizes import instance_types
from relayvm.compiler.lower.arrays import array_call
from relayvm.compiler.lower.code import (
    Bundle,
    Code,
    Value,
    dtype_of_type,
    return_type_of,
    tensor_type,
    type_of,
)
from relayvm.compiler.lower.layouts import class_of, is_spread
from relayvm.compiler.lower.linear import (
    OBJECT,
    WORD,
    Arg,
    Block,
    Choice,
    Def,
    Operand,
    Reg,
    Step,
    Take,
    Use,
    roles,
)
from relayvm.compiler.lower.words import (
    LeadingParts,
    is_data_dependent_view,
    is_view,
    leading_parts,
    word_instruction,
)
from relayvm.ir.expr import Call, Constructor, Expr, Function, GlobalVar, Op, Var
from relayvm.ir.intrinsics import Intrinsic
from relayvm.ir.types import UNIT, FuncType, TensorType, TupleType, Type
from relayvm.ir.visit.types import type_variables
from relayvm.ops.operator import Operator
from relayvm.ops.tracing import trace_shape


class Calls(Code):
    """Adds calls to the emission of one function. `value` is supplied by the selector of
    expressions.
    """

    def value(self, expr: Expr) -> Value:
        """Emit an expression and return where its value lies."""
        raise InternalError("calls are selected by a subclass")

    # -- Calls -------------------------------------------------------------------------------------

    def _call(self, call: Call) -> Value:
        op = call.op
        if isinstance(op, Intrinsic):
            return array_call(self, call, [self.value(a) for a in call.args])
        if isinstance(op, Op):
            return self._operator(call)
        if isinstance(op, Function) and is_primitive(op):
            return self._kernel(call, op)
        if isinstance(op, Constructor):
            kind = type_of(call)
            types = self.layouts.fields_of(kind, op)
            fields = self._arguments(call, types, types, self.layouts.field_class)
            layout = self.layouts.constructor(kind, op)
            return self._cell(layout, fields, kind, call.span)
        if isinstance(op, GlobalVar) and op.name in self.unit.lifted:
            return self._new_closure(op.name, call)
        return self._invoke(call, tail=False)

    def _new_closure(self, name: str, call: Call) -> Reg:
        types = [type_of(p) for p in self.unit.lifted[name].params]
        fields = self._arguments(call, types, types, self.layouts.field_class)
        return self._cell(self.unit.closure_layout(name), fields, type_of(call), call.span)

    def _arguments(
        self,
        call: Call,
        declared: Sequence[Type],
        wanted: Sequence[Type],
        slot: Callable[[Type], str],
    ) -> list[Reg]:
        """Return arguments in the registers that the declared types ask for, checked to be of the
        wanted types: those of this call.
        """
        regs: list[Reg] = []
        for arg, place, kind in zip(call.args, declared, wanted):
            # A variable has the span of its binder: the place of a failure is the call.
            span = call.span or arg.span
            value = self.value(arg)
            self.check(value, type_of(arg), kind, span)
            regs.append(self.as_class(value, slot(place), span))
        return regs

    def _tail_call(self, call: Call) -> bool:
        """Emit a call as the last act of the function, where it returns just what this one must."""
        op = call.op
        if isinstance(op, (Op, Constructor)) or (isinstance(op, Function) and is_primitive(op)):
            return False
        if isinstance(op, GlobalVar) and op.name in self.unit.lifted:
            return False
        own = self.layouts.results_of(self.results, closure=self.closure)
        direct = isinstance(op, GlobalVar)
        if isinstance(op, GlobalVar):
            result = return_type_of(self.unit.module[op.name])
        else:
            result = type_of(call)
        if self.layouts.results_of(result, closure=not direct) != own:
            return False
        if self.needs_check(type_of(call), self.results):
            return False
        self._invoke(call, tail=True)
        return True

    def _invoke(self, call: Call, *, tail: bool) -> Value:
        span, op = call.span, call.op
        if isinstance(op, GlobalVar):
            function = self.unit.module[op.name]
            types = [type_of(p) for p in function.params]
            wanted = instance_types(types, function.type_params, call.type_args)
            args = self._arguments(call, types, wanted, class_of)
            declared = return_type_of(function)
            head: tuple[Operand, ...] = (op.name, tuple(Arg(a) for a in args))
            name, callee, closure = "call", op.name, False
        else:
            kind = type_of(op)
            assert isinstance(kind, FuncType)
            target = self.whole(self.value(op), span)
            wanted = instance_types(kind.arg_types, kind.type_params, call.type_args)
            args = self._arguments(call, kind.arg_types, wanted, self.layouts.field_class)
            declared = kind.ret_type
            roles = tuple(Use(a) if a.kind == WORD else Take(a) for a in args)
            head = (Take(target), self.layouts.signature(kind), roles)
            name, callee, closure = "call_closure", "", True
        if tail:
            self.emit(f"tail_{name}", *head, span=span, callee=callee)
            return Bundle([], UNIT)
        return self._receive(name, head, declared, type_of(call), closure, callee, span)

    def _receive(
        self,
        name: str,
        head: tuple[Operand, ...],
        declared: Type,
        actual: Type,
        closure: bool,
        callee: str,
        span: Span | None,
    ) -> Value:
        """Emit a call that comes back, and return its result as this function sees it."""
        classes = self.layouts.results_of(declared, closure=closure)
        spread = is_spread(declared) and not (closure and self.layouts.uniform)
        seen = actual.fields if spread and isinstance(actual, TupleType) else (actual,)
        regs = [Reg(c, type=t) for c, t in zip(classes, seen)]
        self.emit(name, *head, tuple(Def(r) for r in regs), span=span, callee=callee)
        values = [self.local(r, t, span) for r, t in zip(regs, seen)]
        if not spread:
            return values[0]
        assert isinstance(actual, TupleType)
        return Bundle(list(values), actual)

    def _kernel(self, call: Call, function: Function) -> Value:
        kind = type_of(call)
        outputs = kind.fields if isinstance(kind, TupleType) else (kind,)
        parts = leading_parts(function)
        args = [self.whole(self.value(a), call.span) for a in call.args]
        if parts is not None:
            sources = dict(zip(function.params, args))
            regs = self._leading_parts(parts, sources, outputs, call.span)
        else:
            plan = self.unit.kernels.plan(function)
            args += self._extra_dims(plan.extra_dims, args, function, call.span)
            regs = self._run_kernel(plan.number, args, outputs, call.span)
        return Bundle(list(regs), kind) if isinstance(kind, TupleType) else regs[0]

    def _extra_dims(
        self, dims: Sequence[Dim], args: Sequence[Reg], function: Function, span: Span | None
    ) -> list[Reg]:
        """Return the words of sizes that a kernel needs besides its operands."""
        if all(self.dims.known(d) for d in dims):
            return [self.dims.word(d, span) for d in dims]
        with self.dims.operands(args, [type_of(p) for p in function.params]):
            return [self.dims.word(d, span) for d in dims]

    def _leading_parts(
        self,
        parts: LeadingParts,
        sources: Mapping[Var, Reg],
        outputs: Sequence[Type],
        span: Span | None,
    ) -> list[Reg]:
        """Emit views of rows of the tensors that lie in `sources`."""
        first = [TensorType((length,), INT64) for length in parts.lengths.values()]
        with self.dims.operands([sources[p] for p in parts.lengths], first):
            for check in parts.checks:
                a, b = (self.dims.word(d, span) for d in (check.a, check.b))
                self.emit("check_equal", Use(a), Use(b), span=span)
            # A part begins where the one before ends.
            bounds = dict.fromkeys(d for r in parts.rows for d in (r.begin, r.end))
            words = {d: self.dims.word(d, span) for d in bounds}
        regs = [Reg(OBJECT, type=kind) for kind in outputs]
        for r, reg in zip(parts.rows, regs):
            begin, end = Use(words[r.begin]), Use(words[r.end])
            self.emit("slice_view", Def(reg), Use(sources[r.param]), begin, end, span=span)
        return regs

    def _run_kernel(
        self, number: int, args: Sequence[Reg], outputs: Sequence[Type], span: Span | None
    ) -> list[Reg]:
        step = self._kernel_step(number, args, outputs, span)
        self.block.add(step)
        return [role.reg for role in roles(step.operands) if isinstance(role, Def)]

    def _kernel_step(
        self, number: int, args: Sequence[Reg], outputs: Sequence[Type], span: Span | None
    ) -> Step:
        results = tuple(Def(Reg(class_of(t), type=t)) for t in outputs)
        return Step("kernel", (number, tuple(Use(a) for a in args), results), span)

    def _operator(self, call: Call) -> Value:
        op, span = call.op, call.span
        assert isinstance(op, Operator)
        name = word_instruction(call)
        if name is not None:
            args = [self.whole(self.value(a), span) for a in call.args]
            result = Reg(WORD, type=type_of(call))
            self.emit(name, Def(result), *(Use(a) for a in args), span=span)
            return result
        if is_view(call):
            return self._view(call)
        if op.name == "shape_of":
            return self._shape_of(call)
        if "value_dims" in op.facets:
            return self._data_dependent(call)
        for kind in map(type_of, call.args):
            param = next(iter(type_variables(kind)), None)
            if param is not None:
                raise _open_operand(op.name, param.name, span)
        raise InternalError(f"`{op.name}` is left outside of kernels")

    def _data_dependent(self, call: Call) -> Value:
        """Run the kernel that tells the sizes, then the one that computes, or make a view."""
        span, kind = call.span, type_of(call)
        view = is_data_dependent_view(call)
        plan = self.unit.kernels.plan_data_dependent(call, view)
        args = [self.whole(self.value(a), span) for a in call.args]
        dims: list[Reg] = []
        if plan.sizes is not None:
            words = [TensorType((), INT64)] * (plan.num_dims + plan.tells_rows)
            dims = self._run_kernel(plan.sizes.number, args, words, span)
        row = dims.pop() if plan.tells_rows else None
        for dim in dims:
            self._trap_if_negative(dim, span)
        outputs = kind.fields if isinstance(kind, TupleType) else (kind,)
        if view:
            result = Reg(OBJECT, type=kind)
            sizes = tuple(Use(d) for d in dims)
            self.emit("tensor_view", Def(result), Use(args[0]), sizes, span=span)
            return result
        assert plan.body is not None
        body = self._kernel_step(plan.body.number, [*args, *dims], outputs, span)
        regs = [role.reg for role in roles(body.operands) if isinstance(role, Def)]
        if row is None:
            self.block.add(body)
        else:
            self._view_or(body, regs[0], args[0], row, dims[0])
        return Bundle(list(regs), kind) if isinstance(kind, TupleType) else regs[0]

    def _view_or(self, body: Step, result: Reg, source: Reg, row: Reg, size: Reg) -> None:
        """Emit a view of `size` rows of `source` from `row` on, or `body` where that is none."""
        span = body.span
        outside, end = Reg(WORD), Reg(WORD)
        zero = self.word(0, span)
        self.emit("less_i64", Def(outside), Use(row), Use(zero), span=span)
        view = Block()
        view.add(Step("add_i64", (Def(end), Use(row), Use(size)), span))
        view.add(Step("slice_view", (Def(result), Use(source), Use(row), Use(end)), span))
        self.block.add(Choice(outside, [Block([body]), view], span, joins=[result]))

    def _trap_if_negative(self, dim: Reg, span: Span | None) -> None:
        """Refuse operand values for which the result has no size, as `value_dims` tells by -1."""
        zero, wrong = Reg(WORD), Reg(WORD)
        self.emit("word", Def(zero), 0, span=span)
        self.emit("less_i64", Def(wrong), Use(dim), Use(zero), span=span)
        stop = Step("trap", (int(TrapCode.BAD_VALUE),), span)
        self.block.add(Choice(wrong, [Block([stop], ends=True), Block()], span))

    def _view(self, call: Call) -> Reg:
        op = call.op
        assert isinstance(op, Operator)
        trace = trace_shape(op, [type_of(a) for a in call.args], call.attrs)
        args = [self.whole(self.value(a), call.span) for a in call.args]
        shape = tensor_type(trace.result).shape
        with self.dims.operands(args, trace.operands):
            words = [self.dims.word(d, call.span) for d in shape]
        result = Reg(OBJECT, type=type_of(call))
        sizes = tuple(Use(w) for w in words)
        self.emit("tensor_view", Def(result), Use(args[0]), sizes, span=call.span)
        self.check(result, trace.result, type_of(call), call.span)
        return result

    def _shape_of(self, call: Call) -> Reg:
        dtype = dtype_of_type(type_of(call))
        source = self.value(call.args[0])
        shape = tensor_type(type_of(call.args[0])).shape
        words: list[Reg] = []
        for axis in range(len(shape)):
            size = Reg(WORD)
            reg = self.whole(source, call.span)
            self.emit("tensor_dim", Def(size), Use(reg), axis, span=call.span)
            words.append(self._cast(size, INT64, dtype, call.span))
        result = Reg(OBJECT, type=type_of(call))
        values = tuple(Use(w) for w in words)
        self.emit("tensor_from_words", Def(result), dtype.code, values, span=call.span)
        return result

    def _cast(self, reg: Reg, source: DType, target: DType, span: Span | None) -> Reg:
        if source == target:
            return reg
        result = Reg(WORD)
        self.emit(f"cast_{source.short}_{target.short}", Def(result), Use(reg), span=span)
        return result


def _open_operand(name: str, param: str, span: Span | None) -> RelayError:
    """Return the error for an operator whose kernel would have to be made while a program runs."""
    message = f"operands of `{name}` are of type parameter `{param}` when the program runs"
    help = (
        "a polymorphic function with constraints is compiled for the types of its calls: hold an "
        "instance, such as a `fn (int32, int32) -> int32`, in place of the function itself"
    )
    return error("polymorphic-entry", message, span, help=help)
