"""The state that the parts of one inference share: signatures, types found so far, and how they are
opened.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from relayvm.base.diagnostics import DiagnosticSink, Note
from relayvm.base.dims import Dim, DimVar, symbol
from relayvm.base.source import Span
from relayvm.compiler.analysis.variance import Variance
from relayvm.compiler.inference.choices import Choices
from relayvm.compiler.inference.holes import (
    DimHole,
    Hole,
    Owner,
    Reason,
    Task,
    new_hole,
)
from relayvm.compiler.inference.messages import Reporter, callee_text, type_text
from relayvm.compiler.inference.type_walk import Sharing, prune, rebuild, substitute, type_holes
from relayvm.compiler.inference.unify import TypeSolver
from relayvm.compiler.kinds import check_relation, check_type, same_rule_name
from relayvm.ir.expr import Constructor, Expr, Function, GlobalVar, Var
from relayvm.ir.intrinsics import ARRAY_NAME, Intrinsic, is_array
from relayvm.ir.module import Module
from relayvm.ir.shared_types import TypeTable
from relayvm.ir.types import (
    POISON,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    ShapeArg,
    TensorType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)

Slot = tuple[int, int]
ConstraintSolver = Callable[["Context", TypeRelation, TypeRelation, str, "Span | None"], None]


class Deferred(Task):
    """A task that gives a type to one hole once it knows more of its inputs."""

    __slots__ = ("done", "out", "span")

    def __init__(self, out: Hole, span: Span | None) -> None:
        super().__init__()
        self.out = out
        out.state.produced = True
        self.span = span
        self.done = False

    def complete_inputs(self) -> bool:
        """Guess at unknown inputs from the known ones; True if something was learnt."""
        return False

    def fail(self) -> bool:
        """Report why the task cannot go on, if it knows; True if it did."""
        return False


class RecursiveResult(Deferred):
    """The result of a polymorphic function of the same recursive group, once it is known."""

    __slots__ = ("context", "declared", "dims", "types")

    def __init__(
        self,
        context: Context,
        declared: Type,
        types: dict[TypeVar, Type],
        dims: dict[DimVar, Dim],
        out: Hole,
        span: Span | None,
    ) -> None:
        super().__init__(out, span)
        self.context = context
        self.declared = declared
        self.types = types
        self.dims = dims

    def run(self) -> None:
        """Let the result for these type arguments flow once no part of it is a hole."""
        holes = type_holes(self.declared)
        if self.done:
            return
        if any(hole.state.poisoned for hole in holes):
            self.done = True
            self.context.solver.poison(self.out)
        elif holes:
            for hole in holes:
                hole.state.listeners.append(self)
        else:
            self.done = True
            result = substitute(self.declared, self.types, {})
            reason = Reason(self.span, "the result has type {actual}", result, self.out)
            self.context.solver.flow(result, self.out, reason, renaming=self.dims)


class Assumed:
    """The constraints of functions that are visited, found by the types of their operands."""

    def __init__(self, solver: TypeSolver) -> None:
        self._solver = solver
        self._table = TypeTable(lambda variable: variable, lambda *_: None)
        # Those with operands that are not known yet.
        self._open: dict[str, list[TypeRelation]] = {}
        self._known: dict[tuple[Hashable, ...], list[TypeRelation]] = {}
        self._names: set[str] = set()

    def has(self, name: str) -> bool:
        """Return True if there is one of an operator, or of one with the same rule."""
        return bool(self._names) and same_rule_name(name) in self._names

    def add(self, relation: TypeRelation) -> None:
        """Note one more."""
        name = same_rule_name(relation.name)
        self._names.add(name)
        if not self._settle(relation):
            self._open.setdefault(name, []).append(relation)

    def of(self, name: str, types: Sequence[Type]) -> Sequence[TypeRelation]:
        """Return those of an operator at types without holes, whatever their attributes."""
        if not self._names:
            return ()
        name = same_rule_name(name)
        waiting = self._open.get(name)
        if waiting:
            self._open[name] = [r for r in waiting if not self._settle(r)]
        return self._known.get(self._key(name, types), ())

    def _settle(self, relation: TypeRelation) -> bool:
        operands = relation.args[:-1]
        if not all(map(self._solver.rigid, operands)):
            return False
        name = same_rule_name(relation.name)
        key = self._key(name, [self._solver.final(a) for a in operands])
        same = self._known.setdefault(key, [])
        attrs = dict(relation.attrs or {})
        if all(dict(r.attrs or {}) != attrs for r in same):
            same.append(relation)
        return True

    def _key(self, name: str, types: Sequence[Type]) -> tuple[Hashable, ...]:
        return (name, *map(self._table.name, types))


class Context:
    """What one inference knows.

    `types` are types of expressions by id; `slots` those of global functions and constructors that
    are used as values, by the id of the user and the place in it, for each use has its own
    instance. `open` are the ids of the signatures of functions whose results are not known yet,
    `inside` those of the functions around what is being visited. `unclear` are the names of
    functions of which no type is known, `unclear_params` type parameters of which it is not known
    what operators take, `unclear_calls` the ids of calls of operators that lack attributes. With
    `has_faults` types may have dims and element types that are wrong, which is reported.
    """

    def __init__(
        self, module: Module, env: Mapping[Var, Type], choices: Choices | None = None
    ) -> None:
        self.module = module
        self.env = env
        self.sink = DiagnosticSink()
        self.reporter = Reporter(self.sink)
        self.solver = TypeSolver(
            self.reporter.mismatch,
            self.reporter.dim_mismatch,
            self.reporter.infinite,
            self.reporter.too_large,
            self.constrain,
            self.assume,
            choices or Choices(frozenset(), frozenset()),
            Variance(module.types),
        )
        self.assumed = Assumed(self.solver)
        self.constraint_solver: ConstraintSolver | None = None
        self.types: dict[int, Type] = {}
        self.slots: dict[Slot, Type] = {}
        self.type_args: dict[int, tuple[Type, ...]] = {}
        self.vars: dict[int, Type] = {}
        self.bound: set[int] = set()
        self.open: set[int] = set()
        self.inside: set[int] = set()
        self.unclear: frozenset[str] = frozenset()
        self.unclear_params: set[Type] = {POISON}
        self.unclear_calls: frozenset[int] = frozenset()
        self.has_faults = False
        self.deferred: list[Deferred] = []
        self._sharing = Sharing()
        self._constraint_texts: dict[int, tuple[TypeRelation, str]] = {}
        self.result: Type | None = None
        self.has_local_params = False
        self._checked: dict[int, Type] = {}
        self._tensors: dict[TensorType, TensorType] = {}
        self._applications: dict[tuple[int, ...], tuple[Type, tuple[object, ...]]] = {}
        self._signatures: dict[int, FuncType] = {}
        self._constructors: dict[tuple[str, int], FuncType] = {}

    # -- Types that are written -----------------------------------------------------------------

    def opened(self, type_: Type, owner: Owner) -> Type:
        """Return a written type with a hole for each `_`; what is wrong with it is reported."""
        if not check_type(type_, self.module, self.sink, self._checked):
            return POISON
        if self.solver.rigid(type_):
            return type_

        def leaf(part: Type) -> Type:
            if isinstance(part, IncompleteType) and not isinstance(part, Hole):
                return new_hole(owner)
            return TypeCall(part, (), span=part.span) if isinstance(part, GlobalTypeVar) else part

        return rebuild(type_, leaf, {})

    def var_type(self, var: Var) -> Type:
        """Return the type of a variable: given, written, or a hole."""
        known = self.vars.get(id(var))
        if known is None:
            owner = Owner(f"the type of `%{var.name}`", var.span)
            if var in self.env:
                known = self.env[var]
            elif var.type_annotation is not None:
                known = self.opened(var.type_annotation, owner)
            else:
                known = new_hole(owner)
            self.vars[id(var)] = known
        return known

    def bind(self, var: Var, type_: Type) -> None:
        """Note that a variable is bound here, to values of a type if it has no annotation."""
        self.bound.add(id(var))
        if var.type_annotation is None:
            self.vars[id(var)] = type_

    def signature(self, function: Function, name: str = "the function") -> FuncType:
        """Return the type of a function, with holes for what is not written."""
        known = self._signatures.get(id(function))
        if known is None:
            arg_types = tuple(self._param_type(function, p) for p in function.params)
            owner = Owner(f"the result type of {name}", function.span, derived=True)
            if function.ret_type is None:
                ret_type: Type = new_hole(owner)
            else:
                ret_type = self.opened(function.ret_type, owner)
            constraints = self._constraints(function, owner)
            known = FuncType(arg_types, ret_type, function.type_params, constraints)
            self._signatures[id(function)] = known
            self.open.add(id(known))
        return known

    def close(self, signature: Type) -> None:
        """Note that the result type of a function is found as far as its body tells it."""
        self.open.discard(id(signature))
        result = signature.ret_type if isinstance(signature, FuncType) else None
        if isinstance(result, Hole) and result.state.bound is not None:
            result.state.bound = self._sharing(result)

    def _constraints(self, function: Function, owner: Owner) -> tuple[TypeRelation, ...]:
        sound: list[TypeRelation] = []
        for relation in function.type_constraints:
            if check_relation(relation, self.module, self.sink, self._checked):
                opened = self.opened_relation(relation, owner)
                sound.append(opened)
            else:
                params = (p for p in function.type_params if isinstance(p, TypeVar))
                self.unclear_params.update(params)
        self.assume(sound)
        return tuple(sound)

    def opened_relation(self, relation: TypeRelation, owner: Owner) -> TypeRelation:
        """Return a written constraint with a hole for each `_`."""
        args = tuple(self.opened(a, owner) for a in relation.args)
        return TypeRelation(relation.name, args, relation.attrs, span=relation.span)

    def assume(self, constraints: Iterable[TypeRelation]) -> None:
        """Note what the type parameters of a function that is being visited stand for at least."""
        for relation in constraints:
            self.assumed.add(relation)

    def constrain(
        self, written: TypeRelation, relation: TypeRelation, of: str, span: Span | None
    ) -> None:
        """Let the constraint of a polymorphic function hold for one use of it."""
        assert self.constraint_solver is not None
        self.constraint_solver(self, written, relation, of, span)

    def constraint_text(self, written: TypeRelation) -> str:
        """Return a constraint as text; each of its uses asks for it."""
        known = self._constraint_texts.get(id(written))
        if known is None:
            known = self._constraint_texts[id(written)] = (written, type_text(written))
        return known[1]

    def _param_type(self, function: Function, param: Var) -> Type:
        self.bound.add(id(param))
        if not function.type_params or param.type_annotation is not None:
            return self.var_type(param)
        self.reporter.report(
            "cannot-infer",
            f"parameter `%{param.name}` of a function with type parameters needs a type",
            param.span or function.span,
        )
        self.vars[id(param)] = POISON
        return POISON

    # -- Schemes --------------------------------------------------------------------------------

    def scheme(self, callee: GlobalVar | Constructor | Intrinsic) -> Type:
        """Return the type of a global function, constructor or intrinsic, polymorphic if it is."""
        if isinstance(callee, Constructor):
            return self._constructor_type(callee)
        if isinstance(callee, Intrinsic):
            return self._intrinsic_type(callee)
        if callee.name in self.unclear:
            return POISON
        function = self.module.functions.get(callee.name)
        if function is None:
            self.reporter.report(
                "unknown-function", f"there is no function `@{callee.name}`", callee.span
            )
            return POISON
        return self.signature(function, f"`@{callee.name}`")

    def _intrinsic_type(self, intrinsic: Intrinsic) -> Type:
        data = self.module.types.get(ARRAY_NAME)
        if is_array(data):
            return intrinsic.type
        message = f"`{intrinsic.name}` works on the type `{ARRAY_NAME}` of the library, which this "
        message += "program lacks" if data is None else "program defines otherwise"
        code = "unknown-type" if data is None else "library-conflict"
        help = f"give the program's `{ARRAY_NAME}` another name"
        help = help if data else f"take `extern type {ARRAY_NAME}[A]` into the program"
        self.reporter.report(code, message, data.span if data else None, help=help)
        return POISON

    def _constructor_type(self, constructor: Constructor) -> Type:
        key = (constructor.belong_to.name, constructor.index)
        known = self._constructors.get(key)
        if known is not None:
            return known
        data = self.module.types.get(constructor.belong_to.name)
        if data is None:
            self.reporter.report(
                "unknown-type",
                f"there is no data type `{constructor.belong_to.name}`",
                constructor.span,
            )
            return POISON
        args = tuple(ShapeArg(symbol(p)) if isinstance(p, DimVar) else p for p in data.type_params)
        inputs = constructor.inputs
        known = FuncType(inputs, TypeCall(data.header, args), data.type_params)
        self._constructors[key] = known
        return known

    def instance(
        self, scheme: FuncType, callee: Expr, span: Span | None, given: tuple[Type, ...] = ()
    ) -> tuple[FuncType, tuple[Type, ...]]:
        """Return the type of one use of a polymorphic function, and its type arguments."""
        if not scheme.type_params:
            return scheme, ()
        name = callee_text(callee)
        if given:
            owner = Owner(f"a type argument of {name}", span)
            given = tuple(a if isinstance(a, ShapeArg) else self.opened(a, owner) for a in given)
            return self._applied(scheme, given, name, span), given
        if id(scheme) in self.open and not self.solver.rigid(scheme):
            return self._recursive_instance(scheme, name, span)
        return self.solver.instantiate(scheme, name, span)

    def _applied(
        self, scheme: FuncType, given: tuple[Type, ...], name: str, span: Span | None
    ) -> FuncType:
        types: dict[TypeVar, Type] = {}
        dims: dict[DimVar, Dim] = {}
        for parameter, argument in zip(scheme.type_params, given):
            if isinstance(parameter, TypeVar):
                types[parameter] = argument
            elif isinstance(argument, ShapeArg):
                dims[parameter] = argument.dim
        return self.solver.apply(scheme, types, dims, name, span)

    def _recursive_instance(
        self, scheme: FuncType, name: str, span: Span | None
    ) -> tuple[FuncType, tuple[Type, ...]]:
        """Return an instance of a function whose result is not known yet.

        Inside the function its type parameters stand for themselves, for the result cannot be
        generalised before it is known; elsewhere in the group the result follows once it is. Dims
        may differ, and those of the result follow from them once they are known.
        """
        dims: dict[DimVar, Dim] = {
            p: symbol(DimHole(p.name, solves=True))
            for p in scheme.type_params
            if isinstance(p, DimVar)
        }
        types: dict[TypeVar, Type] = {}
        if id(scheme) not in self.inside:
            # Called from another function of the group, where the type parameters mean nothing.
            types = {
                p: new_hole(Owner(f"type argument `{p.name}` of {name}", span))
                for p in scheme.type_params
                if isinstance(p, TypeVar)
            }
        arguments = tuple(
            ShapeArg(dims[p]) if isinstance(p, DimVar) else types.get(p, p)
            for p in scheme.type_params
        )
        constraints = scheme.type_constraints
        body = FuncType(scheme.arg_types, POISON, (), constraints)
        body = self.solver.apply(body, types, dims, name, span)
        result = new_hole(Owner(f"the result of {name}", span, derived=True))
        if types:
            task = RecursiveResult(self, scheme.ret_type, types, dims, result, span)
            self.deferred.append(task)
            self.solver.queue.put(task)
        else:
            reason = Reason(span, "the result has type {actual}", scheme.ret_type, result)
            self.solver.flow(scheme.ret_type, result, reason, renaming=dims)
        return FuncType(body.arg_types, result), arguments

    def value(self, scheme: Type, callee: Expr, span: Span | None) -> Type:
        """Return the type of a global function or constructor that is a value, not called."""
        if not isinstance(scheme, FuncType) or not scheme.type_params:
            return scheme
        if id(scheme) in self.open and not self.solver.rigid(scheme):
            return self.instance(scheme, callee, span)[0]
        name = callee_text(callee)
        place = self.solver.choices.place(Owner(f"the type of {name}", span))
        if place in self.solver.choices.kept:
            return scheme
        return self.solver.instantiate(scheme, name, span, place)[0]

    # -- Operators ------------------------------------------------------------------------------

    def shared(self, type_: Type) -> Type:
        """Return the one object that stands for all equal tensor types of this inference."""
        if not isinstance(type_, TensorType):
            return type_
        return self._tensors.setdefault(type_, type_)

    def application(
        self, op: Expr, attrs: object, types: Sequence[Type]
    ) -> tuple[tuple[int, ...], Type | None]:
        """Return the key of an operator at types, and its result if it was applied to the same
        before.
        """
        # Attributes are told by identity: 1, 1.0 and True are equal.
        key = (id(op), id(attrs) if attrs else 0, *map(id, types))
        known = self._applications.get(key)
        return key, known[0] if known is not None else None

    def keep_application(
        self, key: tuple[int, ...], op: Expr, attrs: object, types: Sequence[Type], result: Type
    ) -> Type:
        """Remember what an operator gives at complete types; what the key names is kept alive."""
        result = self.shared(result)
        self._applications[key] = (result, (op, attrs, *types))
        return result

    # -- Places ---------------------------------------------------------------------------------

    def empty(self, type_: Type) -> bool:
        """Return True for a type of which nothing is known."""
        return isinstance(prune(type_), Hole)

    def definition_note(self, callee: Expr, index: int) -> tuple[Note, ...]:
        """Return the place where parameter `index` of a global function is declared."""
        if isinstance(callee, GlobalVar) and callee.name in self.module.functions:
            param = self.module.functions[callee.name].params[index]
            if param.span is not None and param.type_annotation is not None:
                return (Note(f"parameter `%{param.name}` is declared here", param.span),)
        return ()
