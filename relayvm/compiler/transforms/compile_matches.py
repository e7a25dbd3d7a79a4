"""Pattern matching as decisions: nested patterns become flat ones, each looking at one constructor.

`match_decisions` says what is looked at when. What is reached from several places, a right-hand
side or further decisions, becomes a function of what it uses, so code never doubles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import is_

from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.analysis.sizes import size_suppliers
from relayvm.compiler.infer_types import needs_check
from relayvm.compiler.transforms.blocks import Binding, rebuild_block, split_block
from relayvm.compiler.transforms.match_decisions import (
    Decision,
    Leaf,
    Place,
    Switch,
    Untuple,
    decide,
)
from relayvm.ir.adt import pattern_types
from relayvm.ir.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, Type
from relayvm.ir.visit import free_type_vars, free_vars, rewrite, substitute

_WITH_MATCHES = (Function, If, Match, Call)
_TRIVIAL = (Var, GlobalVar, Constructor)


def compile_matches(module: Module) -> Module:
    """Return the module in which every match has only clauses `Constructor(%a, .., _)` over a
    variable.

    Requires TYPED and ANF, ensures MATCHES_COMPILED. Each constructor has at most one clause;
    where one is missing, the match fails at run time.

    `match (%l) { Cons(_, Nil) => %a, _ => %b }`
    -> `match (%l) { Cons(_, %t) => match (%t) { Nil => %a, Cons(_, _) => %b }, Nil => %b }`
    """
    compiler = _Compiler(module)
    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        functions[name] = function if is_primitive(function) else compiler.function(name, function)
    return module.with_functions({**functions, **compiler.outlined})


@dataclass(frozen=True, slots=True)
class _Shared:
    """A function for what is reached from several places, and what it is called with."""

    function: GlobalVar
    captures: Sequence[Place | Var]


class _Compiler:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.outlined: dict[str, Function] = {}
        self.owner = ""
        self.params: list[Var] = []  # of the functions around
        # What patterns have bound so far, renamed in one walk: one a match would be quadratic.
        self.names: dict[Var, Var] = {}

    def function(self, name: str, function: Function) -> Function:
        self.owner = name
        result = trampoline(self.inside(function))
        body = self.renamed(result.body)
        return result if body is result.body else replace(result, body=body)

    def renamed(self, expr: Expr) -> Expr:
        """Return an expression in which names that patterns gave are those of their subjects."""
        if not self.names:
            return expr
        return rewrite(expr, lambda node: self.subject(node) if isinstance(node, Var) else node)

    def subject(self, var: Var) -> Var:
        """Return the variable that is matched where a pattern bound this one, else itself."""
        chain = []
        while var in self.names:
            chain.append(var)
            var = self.names[var]
        self.names.update(dict.fromkeys(chain, var))
        return var

    def inside(self, function: Function) -> Recursive[Function]:
        self.params.extend(function.params)
        body = yield self.block(function.body)
        del self.params[len(self.params) - len(function.params) :]
        return function if body is function.body else replace(function, body=body)

    def block(self, expr: Expr) -> Recursive[Expr]:
        bindings, tail = split_block(expr)
        new: list[Binding] = []
        same = True
        for binding in bindings:
            if not isinstance(binding.value, _WITH_MATCHES):
                new.append(binding)
                continue
            inner = yield self.value(binding.value)
            before, value = split_block(inner)
            same &= value is binding.value
            new += [*before, replace(binding, value=value)]
        last = yield self.value(tail)
        return expr if same and last is tail else rebuild_block(new, last)

    def value(self, expr: Expr) -> Recursive[Expr]:
        match expr:
            case Function() if not is_primitive(expr):
                function: Expr = yield self.inside(expr)
                return function
            case If():
                yes = yield self.block(expr.true_branch)
                no = yield self.block(expr.false_branch)
                if yes is expr.true_branch and no is expr.false_branch:
                    return expr
                return replace(expr, true_branch=yes, false_branch=no)
            case Call() if isinstance(expr.op, Function) and not is_primitive(expr.op):
                op = yield self.inside(expr.op)
                return replace(expr, op=op)
            case Match():
                tree: Expr = yield self.match(expr)
                return tree
            case _:
                return expr

    def match(self, match: Match) -> Recursive[Expr]:
        """Return the decision tree of one match, as an expression in A-normal form."""
        data = match.data
        before: list[Binding] = []
        if not isinstance(data, Var):
            subject = _variable("m", _type(data), match)
            before.append(Binding(subject, data, match.span))
        else:
            subject = data
        sides: list[Expr] = []
        patterns: list[Pattern] = []
        for clause in match.clauses:
            pattern, promises = self.without_promises(clause.lhs, _type(subject))
            side = yield self.block(clause.rhs)
            patterns.append(pattern)
            sides.append(rebuild_block(promises, side) if promises else side)
        root = Place(subject.name, _type(subject))
        first = decide(self.module, root, patterns)
        scope = _Scope(match, {root: subject})
        code = trampoline(_Writer(self, match, sides).code(first, scope))
        return rebuild_block(before, code)

    def without_promises(self, lhs: Pattern, kind: Type) -> tuple[Pattern, list[Binding]]:
        """Return a pattern whose variables are declared as the values that they match, and the
        variables of the program that promise more of these.
        """
        promises: list[Binding] = []

        def opened(pattern: Pattern, kind: Type | None) -> Recursive[Pattern]:
            if isinstance(pattern, PatternVar) and kind is not None:
                var = pattern.var
                if var.type_annotation is None or not needs_check(kind, var.type_annotation):
                    return pattern
                held = Var(var.name, kind, span=var.span, checked_type=kind)
                promises.append(Binding(var, held, pattern.span))
                return replace(pattern, var=held)
            if not isinstance(pattern, (PatternConstructor, PatternTuple)):
                return pattern
            inner: list[Pattern] = []
            kinds = pattern_types(self.module, pattern, kind)
            for part, type_ in zip(pattern.patterns, kinds):
                inner.append((yield opened(part, type_)))
            same = all(map(is_, inner, pattern.patterns))
            return pattern if same else replace(pattern, patterns=tuple(inner))

        return trampoline(opened(lhs, kind)), promises

    def outline(
        self, body: Expr, kind: Type, given: Sequence[Var] = ()
    ) -> tuple[GlobalVar, Sequence[Var]]:
        """Make a global function of `given` and of what else is free in `body`; the latter is
        returned too.
        """
        known = set(given)
        free = [var for var in free_vars(body) if var not in known]
        free += size_suppliers(body, [*given, *free], self.params)
        params = [Var(v.name, _type(v), span=v.span, checked_type=_type(v)) for v in free]
        body = substitute(body, dict(zip(free, params)))
        scheme = FuncType(tuple(_type(p) for p in (*given, *params)), kind)
        name = f"{self.owner}_case{len(self.outlined)}"
        while name in self.module.functions or name in self.outlined:
            name += "_"
        self.outlined[name] = Function(
            (*given, *params),
            body,
            kind,
            tuple(free_type_vars(scheme)),
            span=body.span,
            checked_type=scheme,
        )
        return GlobalVar(name, span=body.span, checked_type=scheme), free


class _Scope:
    """The variables that hold places in one function, whose parameters are added as places are
    asked for.
    """

    def __init__(self, match: Match, vars: dict[Place, Var] | None = None) -> None:
        self.match = match
        self.outer = vars is not None
        self.vars: dict[Place, Var] = vars or {}
        self.params: dict[Place, Var] = {}

    def var(self, place: Place) -> Var:
        found = self.vars.get(place)
        if found is None:
            found = self.vars[place] = self.params[place] = self.fresh(place)
        return found

    def fresh(self, place: Place) -> Var:
        return _variable(place.name, place.type, self.match)

    def bind(self, places: Sequence[Place]) -> tuple[list[Var], list[Var | None]]:
        """Return new variables for places, and those that held them outside."""
        before = [self.vars.get(place) for place in places]
        new = [self.fresh(place) for place in places]
        self.vars.update(zip(places, new))
        return new, before

    def leave(self, places: Sequence[Place], before: Sequence[Var | None]) -> None:
        for place, var in zip(places, before):
            if var is None:
                del self.vars[place]
            else:
                self.vars[place] = var


class _Writer:
    """Writes the code of the decisions of one match."""

    def __init__(self, compiler: _Compiler, match: Match, sides: list[Expr]) -> None:
        self.compiler = compiler
        self.match = match
        self.sides = sides
        self.type = _type(match)
        self.shared: dict[Decision, _Shared] = {}

    def code(self, decision: Decision, scope: _Scope) -> Recursive[Expr]:
        """Return the code of a decision, or a call of the function that has it."""
        if isinstance(decision, Leaf) and (
            decision.uses == 1 or isinstance(self.sides[decision.clause], _TRIVIAL)
        ):
            return self.leaf(decision, scope)
        if decision.uses > 1:
            if decision not in self.shared:
                self.shared[decision] = yield self.function(decision)
            shared = self.shared[decision]
            args = tuple(scope.var(c) if isinstance(c, Place) else c for c in shared.captures)
            kind = shared.function.checked_type
            assert isinstance(kind, FuncType)
            return Call(shared.function, args, span=self.match.span, checked_type=kind.ret_type)
        code: Expr = yield self.inline(decision, scope)
        return code

    def inline(self, decision: Decision, scope: _Scope) -> Recursive[Expr]:
        if isinstance(decision, Leaf):
            return self.leaf(decision, scope)
        if isinstance(decision, Untuple):
            result: Expr = yield self.tuple(decision, scope)
        else:
            assert isinstance(decision, Switch)
            result = yield self.switch(decision, scope)
        return result

    def function(self, decision: Decision) -> Recursive[_Shared]:
        """Make a global function of a decision."""
        if isinstance(decision, Leaf):
            side = self.compiler.renamed(self.sides[decision.clause])
            function, free = self.compiler.outline(side, _type(side))
            return _Shared(function, [decision.names.get(var, var) for var in free])
        scope = _Scope(self.match)
        code = yield self.inline(decision, scope)
        params = scope.params
        body = self.compiler.renamed(code)
        function, free = self.compiler.outline(body, self.type, list(params.values()))
        return _Shared(function, [*params, *free])

    def leaf(self, leaf: Leaf, scope: _Scope) -> Expr:
        side = self.sides[leaf.clause]
        if leaf.uses > 1:
            place = leaf.names.get(side) if isinstance(side, Var) else None
            return side if place is None else scope.var(place)
        names = self.compiler.names
        if scope.outer:
            names.update((var, scope.var(place)) for var, place in leaf.names.items())
            return side
        # Here each place that is asked for becomes a parameter.
        side = self.compiler.renamed(side)
        for var in free_vars(side):
            if var in leaf.names:
                names[var] = scope.var(leaf.names[var])
        return side

    def tuple(self, decision: Untuple, scope: _Scope) -> Recursive[Expr]:
        subject = scope.var(decision.place)
        span = self.match.span
        fields, before = scope.bind(decision.parts)
        bindings = [
            Binding(v, TupleGetItem(subject, i, span=span, checked_type=_type(v)), span)
            for i, v in enumerate(fields)
        ]
        decided = yield self.code(decision.then, scope)
        scope.leave(decision.parts, before)
        return rebuild_block(bindings, decided)

    def switch(self, decision: Switch, scope: _Scope) -> Recursive[Expr]:
        subject = scope.var(decision.place)
        span = self.match.span
        clauses: list[Clause] = []
        for constructor, parts, then in decision.cases:
            fields, before = scope.bind(parts)
            rhs = yield self.code(then, scope)
            scope.leave(parts, before)
            patterns = tuple(PatternVar(v, span=span) for v in fields)
            lhs = PatternConstructor(constructor, patterns, span=span)
            clauses.append(Clause(lhs, rhs, span=span))
        return Match(subject, tuple(clauses), decision.complete, span=span, checked_type=self.type)


def _variable(name: str, kind: Type, match: Match) -> Var:
    return Var(name, kind, span=match.span, checked_type=kind)


def _type(expr: Expr) -> Type:
    kind = expr.checked_type
    if kind is None and isinstance(expr, Var):
        kind = expr.type_annotation
    assert kind is not None, f"{expr!r} has no type"
    return kind
