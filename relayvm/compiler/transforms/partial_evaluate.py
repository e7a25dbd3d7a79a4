"""Partial evaluation: a program is run as far as what is known at compile time goes, and what is
left is the program.

An online partial evaluator over A-normal form. A value is known (a constant, tuple, constructor,
closure or reference), or is an atom of the residual program, or both. References stay virtual, a
value in a store, until they escape or code begins that may run another number of times than once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from relayvm.base.dims import AnyDim, Dim
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.analysis.sizes import instance_types
from relayvm.compiler.infer_types import needs_check
from relayvm.compiler.transforms.aligned_generics import with_aligned_params
from relayvm.compiler.transforms.copies import Copier
from relayvm.compiler.transforms.held_types import HeldTypes
from relayvm.compiler.transforms.known_references import CreationPlan, creation_plan
from relayvm.compiler.transforms.known_values import (
    Block,
    Closure,
    Data,
    Env,
    Fields,
    Known,
    Measure,
    Reference,
    Value,
    args_of_instance,
    fits_pattern,
    folded_call,
    is_open,
    is_sized,
    measure_of,
    renewed_pattern,
    type_instance,
)
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import (
    NO_ATTRS,
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
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.intrinsics import Intrinsic
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, TensorType, TupleType, Type, TypeParam
from relayvm.ir.visit import (
    free_vars,
    renewed_params,
    substitute,
    substitute_in_attrs,
    substitute_in_constraints,
    substitute_in_type,
    type_walk,
)
from relayvm.ops.operator import Operator

CALL_LIMIT = 2_000
DEPTH_LIMIT = 256


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
            left = evaluator.function_of(with_aligned_params(function, module))
            functions[name] = function if structural_equal(left, function) else left
    return module.with_functions(functions)


class _Evaluator:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.store: dict[Reference, Value] = {}
        # Where each virtual reference was made; one that is missing has code of its own.
        self.virtual: dict[Reference, Value] = {}
        self.calls = 0
        # What was known of the arguments of each call that is being followed, by function, and the
        # number of unknown choices around it.
        self.active: dict[int, list[tuple[Measure, int]]] = {}
        self.choices = 0
        self.residual_depth = 0
        self.generics: dict[int, tuple[Type, bool]] = {}

    def function_of(self, function: Function) -> Function:
        """Return a global function, evaluated with nothing known of its parameters."""
        self.calls = 0
        self.store, self.virtual, self.active, self.choices = {}, {}, {}, 0
        return trampoline(self.residual(function, Env(None, {}), None))

    # -- Residual code --------------------------------------------------------------------------

    def residual(self, function: Function, env: Env, parent: Block | None) -> Recursive[Function]:
        """Return the code of a function; what its body finds in references is not known."""
        # A local function may get code at several places: each has type parameters of its own.
        type_params = function.type_params
        types: Mapping[TypeParam, Type | Dim] = {}
        if parent is not None:
            type_params, types = renewed_params(type_params)
        inner, block = Env(env, types), Block(parent)
        params = []
        for old in function.params:
            new = Var(old.name, inner.type(old.type_annotation or old.checked_type), span=old.span)
            inner.values[old] = Value(atom=new)
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
        return replace(
            function,
            params=tuple(params),
            body=block.closed(atom),
            ret_type=inner.type(function.ret_type),
            type_params=type_params,
            type_constraints=substitute_in_constraints(function.type_constraints, inner.types),
            checked_type=None,
        )

    def reify(self, value: Value, block: Block) -> Recursive[Expr]:
        """Return the atom of a value, made in this block where there is none in scope."""
        if value.atom is not None and block.sees(value.home):
            return value.atom
        known = value.known
        assert known is not None, "a value of another block escapes"
        atom: Expr
        match known:
            case Constant() | GlobalVar() | Constructor():
                return known
            case Fields():
                if not known.fields:
                    return Tuple(())
                fields = yield self.reify_all(known.fields, block)
                atom = block.bind(Tuple(fields))
            case Data():
                fields = yield self.reify_all(known.fields, block)
                atom = block.bind(Call(known.constructor, fields, NO_ATTRS, known.type_args))
            case Reference():
                yield self.materialize(known, block)
                assert value.atom is not None, "a reference is used before it is made"
                return value.atom
            case Closure():
                yield self.materialize_all(block)
                atom = yield self.reify_closure(known, block)
        value.atom, value.home = atom, block
        return atom

    def reify_all(self, values: Sequence[Value], block: Block) -> Recursive[tuple[Expr, ...]]:
        atoms = []
        for value in values:
            atoms.append((yield self.reify(value, block)))
        return tuple(atoms)

    def reify_closure(self, closure: Closure, block: Block) -> Recursive[Expr]:
        env, name = closure.env, Var("f")
        if closure.own is not None:
            name = Var(closure.own.name)
            env = Env(closure.env, {})
            env.values[closure.own] = Value(atom=name)
        function = yield self.residual(closure.function, env, block)
        block.lets.append((name, function))
        return name

    def materialize(self, reference: Reference, block: Block) -> Recursive[None]:
        """Give a virtual reference its code; what it holds stays known."""
        if reference in self.virtual:
            plan = self.plan([reference], block)
            if plan.holds_functions:
                plan = self.plan(self.virtual, block)
            yield self.create(plan, block)

    def materialize_all(self, block: Block) -> Recursive[None]:
        if self.virtual:
            yield self.create(self.plan(self.virtual, block), block)

    def plan(self, references: Iterable[Reference], block: Block) -> CreationPlan:
        def has_code(value: Value) -> bool:
            return value.atom is not None and block.sees(value.home)

        return creation_plan(references, self.virtual, self.store, has_code)

    def create(self, plan: CreationPlan, block: Block) -> Recursive[None]:
        # Code of functions below makes no reference again that is about to be made here.
        values = {reference: self.virtual.pop(reference) for reference, _ in plan.creations}
        for reference, held in plan.creations:
            atom = yield self.reify(held, block)
            value = values[reference]
            value.atom, value.home = block.bind(RefCreate(atom), "r", reference.type), block
        for reference, held in plan.writes:
            atom = yield self.reify(held, block)
            target = yield self.reify(values[reference], block)
            block.bind(RefWrite(target, atom), "_")

    # -- Evaluation -----------------------------------------------------------------------------

    def run(self, node: Expr, env: Env, block: Block) -> Recursive[Value]:
        """Return the value of a chain of lets; its residual code goes into the block."""
        while isinstance(node, Let):
            if isinstance(node.value, Function) and not is_primitive(node.value):
                value = Value(Closure(node.value, env, node.var))
            else:
                value = yield self.value(node.value, env, block)
            place = node.var.type_annotation, node.value.checked_type
            env.values[node.var] = yield self.widened(value, *place, env, block)
            node = node.body
        return cast(Value, (yield self.value(node, env, block)))

    def widened(
        self, value: Value, type_: Type | None, source: Type | None, env: Env, block: Block
    ) -> Recursive[Value]:
        """Return a value of a declared type, where one of the type `source` is put: one with sizes
        `?` keeps them, one that had them loses them, and one of which nothing else is known is as
        general as that.
        """
        if type_ is None:
            return value
        if is_open(type_) or self.is_generalised(value, type_):
            atom = yield self.reify(value, block)
            return Value(atom=block.bind(atom, "v", env.type(type_)), home=block)
        wanted = env.type(type_)
        if not is_open(source) and not _must_compare(source, self.asked(type_, env)):
            return value
        return cast(Value, (yield self.sized(value, wanted, block)))

    def asked(self, type_: Type, env: Env) -> Type:
        """Return a declared type with what it compares: no sizes of what type parameters are."""
        return HeldTypes(env.type_map())(type_)

    def sized(self, value: Value, type_: Type | None, block: Block) -> Recursive[Value]:
        """Return a value that residual code has by a type with the sizes of this one. What is known
        of data and functions stays known.
        """
        known = value.known
        if isinstance(known, Fields) and isinstance(type_, TupleType):
            fields: list[Value] = []
            for field, kind in zip(known.fields, type_.fields):
                fields.append((yield self.sized(field, kind, block)))
            return Value(Fields(tuple(fields)))
        is_plain = isinstance(type_, TensorType) and bool(type_.shape)
        if type_ is None or not (is_plain or (known is None and is_sized(type_))):
            return value
        atom = yield self.reify(value, block)
        if isinstance(atom, Var) and atom.type_annotation == type_:
            return value
        return Value(atom=block.bind(atom, "v", type_), home=block)

    def taken(
        self, value: Value, held: Type | None, var: Var, env: Env, block: Block
    ) -> Recursive[Value]:
        """Return a value that a pattern takes out of data, which held it as one of a type."""
        declared = var.type_annotation or var.checked_type
        value = yield self.opened(value, held, env, block)
        if is_open(held) and not is_open(declared):
            return cast(Value, (yield self.sized(value, env.type(declared), block)))
        return cast(Value, (yield self.opened(value, declared, env, block)))

    def opened(self, value: Value, type_: Type | None, env: Env, block: Block) -> Recursive[Value]:
        """Return a value that was chosen or held where sizes were `?`: nobody knows them now."""
        if not is_open(type_):
            return value
        return cast(Value, (yield self.sized(value, env.type(type_), block)))

    def is_generalised(self, value: Value, type_: Type) -> bool:
        """Return True if residual code may give a value a more general type than the declared."""
        if value.known is not None or not self.holds_generics(type_):
            return False
        return not isinstance(value.atom, Var) or value.atom.type_annotation != type_

    def value(self, node: Expr, env: Env, block: Block) -> Recursive[Value]:
        match node:
            case Var():
                return env[node]
            case Constant() | GlobalVar() | Constructor():
                return Value(node, node)
            case Tuple():
                return Value(Fields(tuple([(self.atom(f, env)) for f in node.fields])))
            case TupleGetItem():
                whole = self.atom(node.tuple_value, env)
                if isinstance(whole.known, Fields):
                    return whole.known.fields[node.index]
                atom = yield self.reify(whole, block)
                item = TupleGetItem(atom, node.index, span=node.span)
                return self.dynamic(node, item, env, block)
            case Function():
                if is_primitive(node):
                    return cast(Value, (yield self.primitive(node, env, block)))
                return Value(Closure(node, env))
            case Let():
                return cast(Value, (yield self.run(node, env, block)))
            case If():
                return cast(Value, (yield self.choice(node, env, block)))
            case Match():
                return cast(Value, (yield self.match(node, env, block)))
            case Call():
                return cast(Value, (yield self.call(node, env, block)))
            case RefCreate() | RefRead() | RefWrite():
                return cast(Value, (yield self.reference(node, env, block)))
        return Value(atom=node)

    def atom(self, node: Expr, env: Env) -> Value:
        if isinstance(node, Var):
            return env[node]
        if isinstance(node, Tuple):
            return Value(Fields(tuple(self.atom(f, env) for f in node.fields)))
        if isinstance(node, (Constant, GlobalVar, Constructor)):
            return Value(node, node)
        if isinstance(node, Function) and not is_primitive(node):
            return Value(Closure(node, env))
        return Value(atom=node)

    def primitive(self, function: Function, env: Env, block: Block) -> Recursive[Value]:
        """Return the function of a fused group as it is, but for what it uses from outside:
        variables, and type parameters of the functions around it.
        """
        outer = {}
        for variable in free_vars(function):
            outer[variable] = yield self.reify(env[variable], block)
        # What is followed from two places would bind its variables twice.
        copy = Copier(env.type_map()).copy(substitute(function, outer))
        return Value(atom=copy, home=block if outer else None)

    def dynamic(self, node: Expr, expr: Expr, env: Env, block: Block) -> Value:
        """Return the value of residual code that stands for a node."""
        kind = node.checked_type
        if kind is None or not self.holds_generics(kind):
            return Value(atom=block.bind(expr), home=block)
        # What was written said how general it is; its uses here may not tell that any more.
        return Value(atom=block.bind(expr, "v", env.type(kind)), home=block)

    def holds_generics(self, type_: Type) -> bool:
        """Return True for types with polymorphic functions in them."""
        known = self.generics.get(id(type_))
        if known is None:
            parts = (p for p in type_walk(type_) if isinstance(p, FuncType))
            # The type is kept: ids of dead ones would recur.
            known = self.generics[id(type_)] = type_, any(p.type_params for p in parts)
        return known[1]

    # -- Control flow ---------------------------------------------------------------------------

    def choice(self, node: If, env: Env, block: Block) -> Recursive[Value]:
        cond = self.atom(node.cond, env)
        if isinstance(cond.known, Constant):
            branch = node.true_branch if cond.known.data else node.false_branch
            chosen = yield self.run(branch, env, block)
            return cast(Value, (yield self.opened(chosen, node.checked_type, env, block)))
        yield self.materialize_all(block)
        test = yield self.reify(cond, block)
        branches = yield self.branches([node.true_branch, node.false_branch], [{}, {}], env, block)
        return self.dynamic(node, If(test, *branches, span=node.span), env, block)

    def branches(
        self,
        bodies: Sequence[Expr],
        bound: Sequence[Mapping[Var, Value]],
        env: Env,
        block: Block,
    ) -> Recursive[list[Expr]]:
        """Return residual branches; afterwards only what all agree on is known of references."""
        before = dict(self.store)
        self.choices += 1
        after: dict[Reference, Value] | None = None
        results = []
        for body, values in zip(bodies, bound):
            self.store, self.virtual = dict(before), {}
            inner, branch = Env(env, {}), Block(block)
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

    def match(self, node: Match, env: Env, block: Block) -> Recursive[Value]:
        data = self.atom(node.data, env)
        for clause in node.clauses:
            bound: dict[Var, tuple[Value, Type | None]] = {}
            fits = fits_pattern(clause.lhs, data, bound)
            if fits:
                for var, (value, held) in bound.items():
                    env.values[var] = yield self.taken(value, held, var, env, block)
                chosen = yield self.run(clause.rhs, env, block)
                return cast(Value, (yield self.opened(chosen, node.checked_type, env, block)))
            if fits is None:
                break
        yield self.materialize_all(block)
        atom = yield self.reify(data, block)
        patterns, values = [], []
        for clause in node.clauses:
            renewed: dict[Var, Value] = {}
            patterns.append(renewed_pattern(clause.lhs, renewed, env))
            values.append(renewed)
        bodies = yield self.branches([c.rhs for c in node.clauses], values, env, block)
        clauses = tuple(
            Clause(pattern, body, span=clause.span)
            for pattern, body, clause in zip(patterns, bodies, node.clauses)
        )
        left = Match(atom, clauses, node.complete, span=node.span)
        return self.dynamic(node, left, env, block)

    def reference(self, node: Expr, env: Env, block: Block) -> Recursive[Value]:
        if isinstance(node, RefCreate):
            kind = node.checked_type
            declared = env.type(kind) if kind is not None and self.holds_generics(kind) else None
            key = Reference(self.atom(node.value, env), declared)
            value = self.virtual[key] = Value(key)
            self.store[key] = key.first
            return value
        assert isinstance(node, (RefRead, RefWrite))
        target = self.atom(node.ref, env)
        key_of = target.known if isinstance(target.known, Reference) else None
        if isinstance(node, RefRead):
            if key_of is not None and key_of in self.store:
                held = self.store[key_of]
                return cast(Value, (yield self.opened(held, node.checked_type, env, block)))
            atom = yield self.reify(target, block)
            return self.dynamic(node, RefRead(atom, span=node.span), env, block)
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
        return Value(Fields(()))

    # -- Calls ----------------------------------------------------------------------------------

    def call(self, node: Call, env: Env, block: Block) -> Recursive[Value]:
        args = [self.atom(arg, env) for arg in node.args]
        callee = node.op
        if isinstance(callee, Op):
            return cast(Value, (yield self.operator(node, callee, args, env, block)))
        if isinstance(callee, Function) and is_primitive(callee):
            function = yield self.primitive(callee, env, block)
        else:
            function = self.atom(callee, env)
        if isinstance(function.known, Constructor):
            applied = tuple(substitute_in_type(t, env.types) for t in node.type_args)
            fields = yield self.fields(function.known, node, args, applied, env, block)
            inner = (field.known.size for field in fields if isinstance(field.known, Data))
            return Value(Data(function.known, tuple(fields), 1 + sum(inner), applied))
        closure = self.closure_of(function.known)
        type_args = tuple(substitute_in_type(t, env.types) for t in node.type_args)
        if closure is not None:
            types = type_instance(closure, node, env)
            seen_here = function.atom is not None and self.residual_depth > 1
            followed = types is not None and not _compares_sizes(types)
            if followed and not (seen_here and isinstance(function.atom, Var)):
                assert types is not None
                measure = tuple(map(measure_of, args))
                if self.may_follow(closure, measure):
                    own = Env(closure.env, types)
                    given = []
                    for value, arg, param in zip(args, node.args, closure.function.params):
                        declared = param.type_annotation or param.checked_type
                        asked = None
                        if declared is not None and isinstance(callee, Var):
                            asked = self.asked(declared, own)
                        given.append((yield self.compared(value, arg, asked, env, block)))
                    return cast(Value, (yield self.follow(closure, given, types, measure, block)))
            if not isinstance(callee, (GlobalVar, Function)):
                type_args = args_of_instance(closure, types)
        yield self.materialize_all(block)
        target = yield self.reify(function, block)
        atoms = yield self.reify_all(args, block)
        self.store.clear()
        left = Call(target, atoms, node.attrs, type_args, span=node.span)
        return self.dynamic(node, left, env, block)

    def compared(
        self, value: Value, arg: Expr, declared: Type | None, env: Env, block: Block
    ) -> Recursive[tuple[Value, Type | None]]:
        """Return an argument with its type: what generic code gives to a function value may have
        come out of data, at another size than the function declares.
        """
        kind = env.type(arg.checked_type)
        if kind is None or arg.checked_type is None or declared is None:
            return value, kind
        held = HeldTypes(env.type_map())(arg.checked_type)
        if held != kind and _must_compare(held, declared):
            return (yield self.sized(value, held, block)), held
        return value, kind

    def fields(
        self,
        constructor: Constructor,
        node: Call,
        args: Sequence[Value],
        type_args: Sequence[Type],
        env: Env,
        block: Block,
    ) -> Recursive[list[Value]]:
        """Return what a constructor is given, of the sizes that it declares."""
        params = self.module.types[constructor.belong_to.name].type_params
        wanted = instance_types(constructor.inputs, params, type_args)
        fields: list[Value] = []
        for value, arg, kind in zip(args, node.args, wanted):
            if _must_compare(env.type(arg.checked_type), kind):
                value = yield self.sized(value, kind, block)
            fields.append(value)
        return fields

    def closure_of(self, known: Known | None) -> Closure | None:
        if isinstance(known, GlobalVar):
            function = self.module.functions.get(known.name)
            if function is None or is_primitive(function):
                return None
            return Closure(function, Env(None, {}))
        return known if isinstance(known, Closure) else None

    def may_follow(self, closure: Closure, measure: Measure) -> bool:
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
        closure: Closure,
        args: Sequence[tuple[Value, Type | None]],
        types: Mapping[TypeParam, Type | Dim],
        measure: Measure,
        block: Block,
    ) -> Recursive[Value]:
        function = closure.function
        self.calls += 1
        running = self.active.setdefault(id(function), [])
        running.append((measure, self.choices))
        env = Env(closure.env, types)
        if closure.own is not None:
            env.values[closure.own] = Value(closure)
        for param, (value, given) in zip(function.params, args):
            declared = param.type_annotation or param.checked_type
            env.values[param] = yield self.widened(value, declared, given, env, block)
        result = yield self.run(function.body, env, block)
        running.pop()
        place = function.ret_type, function.body.checked_type
        return cast(Value, (yield self.widened(result, *place, env, block)))

    def operator(
        self, node: Call, op: Op, args: Sequence[Value], env: Env, block: Block
    ) -> Recursive[Value]:
        attrs = substitute_in_attrs(node.attrs, env.types)
        if isinstance(op, Operator) and not op.has_effect:
            folded = folded_call(op, args, attrs)
            if folded is not None:
                return folded
        atoms = yield self.reify_all(args, block)
        type_args = tuple(substitute_in_type(t, env.types) for t in node.type_args)
        assert isinstance(op, (Operator, Intrinsic))
        left = Call(op, atoms, attrs, type_args, span=node.span)
        return self.dynamic(node, left, env, block)


def _must_compare(source: Type | None, wanted: Type | None) -> bool:
    return source is not None and wanted is not None and needs_check(source, wanted)


def _compares_sizes(types: Mapping[TypeParam, Type | Dim]) -> bool:
    """Return True for a call that finds sizes in its arguments: a `?` does not stand for them."""
    return any(isinstance(value, AnyDim) for value in types.values())
