"""Continuation-passing style: functions hand their result to a function that they are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from relayvm.base.dims import DimVar, symbol
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.analysis.scopes import is_primitive, same_scope_children, scope_bodies
from relayvm.compiler.infer_types import needs_check
from relayvm.compiler.transforms.aligned_generics import with_aligned_params
from relayvm.compiler.transforms.blocks import Binding, split_block
from relayvm.compiler.transforms.cps_types import (
    Answers,
    CpsCopier,
    CpsTypes,
    data_with_answers,
    data_with_functions,
    holds_functions,
)
from relayvm.compiler.transforms.eta_expand import expanded_where, is_generic
from relayvm.compiler.transforms.generic_places import GeneralPlaces, GenericTypes
from relayvm.compiler.transforms.to_anf import function_to_anf
from relayvm.ir.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Op,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, ShapeArg, Type, TypeVar
from relayvm.ir.visit import (
    fresh_binders,
    global_vars,
    post_order,
    substitute,
    substitute_types,
    type_variables,
    with_own_params,
)


def to_cps(module: Module) -> Module:
    """Give each function a form that takes a continuation, and let the function call it.

    `def @f(%x: T) -> R { @g(%x) }` -> `def @f_cps[Ans](%x: T, %k: fn (R) -> Ans) -> Ans {
    @g_cps(%x, %k) }` and `def @f(%x: T) -> R { @f_cps(%x, fn (%y: R) { %y }) }`. Functions become
    so everywhere: as parameters, in tuples, references and data types, whose definitions gain the
    type of the answer. A function whose result holds functions keeps its own body: its results are
    called from outside without a continuation. Requires TYPED and ANF.
    """
    return _Conversion(module).run()


def un_cps(module: Module) -> Module:
    """Give functions that take a continuation, and that nobody in the program calls, their plain
    form again: the continuation is the identity.
    """
    used = {name for f in module.functions.values() for name in global_vars(f)}
    functions = {
        name: function if name in used or not is_cps(function) else function_un_cps(function)
        for name, function in module.functions.items()
    }
    return module.with_functions(functions)


def is_cps(function: Function) -> bool:
    """Return True for `fn [.., Ans](.., %k: fn (T) -> Ans) -> Ans` whose other types do not speak
    of the answer, but for parameters that are functions with a continuation.
    """
    if not function.params or not function.type_params:
        return False
    answer = function.type_params[-1]
    kind = function.params[-1].type_annotation
    fits = isinstance(kind, FuncType) and len(kind.arg_types) == 1 and kind.ret_type == answer
    if not fits or function.ret_type != answer or not isinstance(answer, TypeVar):
        return False
    assert isinstance(kind, FuncType)
    others = [_plain_type(p.type_annotation, answer) for p in function.params[:-1]]
    parts = [kind.arg_types[0], *others]
    return not any(t is None or answer in type_variables(t) for t in parts)


def function_un_cps(function: Function) -> Function:
    """Return `fn (..) { let %k = fn (%y) { %y }; body }` with the result in the place of the
    answer.
    """
    answer, last = function.type_params[-1], function.params[-1]
    kind = last.type_annotation
    assert isinstance(kind, FuncType) and isinstance(answer, TypeVar)
    result = kind.arg_types[0]
    plain = replace(function, type_params=function.type_params[:-1], checked_type=None)
    given = substitute_types(fresh_binders(plain), {answer: result})
    assert isinstance(given, Function)
    body: Expr = Let(given.params[-1], _identity(result), given.body, span=given.body.span)
    params: list[Var] = []
    for old, new in zip(function.params[:-1], given.params):
        direct = _plain_type(old.type_annotation, answer)
        assert direct is not None
        if direct == old.type_annotation:
            params.append(new)
            continue
        param = Var(new.name, direct, span=new.span)
        params.append(param)
        body = Let(new, _with_continuation(param, direct, result), body, span=new.span)
    return replace(given, params=tuple(params), body=body, ret_type=result, checked_type=None)


def _plain_type(kind: Type | None, answer: TypeVar) -> Type | None:
    """Return `fn (A) -> B` for `fn (A, fn (B) -> Ans) -> Ans`, other types as they are."""
    if not isinstance(kind, FuncType) or not kind.arg_types:
        return kind
    after = kind.arg_types[-1]
    if kind.ret_type != answer or not isinstance(after, FuncType) or after.ret_type != answer:
        return kind
    return replace(kind, arg_types=kind.arg_types[:-1], ret_type=after.arg_types[0])


def _identity(kind: Type) -> Function:
    param = Var("y", kind)
    return Function((param,), param, kind)


class _Conversion:
    """The conversion of one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.data = data_with_functions(module)
        self.names: dict[str, str] = {}
        for name, function in module.functions.items():
            if not is_primitive(function):
                self.names[name] = self._fresh(f"{name}_cps")

    def _fresh(self, name: str) -> str:
        while name in self.module.functions or name in self.names.values():
            name += "_"
        return name

    def run(self) -> Module:
        answers = data_with_answers(self.module, self.data)
        functions = dict(self.module.functions)
        for name, new in self.names.items():
            function = self.module.functions[name]
            functions[new] = self._converted(function, answers)
            if not self._keeps_body(function):
                functions[name] = self._wrapper(function, new)
        types = {**self.module.types, **{d.header.name: d for d in answers.types.values()}}
        return replace(self.module, functions=functions, types=types)

    def _converted(self, function: Function, answers: Answers) -> Function:
        answer = TypeVar("Ans")
        types = CpsTypes(answer, answers)
        aligned = with_aligned_params(function, self.module)
        wrapped = function_to_anf(expanded_where(aligned, _needs_own_answer, self.module))
        copy = CpsCopier(types, answers, self.names).copy(wrapped)
        assert isinstance(copy, Function)
        arities = {new: self.module.functions[n].type_params for n, new in self.names.items()}
        convert = _Converter(answer, {n: len(p) for n, p in arities.items()}, copy)
        convert.data = {d.header.name: len(d.type_params) - 1 for d in answers.types.values()}
        result = substitute(trampoline(convert.function(copy)), convert.renamed)
        assert isinstance(result, Function)
        return replace(result, type_params=(*result.type_params, answer))

    def _keeps_body(self, function: Function) -> bool:
        kind = function.checked_type
        assert isinstance(kind, FuncType)
        return holds_functions(kind.ret_type, self.data) or not all(
            _is_first_order(t, self.data) for t in kind.arg_types
        )

    def _wrapper(self, function: Function, name: str) -> Function:
        kind = function.checked_type
        assert isinstance(kind, FuncType)
        params = tuple(Var(p.name, t, span=p.span) for p, t in zip(function.params, kind.arg_types))
        result = kind.ret_type
        args = tuple(_with_continuation(p, t, result) for p, t in zip(params, kind.arg_types))
        body = Call(GlobalVar(name), (*args, _identity(result)), span=function.body.span)
        return replace(function, params=params, body=body, ret_type=result, checked_type=None)


def _is_first_order(kind: Type, data: Mapping[str, object]) -> bool:
    if not isinstance(kind, FuncType):
        return not holds_functions(kind, data)
    parts = (*kind.arg_types, kind.ret_type)
    return not any(holds_functions(t, data) for t in parts)


def _with_continuation(param: Var, kind: Type, answer: Type) -> Expr:
    """Return a function of the host's kind as one that takes a continuation."""
    if not isinstance(kind, FuncType):
        return param
    # Both the function and its type have parameters: each has its own.
    own = with_own_params(kind)
    inner = tuple(Var(f"a{i}", t) for i, t in enumerate(own.arg_types))
    after = Var("k", FuncType((own.ret_type,), answer))
    given = (ShapeArg(symbol(p)) if isinstance(p, DimVar) else p for p in own.type_params)
    body = Call(after, (Call(param, inner, type_args=tuple(given)),))
    return Function(
        (*inner, after), body, answer, own.type_params, type_constraints=own.type_constraints
    )


class _Converter:
    """Converts one function in A-normal form whose types speak of continuations already."""

    def __init__(self, answer: TypeVar, arities: Mapping[str, int], root: Function) -> None:
        self.answer = answer
        self.arities = arities
        self.calling = _calling(root)
        self.renamed: dict[Var, Expr] = {}
        self.is_general = GeneralPlaces()
        self.data: Mapping[str, int] = {}

    def function(self, node: Function) -> Recursive[Function]:
        kind = node.checked_type
        assert isinstance(kind, FuncType)
        after = Var("k", kind.arg_types[-1])
        body = yield self.block(node.body, after)
        return replace(
            node,
            params=(*node.params, after),
            body=body,
            ret_type=self.answer,
            checked_type=None,
        )

    def block(self, expr: Expr, after: Var) -> Recursive[Expr]:
        """Return the form of a block that hands its value to `after`."""
        bindings, tail = split_block(expr)
        result: Expr = yield self.tail(tail, after)
        for binding in reversed(bindings):
            result = yield self.binding(binding, result)
        return result

    def tail(self, expr: Expr, after: Var) -> Recursive[Expr]:
        if _is_call(expr):
            call: Expr = yield self.call(expr, self.narrowed(after, expr))
            return call
        if id(expr) in self.calling:
            choice: Expr = yield self.choice(expr, after)
            return choice
        value = yield self.value(expr)
        if not self.is_general(expr):
            return Call(after, (value,), span=expr.span)
        named = Var("v", _kind(expr), span=expr.span)
        return Let(named, value, Call(after, (named,), span=expr.span), span=expr.span)

    def narrowed(self, after: Var, call: Expr) -> Expr:
        """Return the continuation of a call: one that is promised other sizes than the call has
        gets them compared.
        """
        kind, found = after.type_annotation, _kind(call)
        assert isinstance(kind, FuncType)
        if not needs_check(found, kind.arg_types[0]):
            return after
        given = Var("v", found, span=call.span)
        body = Call(after, (given,), span=call.span)
        return Function((given,), body, self.answer, span=call.span)

    def binding(self, binding: Binding, rest: Expr) -> Recursive[Expr]:
        value = binding.value
        if not _is_call(value) and id(value) not in self.calling:
            plain = yield self.value(value)
            return Let(binding.var, plain, rest, span=binding.span)
        after = self._continuation(binding, rest)
        if _is_call(value):
            call: Expr = yield self.call(value, after)
            return call
        join = Var("j", FuncType((_kind(value),), self.answer))
        choice = yield self.choice(value, join)
        return Let(join, after, choice, span=binding.span)

    def _continuation(self, binding: Binding, rest: Expr) -> Function:
        """Return `fn (%v) { rest }`; what an annotation promises beyond the value is compared
        inside.
        """
        kind, var = _kind(binding.value), binding.var
        if var.type_annotation == kind:
            return Function((var,), rest, self.answer, span=binding.span)
        param = Var(var.name, kind, span=var.span)
        if var.type_annotation is None:
            self.renamed[var] = param
            return Function((param,), rest, self.answer, span=binding.span)
        body = Let(var, param, rest, span=binding.span)
        return Function((param,), body, self.answer, span=binding.span)

    def call(self, expr: Expr, after: Expr) -> Recursive[Expr]:
        assert isinstance(expr, Call)
        op = yield self.value(expr.op)
        type_args = expr.type_args
        if isinstance(op, GlobalVar):
            full = len(type_args) == self.arities[op.name]
            type_args = (*type_args, self.answer) if full else ()
        return Call(op, (*expr.args, after), expr.attrs, type_args, span=expr.span)

    def choice(self, expr: Expr, after: Var) -> Recursive[Expr]:
        """Return an `if` or `match` whose sides hand their values to `after`."""
        if isinstance(expr, If):
            yes = yield self.block(expr.true_branch, after)
            no = yield self.block(expr.false_branch, after)
            return If(expr.cond, yes, no, span=expr.span)
        assert isinstance(expr, Match)
        clauses: list[Clause] = []
        for clause in expr.clauses:
            rhs = yield self.block(clause.rhs, after)
            clauses.append(replace(clause, rhs=rhs))
        return Match(expr.data, tuple(clauses), expr.complete, span=expr.span)

    def value(self, expr: Expr) -> Recursive[Expr]:
        """Return what calls no function itself; the functions inside of it are converted."""
        match expr:
            case Function() if not is_primitive(expr):
                function: Expr = yield self.function(expr)
                return function
            case If():
                yes = yield self.plain_block(expr.true_branch)
                no = yield self.plain_block(expr.false_branch)
                return replace(expr, true_branch=yes, false_branch=no, checked_type=None)
            case Match():
                clauses: list[Clause] = []
                for clause in expr.clauses:
                    rhs = yield self.plain_block(clause.rhs)
                    clauses.append(replace(clause, rhs=rhs))
                return replace(expr, clauses=tuple(clauses), checked_type=None)
            case Call(op=Constructor(belong_to=head)) if head.name in self.data:
                # Fields that are functions say what the answer is, but there may be none.
                if len(expr.type_args) == self.data[head.name]:
                    return replace(expr, type_args=(*expr.type_args, self.answer))
        return expr

    def plain_block(self, expr: Expr) -> Recursive[Expr]:
        bindings, tail = split_block(expr)
        result: Expr = yield self.value(tail)
        for binding in reversed(bindings):
            value = yield self.value(binding.value)
            result = Let(binding.var, value, result, span=binding.span)
        return result


def _kind(expr: Expr) -> Type:
    assert expr.checked_type is not None
    return expr.checked_type


def _needs_own_answer(value: Expr) -> bool:
    """Return True for constructors, which take no continuation, and polymorphic globals: these get
    the answer as one more type parameter, which what holds such functions does not know.
    """
    if isinstance(value, GlobalVar):
        # Of one instance at polymorphic functions it says the type arguments.
        return is_generic(value) or GenericTypes()(value.checked_type)
    return isinstance(value, Constructor)


def _is_call(expr: Expr) -> bool:
    """Return True for a call of what has a continuation: no operator, constructor or kernel."""
    if not isinstance(expr, Call):
        return False
    return not isinstance(expr.op, (Op, Constructor)) and not is_primitive(expr.op)


def _calling(root: Function) -> set[int]:
    """Return the nodes in whose evaluation a function is called."""
    calling: set[int] = set()
    for node in post_order(root):
        if isinstance(node, Function):
            continue
        parts = same_scope_children(node) + scope_bodies(node)
        if _is_call(node) or any(id(part) in calling for part in parts):
            calling.add(id(node))
    return calling
