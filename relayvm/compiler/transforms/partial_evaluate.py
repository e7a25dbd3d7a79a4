"""Partial evaluation: a program is run as far as what is known at compile time goes, and what is
left is the program.

An online partial evaluator over A-normal form. A value is known (a constant, tuple, constructor,
closure or reference), or is an atom of the residual program, or both. References stay virtual, a
value in a store, until they escape or code begins that may run another number of times than once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import AnyDim, Dim
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.evaluate_code import array_type
from relayvm.ir.equal import structural_equal
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
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.intrinsics import Intrinsic
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, Type, TypeParam
from relayvm.ir.visit import substitute_in_attrs, substitute_in_type, type_walk
from relayvm.ops.operator import Operator

CALL_LIMIT = 2_000
DEPTH_LIMIT = 256
FOLDED_BYTES = 1 << 16


def partial_evaluate(module: Module) -> Module:
    """Run what is known: `let %f = fn (%a) { %a * %a }; %f(exp(%x))` ->
    `let %v = exp(%x); %v * %v`.

    Calls of known functions are replaced by their bodies, tuples and constructors taken apart,
    choices with known conditions made, references that nobody else sees removed, operators of small
    constants evaluated. A recursive call is followed while a known argument changes, one behind a
    choice that is not known while it gets smaller; at most 256 deep and 2,000 calls a function: the
    others stay calls. Effects keep their order.
    """
    evaluator = _Evaluator(module)
    functions = dict(module.functions)
    for name, function in module.functions.items():
        if not is_primitive(function):
            left = evaluator.function_of(function)
            functions[name] = function if structural_equal(left, function) else left
    return module.with_functions(functions)


# --- values ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Closure:
    function: Function
    env: _Env
    # The variable that names the function inside itself.
    own: Var | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Data:
    constructor: Constructor
    fields: tuple[_Value, ...]
    # The number of known constructors in it.
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class _Fields:
    fields: tuple[_Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Reference:
    """The key of a reference in the store."""


_Measure = tuple[float | None, ...]
_Known = Constant | _Closure | _Data | _Fields | _Reference | GlobalVar | Constructor


@dataclass(slots=True, eq=False)
class _Value:
    """What is known of a value, and its atom in the residual program with the block it is in."""

    known: _Known | None = None
    atom: Expr | None = None
    home: _Block | None = None


@dataclass(slots=True, eq=False)
class _Block:
    """The lets of a scope of the residual program."""

    parent: _Block | None = None
    lets: list[tuple[Var, Expr]] = field(default_factory=list)

    def bind(self, value: Expr, name: str = "v", annotation: Type | None = None) -> Var:
        """Name a value."""
        variable = Var(name, annotation)
        self.lets.append((variable, value))
        return variable

    def closed(self, result: Expr) -> Expr:
        """Return the whole scope; a result that was named last is the result itself."""
        lets = self.lets
        if lets and lets[-1][0] is result and lets[-1][0].type_annotation is None:
            result = lets[-1][1]
            lets = lets[:-1]
        for variable, value in reversed(lets):
            result = Let(variable, value, result)
        return result

    def sees(self, home: _Block | None) -> bool:
        """Return True if names of `home` are in scope here."""
        block: _Block | None = self
        while block is not None and block is not home:
            block = block.parent
        return home is None or block is home


class _Env:
    """Variables of one activation of a function, and what its type parameters stand for."""

    __slots__ = ("parent", "types", "values")

    def __init__(self, parent: _Env | None, types: Mapping[TypeParam, Type | Dim]) -> None:
        self.parent = parent
        outer: Mapping[TypeParam, Type | Dim] = {} if parent is None else parent.types
        self.types: Mapping[TypeParam, Type | Dim] = {**outer, **types} if types else outer
        self.values: dict[Var, _Value] = {}

    def __getitem__(self, variable: Var) -> _Value:
        env: _Env | None = self
        while env is not None:
            if variable in env.values:
                return env.values[variable]
            env = env.parent
        return _Value(atom=variable)

    def type(self, type_: Type | None) -> Type | None:
        """Return a type with the type parameters replaced."""
        return None if type_ is None else substitute_in_type(type_, self.types)


def _is_open(type_: Type | None) -> bool:
    """Return True for a type with sizes `?`: a value of it must not become narrower."""
    return type_ is not None and any(
        isinstance(part, TensorType) and any(isinstance(d, AnyDim) for d in part.shape)
        for part in type_walk(type_)
    )


class _Evaluator:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.store: dict[_Reference, _Value] = {}
        # Where each virtual reference was made; one that is missing has code of its own.
        self.virtual: dict[_Reference, _Value] = {}
        self.calls = 0
        # What was known of the arguments of each call that is being followed, by function, and the
        # number of unknown choices around it.
        self.active: dict[int, list[tuple[_Measure, int]]] = {}
        self.choices = 0
        self.residual_depth = 0

    def function_of(self, function: Function) -> Function:
        """Return a global function, evaluated with nothing known of its parameters."""
        self.calls = 0
        self.store, self.virtual, self.active, self.choices = {}, {}, {}, 0
        return trampoline(self.residual(function, _Env(None, {}), None))

    # -- Residual code --------------------------------------------------------------------------

    def residual(self, function: Function, env: _Env, parent: _Block | None) -> Recursive[Function]:
        """Return the code of a function; what its body finds in references is not known."""
        inner, block = _Env(env, {}), _Block(parent)
        params = []
        for old in function.params:
            new = Var(old.name, env.type(old.type_annotation or old.checked_type), span=old.span)
            inner.values[old] = _Value(atom=new)
            params.append(new)
        kept = self.store, self.virtual
        self.store, self.virtual = {}, {}
        self.residual_depth += 1
        running = self.active.setdefault(id(function), [])
        running.append(((None,) * len(params), self.choices))
        result = yield self.run(function.body, inner, block)
        atom = yield self.reify(result, block)
        running.pop()
        self.residual_depth -= 1
        self.store, self.virtual = kept
        return Function(
            tuple(params),
            block.closed(atom),
            env.type(function.ret_type),
            function.type_params,
            function.attrs,
            span=function.span,
        )

    def reify(self, value: _Value, block: _Block) -> Recursive[Expr]:
        """Return the atom of a value, made in this block where there is none in scope."""
        if value.atom is not None and block.sees(value.home):
            return value.atom
        known = value.known
        assert known is not None, "a value of another block escapes"
        atom: Expr
        match known:
            case Constant() | GlobalVar() | Constructor():
                return known
            case _Fields():
                if not known.fields:
                    return Tuple(())
                fields = yield self.reify_all(known.fields, block)
                atom = block.bind(Tuple(fields))
            case _Data():
                fields = yield self.reify_all(known.fields, block)
                atom = block.bind(Call(known.constructor, fields))
            case _Reference():
                yield self.materialize(known, block)
                return cast(Expr, (yield self.reify(value, block)))
            case _Closure():
                yield self.materialize_all(block)
                atom = yield self.reify_closure(known, block)
        value.atom, value.home = atom, block
        return atom

    def reify_all(self, values: Sequence[_Value], block: _Block) -> Recursive[tuple[Expr, ...]]:
        atoms = []
        for value in values:
            atoms.append((yield self.reify(value, block)))
        return tuple(atoms)

    def reify_closure(self, closure: _Closure, block: _Block) -> Recursive[Expr]:
        env, name = closure.env, Var("f")
        if closure.own is not None:
            name = Var(closure.own.name)
            env = _Env(closure.env, {})
            env.values[closure.own] = _Value(atom=name)
        function = yield self.residual(closure.function, env, block)
        block.lets.append((name, function))
        return name

    def materialize(self, reference: _Reference, block: _Block) -> Recursive[None]:
        """Give a virtual reference its code; what it holds stays known."""
        value = self.virtual.pop(reference, None)
        if value is not None:
            held = yield self.reify(self.store[reference], block)
            value.atom, value.home = block.bind(RefCreate(held), "r"), block

    def materialize_all(self, block: _Block) -> Recursive[None]:
        for reference in list(self.virtual):
            yield self.materialize(reference, block)

    # -- Evaluation -----------------------------------------------------------------------------

    def run(self, node: Expr, env: _Env, block: _Block) -> Recursive[_Value]:
        """Return the value of a chain of lets; its residual code goes into the block."""
        while isinstance(node, Let):
            if isinstance(node.value, Function) and not is_primitive(node.value):
                value = _Value(_Closure(node.value, env, node.var))
            else:
                value = yield self.value(node.value, env, block)
            env.values[node.var] = yield self.widened(value, node.var.type_annotation, env, block)
            node = node.body
        return cast(_Value, (yield self.value(node, env, block)))

    def widened(
        self, value: _Value, type_: Type | None, env: _Env, block: _Block
    ) -> Recursive[_Value]:
        """Return a value of a declared type: one with sizes `?` keeps them."""
        if not _is_open(type_):
            return value
        atom = yield self.reify(value, block)
        return _Value(atom=block.bind(atom, "v", env.type(type_)), home=block)

    def value(self, node: Expr, env: _Env, block: _Block) -> Recursive[_Value]:
        match node:
            case Var():
                return env[node]
            case Constant() | GlobalVar() | Constructor():
                return _Value(node, node)
            case Tuple():
                return _Value(_Fields(tuple([(self.atom(f, env)) for f in node.fields])))
            case TupleGetItem():
                whole = self.atom(node.tuple_value, env)
                if isinstance(whole.known, _Fields):
                    return whole.known.fields[node.index]
                atom = yield self.reify(whole, block)
                return self.dynamic(TupleGetItem(atom, node.index, span=node.span), block)
            case Function():
                if is_primitive(node):
                    return _Value(atom=node)
                return _Value(_Closure(node, env))
            case Let():
                return cast(_Value, (yield self.run(node, env, block)))
            case If():
                return cast(_Value, (yield self.choice(node, env, block)))
            case Match():
                return cast(_Value, (yield self.match(node, env, block)))
            case Call():
                return cast(_Value, (yield self.call(node, env, block)))
            case RefCreate() | RefRead() | RefWrite():
                return cast(_Value, (yield self.reference(node, env, block)))
        return _Value(atom=node)

    def atom(self, node: Expr, env: _Env) -> _Value:
        if isinstance(node, Var):
            return env[node]
        if isinstance(node, Tuple):
            return _Value(_Fields(tuple(self.atom(f, env) for f in node.fields)))
        if isinstance(node, (Constant, GlobalVar, Constructor)):
            return _Value(node, node)
        if isinstance(node, Function) and not is_primitive(node):
            return _Value(_Closure(node, env))
        return _Value(atom=node)

    def dynamic(self, expr: Expr, block: _Block) -> _Value:
        return _Value(atom=block.bind(expr), home=block)

    # -- Control flow ---------------------------------------------------------------------------

    def choice(self, node: If, env: _Env, block: _Block) -> Recursive[_Value]:
        cond = self.atom(node.cond, env)
        if isinstance(cond.known, Constant):
            branch = node.true_branch if cond.known.data else node.false_branch
            return cast(_Value, (yield self.run(branch, env, block)))
        yield self.materialize_all(block)
        test = yield self.reify(cond, block)
        branches = yield self.branches([node.true_branch, node.false_branch], [{}, {}], env, block)
        return self.dynamic(If(test, *branches, span=node.span), block)

    def branches(
        self,
        bodies: Sequence[Expr],
        bound: Sequence[Mapping[Var, _Value]],
        env: _Env,
        block: _Block,
    ) -> Recursive[list[Expr]]:
        """Return residual branches; afterwards only what all agree on is known of references."""
        before = dict(self.store)
        self.choices += 1
        after: dict[_Reference, _Value] | None = None
        results = []
        for body, values in zip(bodies, bound):
            self.store, self.virtual = dict(before), {}
            inner, branch = _Env(env, {}), _Block(block)
            inner.values.update(values)
            result = yield self.run(body, inner, branch)
            atom = yield self.reify(result, branch)
            results.append(branch.closed(atom))
            own = self.store
            after = (
                {r: v for r, v in own.items() if before.get(r) is v}
                if after is None
                else {r: v for r, v in after.items() if own.get(r) is v}
            )
        self.store, self.virtual = after or {}, {}
        self.choices -= 1
        return results

    def match(self, node: Match, env: _Env, block: _Block) -> Recursive[_Value]:
        data = self.atom(node.data, env)
        for clause in node.clauses:
            bound: dict[Var, _Value] = {}
            fits = _fits(clause.lhs, data, bound)
            if fits:
                env.values.update(bound)
                return cast(_Value, (yield self.run(clause.rhs, env, block)))
            if fits is None:
                break
        yield self.materialize_all(block)
        atom = yield self.reify(data, block)
        patterns, values = [], []
        for clause in node.clauses:
            renewed: dict[Var, _Value] = {}
            patterns.append(_renewed(clause.lhs, renewed, env))
            values.append(renewed)
        bodies = yield self.branches([c.rhs for c in node.clauses], values, env, block)
        clauses = tuple(
            Clause(pattern, body, span=clause.span)
            for pattern, body, clause in zip(patterns, bodies, node.clauses)
        )
        return self.dynamic(Match(atom, clauses, node.complete, span=node.span), block)

    def reference(self, node: Expr, env: _Env, block: _Block) -> Recursive[_Value]:
        if isinstance(node, RefCreate):
            key = _Reference()
            value = self.virtual[key] = _Value(key)
            self.store[key] = self.atom(node.value, env)
            return value
        assert isinstance(node, (RefRead, RefWrite))
        target = self.atom(node.ref, env)
        key_of = target.known if isinstance(target.known, _Reference) else None
        if isinstance(node, RefRead):
            if key_of is not None and key_of in self.store:
                return self.store[key_of]
            atom = yield self.reify(target, block)
            return self.dynamic(RefRead(atom, span=node.span), block)
        value = self.atom(node.value, env)
        if key_of is None:
            # Any reference may be the one that is written.
            yield self.materialize_all(block)
            self.store.clear()
        if key_of is None or key_of not in self.virtual:
            atom = yield self.reify(target, block)
            held = yield self.reify(value, block)
            block.bind(RefWrite(atom, held, span=node.span), "_")
        if key_of is not None:
            self.store[key_of] = value
        return _Value(_Fields(()))

    # -- Calls ----------------------------------------------------------------------------------

    def call(self, node: Call, env: _Env, block: _Block) -> Recursive[_Value]:
        args = [self.atom(arg, env) for arg in node.args]
        callee = node.op
        if isinstance(callee, Op):
            return cast(_Value, (yield self.operator(node, callee, args, env, block)))
        function = self.atom(callee, env)
        if isinstance(function.known, Constructor):
            inner = (arg.known.size for arg in args if isinstance(arg.known, _Data))
            return _Value(_Data(function.known, tuple(args), 1 + sum(inner)))
        closure = self.closure_of(function.known)
        if closure is not None:
            types = _instance(closure.function, node, env)
            seen_here = function.atom is not None and self.residual_depth > 1
            if types is not None and not (seen_here and isinstance(function.atom, Var)):
                measure = tuple(map(_measure, args))
                if self.may_follow(closure, measure):
                    return cast(_Value, (yield self.follow(closure, args, types, measure, block)))
        yield self.materialize_all(block)
        target = yield self.reify(function, block)
        atoms = yield self.reify_all(args, block)
        self.store.clear()
        type_args = tuple(substitute_in_type(t, env.types) for t in node.type_args)
        return self.dynamic(Call(target, atoms, node.attrs, type_args, span=node.span), block)

    def closure_of(self, known: _Known | None) -> _Closure | None:
        if isinstance(known, GlobalVar):
            function = self.module.functions.get(known.name)
            if function is None or is_primitive(function):
                return None
            return _Closure(function, _Env(None, {}))
        return known if isinstance(known, _Closure) else None

    def may_follow(self, closure: _Closure, measure: _Measure) -> bool:
        """Return True if a call may be replaced by the body: a recursion must know something that
        changes.
        """
        if self.calls >= CALL_LIMIT:
            return False
        running = self.active.get(id(closure.function))
        if not running:
            return True
        if len(running) >= DEPTH_LIMIT:
            return False
        last, choices = running[-1]
        pairs = [(old, new) for old, new in zip(last, measure) if new is not None]
        if choices == self.choices:
            return any(old != new for old, new in pairs)
        return any(old is not None and abs(new) < abs(old) for old, new in pairs)

    def follow(
        self,
        closure: _Closure,
        args: Sequence[_Value],
        types: Mapping[TypeParam, Type | Dim],
        measure: _Measure,
        block: _Block,
    ) -> Recursive[_Value]:
        function = closure.function
        self.calls += 1
        running = self.active.setdefault(id(function), [])
        running.append((measure, self.choices))
        env = _Env(closure.env, types)
        if closure.own is not None:
            env.values[closure.own] = _Value(closure)
        for param, value in zip(function.params, args):
            declared = param.type_annotation or param.checked_type
            env.values[param] = yield self.widened(value, declared, env, block)
        result = yield self.run(function.body, env, block)
        running.pop()
        return cast(_Value, (yield self.widened(result, function.ret_type, env, block)))

    def operator(
        self, node: Call, op: Op, args: Sequence[_Value], env: _Env, block: _Block
    ) -> Recursive[_Value]:
        attrs = substitute_in_attrs(node.attrs, env.types)
        if isinstance(op, Operator) and not op.has_effect:
            folded = _folded(op, args, attrs)
            if folded is not None:
                return folded
        atoms = yield self.reify_all(args, block)
        type_args = tuple(substitute_in_type(t, env.types) for t in node.type_args)
        assert isinstance(op, (Operator, Intrinsic))
        return self.dynamic(Call(op, atoms, attrs, type_args, span=node.span), block)


# --- parts -----------------------------------------------------------------------------------


def _measure(value: _Value) -> float | None:
    """Return what tells how large a known argument is, None where nothing is known."""
    known = value.known
    if isinstance(known, Constant) and known.data.ndim == 0:
        return float(known.data)
    return known.size if isinstance(known, _Data) else None


def _instance(function: Function, call: Call, env: _Env) -> Mapping[TypeParam, Type | Dim] | None:
    """Return what the type parameters stand for in a call; None if the call does not tell."""
    if not function.type_params:
        return {}
    if len(call.type_args) != len(function.type_params):
        return None
    given = [substitute_in_type(t, env.types) for t in call.type_args]
    return {p: getattr(t, "dim", t) for p, t in zip(function.type_params, given)}


def _fits(pattern: Pattern, value: _Value, bound: dict[Var, _Value]) -> bool | None:
    """Return whether a value fits, binding variables; None if that is not known."""
    waiting = [(pattern, value)]
    unknown = False
    while waiting:
        lhs, item = waiting.pop()
        match lhs:
            case PatternWildcard():
                pass
            case PatternVar():
                bound[lhs.var] = item
            case PatternTuple() if isinstance(item.known, _Fields):
                waiting.extend(zip(lhs.patterns, item.known.fields))
            case PatternConstructor() if isinstance(item.known, _Data):
                if lhs.constructor.index != item.known.constructor.index:
                    return False
                waiting.extend(zip(lhs.patterns, item.known.fields))
            case PatternConstructor() if isinstance(item.known, Constructor):
                if lhs.constructor.index != item.known.index:
                    return False
            case _:
                unknown = True
    return None if unknown else True


def _renewed(pattern: Pattern, bound: dict[Var, _Value], env: _Env) -> Pattern:
    match pattern:
        case PatternVar():
            old = pattern.var
            new = Var(old.name, env.type(old.type_annotation), span=old.span)
            bound[old] = _Value(atom=new)
            return PatternVar(new, span=pattern.span)
        case PatternTuple():
            inner = tuple(_renewed(p, bound, env) for p in pattern.patterns)
            return PatternTuple(inner, span=pattern.span)
        case PatternConstructor():
            inner = tuple(_renewed(p, bound, env) for p in pattern.patterns)
            return PatternConstructor(pattern.constructor, inner, span=pattern.span)
    return pattern


def _folded(op: Operator, args: Sequence[_Value], attrs: Mapping[str, object]) -> _Value | None:
    """Return the result of an operator on small constants, None if it must run."""
    arrays = [_array(arg) for arg in args]
    if not arrays or any(array is None for array in arrays):
        return None
    try:
        types = [array_type(array) for array in arrays]
        size = op.result_type(types, attrs)
        if not op.is_data_dependent and _bytes(size) > FOLDED_BYTES:
            return None
        return _constant(op.evaluate(arrays, attrs))
    except (RelayError, ArithmeticError, ValueError, IndexError, MemoryError):
        return None


def _array(value: _Value) -> object:
    known = value.known
    if isinstance(known, Constant):
        return known.data if known.data.nbytes <= FOLDED_BYTES else None
    if isinstance(known, _Fields):
        items = tuple(_array(field_) for field_ in known.fields)
        return None if any(item is None for item in items) else items
    return None


def _bytes(type_: Type) -> int:
    total = 0
    for part in type_walk(type_):
        if isinstance(part, TensorType):
            sizes = [d if isinstance(d, int) else FOLDED_BYTES for d in part.shape]
            total += int(np.prod(sizes, dtype=object)) * 8
    return total


def _constant(result: object) -> _Value:
    if isinstance(result, tuple):
        return _Value(_Fields(tuple(map(_constant, result))))
    made = Constant(np.asarray(result))
    return _Value(made, made)
