"""Pattern matching as decisions: nested patterns become flat ones, each looking at one constructor.

Method: Maranget, "Compiling Pattern Matching to Good Decision Trees" (ML 2008), columns from left
to right. A right-hand side reached from several leaves becomes a function of what it binds, so
code never doubles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.analysis.sizes import size_suppliers
from relayvm.compiler.transforms.blocks import Binding, rebuild_block, split_block
from relayvm.ir.adt import definition_of, field_types
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
    PatternWildcard,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
    TupleType,
    Type,
    TypeCall,
)
from relayvm.ir.visit import free_type_vars, free_vars, rewrite, substitute

WILDCARD = PatternWildcard()
_MANY_COLUMNS = 8
_LONGEST_NAME = 64
_WITH_MATCHES = (Function, If, Match, Call)


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


@dataclass(slots=True)
class _Row:
    """One clause during compilation: what its columns must look like, and what they have bound."""

    patterns: list[Pattern]
    leaf: _Leaf
    bindings: _Bound | None = None


@dataclass(frozen=True, slots=True)
class _Bound:
    """A variable of a pattern, what it stands for, and those bound before: rows share these."""

    var: Var
    subject: Var
    before: _Bound | None


@dataclass(slots=True)
class _Leaf:
    """A right-hand side, and the places in the tree from which it is reached."""

    rhs: Expr
    uses: int = 0
    function: GlobalVar | None = None
    captures: tuple[Var, ...] = ()


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
        leaves: list[_Leaf] = []
        for clause in match.clauses:
            rhs = yield self.block(clause.rhs)
            leaves.append(_Leaf(rhs))
        rows = [_Row([c.lhs], leaf) for c, leaf in zip(match.clauses, leaves)]
        tree = _Tree(self, match)
        trampoline(tree.build([subject], rows))
        tree.counting = False
        for leaf in leaves:
            if leaf.uses > 1:
                self.outline(leaf)
        result = trampoline(tree.build([subject], rows))
        return rebuild_block(before, result)

    def outline(self, leaf: _Leaf) -> None:
        """Make a right-hand side a global function of its free variables."""
        leaf.rhs = self.renamed(leaf.rhs)
        if isinstance(leaf.rhs, (Var, GlobalVar, Constructor)):
            return
        free = free_vars(leaf.rhs)
        free += tuple(size_suppliers(leaf.rhs, free, self.params))
        params = tuple(Var(v.name, _type(v), span=v.span, checked_type=_type(v)) for v in free)
        body = substitute(leaf.rhs, dict(zip(free, params)))
        kind = FuncType(tuple(_type(p) for p in params), _type(leaf.rhs))
        name = f"{self.owner}_case{len(self.outlined)}"
        while name in self.module.functions:
            name += "_"
        self.outlined[name] = Function(
            params,
            body,
            kind.ret_type,
            tuple(free_type_vars(kind)),
            span=leaf.rhs.span,
            checked_type=kind,
        )
        leaf.function = GlobalVar(name, span=leaf.rhs.span, checked_type=kind)
        leaf.captures = free


class _Tree:
    """Builds the decisions for one match, first to count from how many places each right-hand side
    is reached.
    """

    def __init__(self, compiler: _Compiler, match: Match) -> None:
        self.compiler = compiler
        self.match = match
        self.type = _type(match)
        self.counting = True

    def build(self, subjects: Sequence[Var], rows: Sequence[_Row]) -> Recursive[Expr]:
        """Return the expression that decides between `rows`, whose columns match `subjects`."""
        if not rows:
            return self.failure(subjects)
        rows = [_bind_names(row, subjects) for row in rows]
        first = rows[0]
        if len(subjects) > _MANY_COLUMNS:
            subjects, rows = _without_open_columns(subjects, rows)
            first = rows[0]
        column = next((i for i, p in enumerate(first.patterns) if not _is_wild(p)), None)
        if column is None:
            return self.leaf(first)
        if isinstance(first.patterns[column], PatternTuple):
            result: Expr = yield self.tuple(subjects, rows, column)
        else:
            result = yield self.switch(subjects, rows, column)
        return result

    def leaf(self, row: _Row) -> Expr:
        leaf = row.leaf
        if self.counting:
            leaf.uses += 1
            return leaf.rhs
        if leaf.uses == 1:
            self.compiler.names.update(_names(row))
            return leaf.rhs
        names: dict[Var, Expr] = dict(_names(row))
        if leaf.function is not None:
            args = tuple(names.get(v, v) for v in leaf.captures)
            return Call(leaf.function, args, span=self.match.span, checked_type=_type(leaf.rhs))
        return substitute(leaf.rhs, names)

    def failure(self, subjects: Sequence[Var]) -> Expr:
        """Return a match without clauses: it always fails."""
        subject = next((s for s in subjects if _is_data(s)), None)
        assert subject is not None, "a match over tuples is always complete in its last column"
        return Match(subject, (), False, span=self.match.span, checked_type=self.type)

    def tuple(self, subjects: Sequence[Var], rows: Sequence[_Row], column: int) -> Recursive[Expr]:
        subject = subjects[column]
        kind = _type(subject)
        assert isinstance(kind, TupleType)
        fields = [
            _variable(_part_name(subject, i), t, self.match) for i, t in enumerate(kind.fields)
        ]
        bindings = [
            Binding(
                v, TupleGetItem(subject, i, span=self.match.span, checked_type=t), self.match.span
            )
            for i, (v, t) in enumerate(zip(fields, kind.fields))
        ]
        new_rows = []
        for row in rows:
            pattern = row.patterns[column]
            inner = (
                list(pattern.patterns)
                if isinstance(pattern, PatternTuple)
                else [WILDCARD] * len(fields)
            )
            new_rows.append(replace(row, patterns=_spliced(row.patterns, column, inner)))
        decided = yield self.build(_spliced(subjects, column, fields), new_rows)
        return rebuild_block(bindings, decided)

    def switch(self, subjects: Sequence[Var], rows: Sequence[_Row], column: int) -> Recursive[Expr]:
        subject = subjects[column]
        kind = _type(subject)
        module = self.compiler.module
        definition, _ = definition_of(module, kind)
        clauses: list[Clause] = []
        fitting = _by_constructor(rows, column, len(definition.constructors))
        for constructor, chosen in zip(definition.constructors, fitting):
            if not chosen:
                continue
            types = field_types(module, kind, constructor)
            fields = [_variable(_part_name(subject, i), t, self.match) for i, t in enumerate(types)]
            new_rows = []
            for row in chosen:
                pattern = row.patterns[column]
                inner = (
                    list(pattern.patterns)
                    if isinstance(pattern, PatternConstructor)
                    else [WILDCARD] * len(fields)
                )
                new_rows.append(replace(row, patterns=_spliced(row.patterns, column, inner)))
            rhs = yield self.build(_spliced(subjects, column, fields), new_rows)
            patterns = tuple(PatternVar(v, span=self.match.span) for v in fields)
            lhs = PatternConstructor(constructor, patterns, span=self.match.span)
            clauses.append(Clause(lhs, rhs, span=self.match.span))
        complete = len(clauses) == len(definition.constructors)
        return Match(
            subject, tuple(clauses), complete, span=self.match.span, checked_type=self.type
        )


def _bind_names(row: _Row, subjects: Sequence[Var]) -> _Row:
    """Turn variable patterns into wildcards that remember what they bind."""
    patterns, bindings = list(row.patterns), row.bindings
    for index, (pattern, subject) in enumerate(zip(row.patterns, subjects)):
        if isinstance(pattern, PatternVar):
            bindings = _Bound(pattern.var, subject, bindings)
            patterns[index] = WILDCARD
    return _Row(patterns, row.leaf, bindings)


def _names(row: _Row) -> list[tuple[Var, Var]]:
    names: list[tuple[Var, Var]] = []
    bound = row.bindings
    while bound is not None:
        names.append((bound.var, bound.subject))
        bound = bound.before
    names.reverse()
    return names


def _without_open_columns(
    subjects: Sequence[Var], rows: Sequence[_Row]
) -> tuple[list[Var], list[_Row]]:
    """Return columns and rows without the columns that decide nothing, but for the first of a data
    type: a failure names it.
    """
    shown = next((i for i, s in enumerate(subjects) if _is_data(s)), -1)
    kept = [
        i
        for i in range(len(subjects))
        if i == shown or not all(_is_wild(r.patterns[i]) for r in rows)
    ]
    rest = [replace(row, patterns=[row.patterns[i] for i in kept]) for row in rows]
    return [subjects[i] for i in kept], rest


def _is_data(subject: Var) -> bool:
    return isinstance(_type(subject), (TypeCall, GlobalTypeVar))


def _by_constructor(rows: Sequence[_Row], column: int, count: int) -> list[list[_Row]]:
    """Return for each constructor the rows whose pattern in this column may fit it."""
    fitting: list[list[_Row]] = [[] for _ in range(count)]
    for row in rows:
        pattern = row.patterns[column]
        if isinstance(pattern, PatternConstructor):
            fitting[pattern.constructor.index].append(row)
        else:
            for chosen in fitting:
                chosen.append(row)
    return fitting


def _is_wild(pattern: Pattern) -> bool:
    return isinstance(pattern, PatternWildcard)


def _spliced(items, index: int, new):  # type: ignore[no-untyped-def]
    return [*items[:index], *new, *items[index + 1 :]]


def _part_name(subject: Var, index: int) -> str:
    # Names that grew with the depth would take more space than the program.
    return f"{subject.name}_{index}" if len(subject.name) < _LONGEST_NAME else subject.name


def _variable(name: str, kind: Type, match: Match) -> Var:
    return Var(name, kind, span=match.span, checked_type=kind)


def _type(expr: Expr) -> Type:
    kind = expr.checked_type
    if kind is None and isinstance(expr, Var):
        kind = expr.type_annotation
    assert kind is not None, f"{expr!r} has no type"
    return kind
