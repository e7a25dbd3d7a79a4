"""Reverse-mode differentiation of the whole language, by rewriting a program into one that also
records how to go back.

Every float tensor travels with a reference to its gradient, every function takes a *tape*: a
reference to the closure that runs backwards. An operator call puts a closure in front that adds to
the gradients of its operands and then calls what the tape held before. After the run the tape is
called once. (Pearlmutter and Siskind, "Reverse-mode AD in a functional framework", 2008; the form
with references is that of Relay's paper, section 4.2.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from relayvm.base.diagnostics import InternalError, error
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.autodiff.adjoint_types import (
    BACKWARD,
    TAPE,
    AdjointTypes,
    has_float,
    is_float,
)
from relayvm.compiler.autodiff.conversions import (
    Bindings,
    Conversions,
    Way,
    let_all,
    unit,
    zeros_of,
)
from relayvm.compiler.autodiff.prepare import prepared
from relayvm.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.intrinsics import Intrinsic
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops import OPS
from relayvm.ops.operator import Operator, gradient_call


def gradient(function: Function, module: Module) -> tuple[Function, Module]:
    """Return `fn (params) -> (result, (gradients of the params))`, and the module with the
    functions and data types that it needs.

    The gradient is that of the sum of all float elements of the result; what is no float has zeros.
    Control flow, closures, data types, references and recursion are followed; the result may be
    differentiated again. Raises RelayError `no-gradient` at what has none.
    """
    name, typed = prepared(function, module)
    reverse = Reverse(typed, module)
    whole = reverse.whole(typed[name])
    reverse.finish()
    added = {**reverse.functions, **reverse.conversions.added}
    functions = {**module.functions, **added}
    types = {**module.types, **reverse.types.added}
    result = Module(functions, types, module.library, module.attrs)
    return whole, result


@dataclass(frozen=True, slots=True)
class _Scope:
    """Where code is written: the tape of the function, and the lets of the block."""

    tape: Var
    out: Bindings = field(default_factory=list)

    def bind(self, name: str, value: Expr, annotation: Type | None = None) -> Var:
        """Name a value by a let."""
        variable = Var(name, annotation)
        self.out.append((variable, value))
        return variable

    def inner(self) -> _Scope:
        """Return a block inside this one."""
        return _Scope(self.tape)


class Reverse:
    """Rewrites typed functions in A-normal form. `functions` holds what globals became."""

    def __init__(self, typed: Module, original: Module) -> None:
        self.module = typed
        self.types = AdjointTypes(typed)
        self.conversions = Conversions(self.types)
        self.functions: dict[str, Function] = {}
        self._taken = {*typed.functions, *original.functions}
        self._globals: dict[str, str] = {}
        self._waiting: list[str] = []
        self._vars: dict[Var, Var] = {}
        # What is known of variables of this form: the two halves of a pair, the fields of a tuple.
        self._pairs: dict[Var, tuple[Expr, Expr]] = {}
        self._fields: dict[Var, tuple[Expr, ...]] = {}

    # -- The outside ----------------------------------------------------------------------------

    def whole(self, function: Function) -> Function:
        """Return the function that runs forwards, then backwards."""
        params = tuple(Var(p.name, _type(p)) for p in function.params)
        scope = _Scope(Var("tape"))
        end = Function((), unit())
        scope.out.append((scope.tape, RefCreate(scope.bind("end", end))))
        convert = self.conversions.convert
        lifted = [
            self._named(convert(Way.LIFT, p, _type(p), scope.out, old.span), scope)
            for p, old in zip(params, function.params)
        ]
        self._vars.update(zip(function.params, lifted))
        forward = trampoline(self._block(function.body, scope.inner()))
        result_type = _type(function.body)
        result = scope.bind("result", forward)
        convert(Way.SEED, result, result_type, scope.out, function.span)
        scope.bind("_", Call(scope.bind("back", RefRead(scope.tape)), ()))
        value = convert(Way.VALUE, result, result_type, scope.out, function.span)
        gradients = [
            convert(Way.GRADIENT, p, _type(old), scope.out, old.span)
            for p, old in zip(lifted, function.params)
        ]
        body = let_all(scope.out, Tuple((value, Tuple(tuple(gradients)))))
        return replace(function, params=params, body=body, ret_type=None, checked_type=None)

    def finish(self) -> None:
        """Rewrite all globals that were named."""
        while self._waiting:
            name = self._waiting.pop()
            function = self.module.functions[name]
            self.functions[self._globals[name]] = trampoline(self._function(function))

    @staticmethod
    def _named(value: Expr, scope: _Scope) -> Var:
        return value if isinstance(value, Var) else scope.bind("value", value)

    # -- Blocks and functions -------------------------------------------------------------------

    def _function(self, function: Function) -> Recursive[Function]:
        params = tuple(self._binder(p) for p in function.params)
        tape = Var("tape", TAPE)
        body = yield self._block(function.body, _Scope(tape))
        ret = self.types.optional(function.ret_type)
        return replace(function, params=(*params, tape), body=body, ret_type=ret, checked_type=None)

    def _binder(self, old: Var) -> Var:
        known = old.type_annotation if old.checked_type is None else old.checked_type
        new = Var(old.name, self.types.optional(known), span=old.span)
        self._vars[old] = new
        return new

    def _block(self, node: Expr, scope: _Scope) -> Recursive[Expr]:
        """Rewrite a chain of lets and its result."""
        while isinstance(node, Let):
            if isinstance(node.value, Function):
                # Its own name is in scope of a function; its type follows from that.
                new = self._vars[node.var] = Var(node.var.name, span=node.var.span)
                scope.out.append((new, (yield self._value(node.value, scope))))
            else:
                self._name(node.var, (yield self._value(node.value, scope)), scope)
            node = node.body
        result = yield self._value(node, scope)
        return let_all(scope.out, result)

    def _name(self, old: Var, value: Expr, scope: _Scope) -> None:
        if isinstance(value, Var):
            self._vars[old] = value
            return
        new = Var(old.name, self.types.optional(old.type_annotation), span=old.span)
        self._vars[old] = new
        scope.out.append((new, value))
        if isinstance(value, Tuple):
            if is_float(old.checked_type):
                self._pairs[new] = (value.fields[0], value.fields[1])
            else:
                self._fields[new] = value.fields

    # -- Values ---------------------------------------------------------------------------------

    def _value(self, node: Expr, scope: _Scope) -> Recursive[Expr]:
        """Return the rewritten value of a let or the result of a block."""
        match node:
            case Function():
                function: Expr = yield self._function(node)
                return function
            case If():
                yes = yield self._block(node.true_branch, scope.inner())
                no = yield self._block(node.false_branch, scope.inner())
                return If(self._atom(node.cond, scope), yes, no, span=node.span)
            case Match():
                data, clauses = self._atom(node.data, scope), []
                for clause in node.clauses:
                    pattern = self._pattern(clause.lhs)
                    body = yield self._block(clause.rhs, scope.inner())
                    clauses.append(Clause(pattern, body, span=clause.span))
                return Match(data, tuple(clauses), node.complete, span=node.span)
            case Let():
                block: Expr = yield self._block(node, scope.inner())
                return block
            case Call():
                callee = node.op
                if isinstance(callee, Function):
                    inner = scope.bind("callee", (yield self._function(callee)))
                    args = self._atoms(node.args, scope)
                    return Call(inner, (*args, scope.tape), span=node.span)
                return self._call(node, scope)
        return self._simple(node, scope)

    def _simple(self, node: Expr, scope: _Scope) -> Expr:
        match node:
            case Tuple():
                return Tuple(self._atoms(node.fields, scope), span=node.span)
            case TupleGetItem():
                value = self._atom(node.tuple_value, scope)
                known = self._fields.get(value) if isinstance(value, Var) else None
                if known is not None:
                    return known[node.index]
                return TupleGetItem(value, node.index, span=node.span)
            case RefCreate():
                return RefCreate(self._atom(node.value, scope), span=node.span)
            case RefRead():
                return RefRead(self._atom(node.ref, scope), span=node.span)
            case RefWrite():
                ref, value = self._atom(node.ref, scope), self._atom(node.value, scope)
                return RefWrite(ref, value, span=node.span)
        return self._atom(node, scope)

    def _atoms(self, nodes: Sequence[Expr], scope: _Scope) -> tuple[Expr, ...]:
        return tuple([self._atom(node, scope) for node in nodes])

    def _atom(self, node: Expr, scope: _Scope) -> Expr:
        match node:
            case Var():
                return self._vars[node]
            case Constant() if is_float(node.checked_type):
                value = scope.bind("constant", node)
                return self.conversions.convert(Way.LIFT, value, _type(node), scope.out, node.span)
            case Constant():
                return node
            case GlobalVar():
                return GlobalVar(self._global(node.name), span=node.span)
            case Constructor():
                return self._constructor_value(node)
            case Tuple(fields=()):
                return node
        kind = type(node).__name__
        raise InternalError(f"a `{kind}` is no atom of A-normal form")

    def _global(self, name: str) -> str:
        if name not in self._globals:
            new = f"{name}_adjoint"
            while new in self._taken:
                new += "_"
            self._taken.add(new)
            self._globals[name] = new
            self._waiting.append(name)
        return self._globals[name]

    def _constructor_value(self, node: Constructor) -> Expr:
        """Return a function in the place of a constructor: functions take the tape."""
        params = tuple(Var(f"field{i}") for i in range(len(node.inputs)))
        made: Expr = self.types.constructor(node)
        return Function((*params, Var("tape", TAPE)), Call(made, params), span=node.span)

    def _pattern(self, pattern: Pattern) -> Pattern:
        match pattern:
            case PatternVar():
                new = self._vars[pattern.var] = Var(
                    pattern.var.name,
                    self.types.optional(pattern.var.type_annotation),
                    span=pattern.var.span,
                )
                return PatternVar(new, span=pattern.span)
            case PatternTuple():
                return PatternTuple(tuple(map(self._pattern, pattern.patterns)), span=pattern.span)
            case PatternConstructor():
                return PatternConstructor(
                    self.types.constructor(pattern.constructor),
                    tuple(map(self._pattern, pattern.patterns)),
                    span=pattern.span,
                )
        return pattern

    # -- Calls ----------------------------------------------------------------------------------

    def _call(self, node: Call, scope: _Scope) -> Expr:
        callee = node.op
        if isinstance(callee, Operator):
            return self._operator(node, callee, scope)
        args = self._atoms(node.args, scope)
        type_args = tuple(map(self.types.of, node.type_args))
        if isinstance(callee, Intrinsic):
            return Call(callee, args, node.attrs, type_args, span=node.span)
        if isinstance(callee, Constructor):
            made = self.types.constructor(callee)
            return Call(made, args, node.attrs, type_args, span=node.span)
        function = self._atom(callee, scope)
        return Call(function, (*args, scope.tape), node.attrs, type_args, span=node.span)

    def _operator(self, node: Call, op: Operator, scope: _Scope) -> Expr:
        operands = [self._primal(arg, _type(arg), scope) for arg in node.args]
        result_type = _type(node)
        plain = Call(op, tuple(operands), node.attrs, node.type_args, span=node.span)
        if not has_float(result_type):
            return plain
        value = scope.bind("v", plain, result_type if self.types.is_loose else None)
        result, gathered = self._paired(value, result_type, scope)
        receivers = [not isinstance(arg, Constant) and has_float(_type(arg)) for arg in node.args]
        if any(receivers):
            self._record(node, op, operands, receivers, value, gathered, scope)
        return result

    def _primal(self, arg: Expr, type_: Type, scope: _Scope) -> Expr:
        """Return the plain value of an operand."""
        if isinstance(arg, Constant):
            return arg
        if isinstance(arg, Function):
            raise InternalError("an operator has a function among its operands")
        return self._plain(self._atom(arg, scope), type_)

    def _plain(self, value: Expr, type_: Type) -> Expr:
        if is_float(type_):
            known = self._pairs.get(value) if isinstance(value, Var) else None
            return TupleGetItem(value, 0) if known is None else known[0]
        if isinstance(type_, TupleType) and has_float(type_):
            return Tuple(
                tuple(
                    self._plain(self._item(value, i), field) for i, field in enumerate(type_.fields)
                )
            )
        return value

    def _item(self, value: Expr, index: int) -> Expr:
        known = self._fields.get(value) if isinstance(value, Var) else None
        return TupleGetItem(value, index) if known is None else known[index]

    def _reference(self, value: Expr) -> Expr:
        known = self._pairs.get(value) if isinstance(value, Var) else None
        return TupleGetItem(value, 1) if known is None else known[1]

    def _paired(self, value: Var, type_: Type, scope: _Scope) -> tuple[Expr, Expr]:
        """Return a result with new references, and the expression that reads their gradients."""
        if isinstance(type_, TensorType):
            if not is_float(type_):
                return value, OPS["zeros_like"](value)
            zeros = zeros_of(self.types, type_, value, scope.out)
            reference = scope.bind("r", RefCreate(zeros))
            return Tuple((value, reference)), RefRead(reference)
        assert isinstance(type_, TupleType)
        pairs, reads = [], []
        for i, item_type in enumerate(type_.fields):
            item = scope.bind("item", TupleGetItem(value, i))
            pair, read = self._paired(item, item_type, scope)
            if isinstance(pair, Tuple):
                name = scope.bind("pair", pair)
                if is_float(item_type):
                    self._pairs[name] = (pair.fields[0], pair.fields[1])
                pair = name
            pairs.append(pair)
            reads.append(read)
        return Tuple(tuple(pairs)), Tuple(tuple(reads))

    def _record(
        self,
        node: Call,
        op: Operator,
        operands: Sequence[Expr],
        receivers: Sequence[bool],
        value: Var,
        gathered: Expr,
        scope: _Scope,
    ) -> None:
        """Put a step in front of what the tape runs."""
        types = [_type(arg) for arg in node.args]
        g = Var("g")
        back = _Scope(scope.tape, [(g, gathered)])
        call = gradient_call(op, operands, node.attrs, value, types, _type(node))
        for i, gradient_ in enumerate(gradients_of(node, op, call, g)):
            if gradient_ is not None and receivers[i]:
                target = self._atom(node.args[i], scope)
                self._gather(target, types[i], gradient_, back)
        before = scope.bind("before", RefRead(scope.tape), BACKWARD)
        step = Function((), let_all(back.out, Call(before, ())), span=node.span)
        scope.bind("_", RefWrite(scope.tape, scope.bind("step", step)))

    def _gather(self, target: Expr, type_: Type, gradient_: Expr, back: _Scope) -> None:
        """Add a gradient to the references of an operand."""
        if is_float(type_):
            assert isinstance(type_, TensorType)
            reference = self._reference(target)
            total = OPS["add"](RefRead(reference), gradient_)
            named = back.bind("total", total, self.types.gathered(type_))
            back.bind("_", RefWrite(reference, named))
        elif isinstance(type_, TupleType) and has_float(type_):
            whole = gradient_ if isinstance(gradient_, Tuple) else back.bind("gs", gradient_)
            for i, field_type in enumerate(type_.fields):
                item = whole.fields[i] if isinstance(whole, Tuple) else TupleGetItem(whole, i)
                self._gather(self._item(target, i), field_type, item, back)


def gradients_of(node: Call, op: Operator, call: object, g: Expr) -> Sequence[Expr | None]:
    """Return the gradients of a call's operands; raises RelayError `no-gradient` without any."""
    if op.no_gradient:
        message = f"operator `{op.name}` has no gradient: {op.no_gradient}"
        raise error("no-gradient", message, node.span)
    result: Sequence[Expr | None] = op.apply("gradient", call, g)
    return result


def _type(node: Expr) -> Type:
    known = node.checked_type
    if known is None and isinstance(node, Var):
        known = node.type_annotation
    if known is None:
        raise InternalError(f"differentiation needs the type of {node!r}")
    return known
