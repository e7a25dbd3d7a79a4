"""One global function as Python text: lets are statements, what is used once stands where it is
used, unless that would change the order of evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from relayvm.base.diagnostics import assert_never
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.analysis.scopes import Scopes, is_atomic
from relayvm.compiler.analysis.sizes import instance_types
from relayvm.compiler.infer_types import needs_check
from relayvm.compiler.to_python.frames import Frame, define, free_names, return_again
from relayvm.compiler.to_python.patterns import bindings, conditions
from relayvm.compiler.to_python.shared import Shared
from relayvm.compiler.to_python.sizes import Sizes
from relayvm.compiler.to_python.text import (
    ATOM,
    LONGEST,
    LOOSE,
    POSTFIX,
    AgainLine,
    Names,
    Suite,
    Term,
    joined,
    tuple_text,
)
from relayvm.ir.adt import field_types
from relayvm.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.intrinsics import Intrinsic, item_of_call
from relayvm.ir.scope import Scope
from relayvm.ir.types import FuncType, RefType, TensorType, TupleType, Type
from relayvm.ir.visit import children
from relayvm.ops.operator import Operator

MOST_OF_A_LAMBDA = 60
# Choices inside of choices, where a value is wanted; what is deeper is a function of its own, in
# which they return and so need not nest.
MOST_LEVELS = 8
# Python takes 100 levels of indentation: what is deeper is a function beside this one.
MOST_DEPTH = 60


class FunctionWriter:
    """Writes one global function."""

    def __init__(self, shared: Shared, name: str, function: Function) -> None:
        self.shared = shared
        self.global_name = name
        self.function = function
        self.scopes = Scopes(function)
        self.places: dict[Scope, tuple[Frame, Suite]] = {}
        self.terms: dict[int, Term] = {}
        self.names = Names(shared.names.taken)
        self.sizes = Sizes(self.names, shared.uses)
        self.outer_names = frozenset(self.names.taken)
        self.parts: list[Suite] = []
        self.used = {id(c) for n in self.scopes.order for c in children(n) if isinstance(c, Var)}

    def write(self) -> Suite:
        """Return the definition as a suite of its lines, followed by those of its parts."""
        frame = Frame(self.function, self.shared.function_names[self.global_name])
        frame.body.depth = 2
        trampoline(self.function_body(frame))
        result = Suite()
        define(frame, result, self.names, self.shared.uses)
        for part in self.parts:
            result.lines += ["", "", part]
        return result

    # -- Functions --------------------------------------------------------------------------------

    def function_body(self, frame: Frame) -> Recursive[None]:
        function = frame.function
        for param in function.params:
            frame.params.append(self.names.new(param.name))
            self.terms[id(param)] = Term(frame.params[-1])
        self.sizes.check_params(frame)
        (scope,) = self.scopes.opened(function)
        self.places[scope] = (frame, frame.body)
        declared, actual = function.ret_type, function.body.checked_type
        if declared is None or actual is None or not needs_check(actual, declared):
            yield self.tail(function.body, scope)
            return
        term = yield self.value(function.body)
        term = self.checked(term, actual, declared, "the result", frame, frame.body)
        frame.body.add(f"return {term.loose}")

    def tail(self, node: Expr, scope: Scope) -> Recursive[None]:
        """Write statements that return the value of `node`, the last thing that `scope` does."""
        frame, suite = self.places[scope]
        while isinstance(node, Let) and self.is_new(node, scope):
            yield self.bind(node, frame, suite)
            node = node.body
        if self.is_new(node, scope):
            match node:
                case If() | Match() if suite.depth >= MOST_DEPTH:
                    part = yield self.part(node, frame, suite, frame)
                    suite.add(f"return {part.loose}")
                    return
                case If() | Match():
                    yield self.choose_tail(node, frame, suite, suite)
                    return
                case Call() if self.is_self(node.op, frame):
                    terms = yield self.arguments(node, frame, suite, node.args)
                    _note_loop(frame)
                    suite.lines.append(AgainLine(tuple(t.loose for t in terms)))
                    return
        term = yield self.value(node)
        start, last = f"{term.text} = ", suite.lines[-1] if suite.lines else None
        named = term.level == ATOM and not is_atomic(node)
        if named and isinstance(last, str) and last.startswith(start):
            suite.lines[-1] = last.replace(start, "return ", 1)
            return
        suite.add(f"return {term.loose}")

    def is_self(self, callee: Expr, frame: Frame) -> bool:
        while frame.tail_of is not None:
            frame = frame.tail_of
        if isinstance(callee, GlobalVar):
            return frame.parent is None and callee.name == self.global_name
        known = isinstance(callee, Var) and frame.parent is not None
        return known and self.terms[id(callee)].text == frame.name

    def is_new(self, node: Expr, scope: Scope) -> bool:
        known = is_atomic(node) or id(node) in self.terms
        return not known and self.scopes.of(node) is scope

    # -- Values -----------------------------------------------------------------------------------

    def value(self, node: Expr, hint: str = "v") -> Recursive[Term]:
        """Return the term of a node, once statements that it needs are written."""
        if id(node) in self.terms:
            return self.terms[id(node)]
        if is_atomic(node):
            return self.atom(node)
        frame, suite = self.places[self.scopes.of(node)]
        passed: list[Expr] = [node]
        inner = node
        while isinstance(inner, Let) and self.is_new(inner, self.scopes.of(node)):
            yield self.bind(inner, frame, suite)
            inner = inner.body
            passed.append(inner)
        term: Term
        if inner is node:
            term = yield self.compute(node, frame, suite, hint)
        else:
            term = yield self.value(inner, hint)
            passed.pop()
        if len(term.text) > LONGEST or any(self.scopes.uses(n) > 1 for n in passed):
            term = self.named(term, suite, len(suite.lines), hint)
            self.terms.update((id(n), term) for n in passed)
        return term

    def named(self, term: Term, suite: Suite, place: int, hint: str = "v") -> Term:
        """Return an atom that stands for a term, bound by a statement at `place`."""
        if term.level == ATOM and len(term.text) <= LONGEST:
            return term
        name = self.names.new(hint)
        suite.lines.insert(place, f"{name} = {term.loose}")
        return Term(name)

    def atom(self, node: Expr) -> Term:
        match node:
            case Constant():
                return self.shared.constant(node.data)
            case GlobalVar():
                return Term(self.shared.function_names[node.name])
            case Constructor():
                return Term(self.shared.class_of(node))
            case Operator():
                params = [Term(o.name) for o in node.operands]
                call = self.shared.operator_call(node, params, (), {}, {})
                return Term(f"(lambda {joined(params)}: {call.loose})")
            case _:
                raise KeyError(f"{node!r} is used outside of its scope")

    def bind(self, let: Let, frame: Frame, suite: Suite) -> Recursive[None]:
        value, var = let.value, let.var
        if isinstance(value, Function) and id(value) not in self.terms:
            self.terms[id(value)] = self.terms[id(var)] = Term(self.names.new(var.name))
            yield self.closure(value, frame, suite, self.terms[id(value)].text)
            return
        term = yield self.value(value, var.name)
        if term.level != ATOM:
            if id(var) not in self.used and term.level == POSTFIX:
                suite.add(term.text)
                return
            term = self.named(term, suite, len(suite.lines), var.name)
        declared, actual = var.type_annotation, value.checked_type
        if declared is not None and actual is not None:
            self.checked(term, actual, declared, f"`%{var.name}`", frame, suite)
        self.terms[id(var)] = term

    def operands(
        self, nodes: Iterable[Expr], suite: Suite, terms: list[Term] | None = None
    ) -> Recursive[list[Term]]:
        """Return the terms of operands; `terms` wait for their place already."""
        terms = [] if terms is None else terms
        for node in nodes:
            mark = len(suite.lines)
            term = yield self.value(node)
            if len(suite.lines) > mark:
                self.settle(terms, suite, mark)
            terms.append(term)
        return terms

    def settle(self, terms: list[Term], suite: Suite, place: int) -> None:
        """Bind terms that wait by statements at a place, in their order."""
        for index, term in enumerate(terms):
            if term.level != ATOM:
                terms[index] = self.named(term, suite, place)
                place += 1

    def compute(self, node: Expr, frame: Frame, suite: Suite, hint: str) -> Recursive[Any]:
        match node:
            case Call():
                return (yield self.call(node, frame, suite))
            case Tuple():
                terms = yield self.operands(node.fields, suite)
                text = tuple_text([t.loose for t in terms])
                return Term(text, POSTFIX if terms else ATOM)
            case TupleGetItem():
                (term,) = yield self.operands((node.tuple_value,), suite)
                return Term(f"{term.tight}[{node.index}]", POSTFIX)
            case Function():
                return (yield self.closure(node, frame, suite, ""))
            case If() | Match() if suite.level >= MOST_LEVELS or suite.depth >= MOST_DEPTH:
                return (yield self.part(node, frame, suite))
            case If():
                return (yield self.choose(node, frame, suite, hint))
            case Match():
                target = self.names.new(hint)
                yield self.match(node, frame, suite, suite, target)
                return Term(target)
            case RefCreate():
                (term,) = yield self.operands((node.value,), suite)
                return Term(f"{self.shared.uses('Ref')}({term.loose})", POSTFIX)
            case RefRead():
                (term,) = yield self.operands((node.ref,), suite)
                return Term(f"{term.tight}.value", POSTFIX)
            case RefWrite():
                return (yield self.ref_write(node, frame, suite))
        assert_never(node)  # type: ignore[arg-type]

    def ref_write(self, node: RefWrite, frame: Frame, suite: Suite) -> Recursive[Term]:
        terms = yield self.operands((node.ref, node.value), suite)
        held, actual = node.ref.checked_type, node.value.checked_type
        if isinstance(held, RefType) and actual is not None and needs_check(actual, held.value):
            self.settle(terms, suite, len(suite.lines))
            self.checked(terms[1], actual, held.value, "the new value", frame, suite)
        if terms[0].level != ATOM:  # Python evaluates the right side first.
            self.settle(terms, suite, len(suite.lines))
        suite.add(f"{terms[0].tight}.value = {terms[1].loose}")
        return Term("()")

    # -- Calls ------------------------------------------------------------------------------------

    def call(self, node: Call, frame: Frame, suite: Suite) -> Recursive[Term]:
        op = node.op
        if isinstance(op, Operator):
            terms = yield self.operands(node.args, suite)
            types = [arg.checked_type for arg in node.args]
            dims = self.sizes.texts(node, frame)
            return self.shared.operator_call(op, terms, types, node.attrs, dims)
        terms = yield self.arguments(node, frame, suite, (op, *node.args))
        if isinstance(op, Intrinsic):
            name = self.shared.uses(op.name.replace(".", "_"))
            return Term(f"{name}({joined(terms[1:])})", POSTFIX)
        return Term(f"{terms[0].tight}({joined(terms[1:])})", POSTFIX)

    def arguments(
        self, node: Call, frame: Frame, suite: Suite, nodes: Sequence[Expr]
    ) -> Recursive[list[Term]]:
        """Return the terms of a call's arguments, checked against what the callee declares."""
        start = [Term("")] if isinstance(node.op, Intrinsic) else []
        rest = nodes[len(start) :]
        terms: list[Term] = yield self.operands(rest, suite, start)
        extra = len(terms) - len(node.args)
        wanted = self.wanted(node)
        unsure = [
            i
            for i, (arg, want) in enumerate(zip(node.args, wanted))
            if arg.checked_type is not None and needs_check(arg.checked_type, want)
        ]
        if unsure:
            self.settle(terms, suite, len(suite.lines))
        for i in unsure:
            given = node.args[i].checked_type
            assert given is not None
            self.checked(terms[i + extra], given, wanted[i], "an argument", frame, suite)
        return terms

    def wanted(self, node: Call) -> Sequence[Type]:
        op = node.op
        if isinstance(op, Constructor):
            assert node.checked_type is not None
            return field_types(self.shared.module, node.checked_type, op)
        if isinstance(op, Intrinsic):
            kind: Type | None = op.type
            args: tuple[Type, ...] = (item_of_call(node),)
        else:
            kind, args = op.checked_type, node.type_args
        if not isinstance(kind, FuncType):
            return ()
        return instance_types(kind.arg_types, kind.type_params, args)

    def closure(self, node: Function, frame: Frame, suite: Suite, name: str) -> Recursive[Term]:
        """Return the term of a function: a short one without a name is a lambda."""
        if suite.depth >= MOST_DEPTH:
            deep: Term = yield self.deep_closure(node, frame, suite, name)
            return deep
        frame.has_functions = True
        inner = Frame(node, name or self.names.new("fn"), frame)
        inner.body.depth = suite.depth + 2
        yield self.function_body(inner)
        lines = inner.body.lines
        if not name and len(lines) == 1 and not inner.dim_lines and isinstance(lines[0], str):
            body = lines[0].removeprefix("return ")
            if lines[0].startswith("return ") and len(body) <= MOST_OF_A_LAMBDA:
                params = f" {', '.join(inner.params)}" if inner.params else ""
                return Term(f"lambda{params}: {body}", LOOSE)
        define(inner, suite, self.names, self.shared.uses)
        return Term(inner.name)

    def deep_closure(
        self, node: Function, frame: Frame, suite: Suite, name: str
    ) -> Recursive[Term]:
        """Write a function in a part that returns it."""
        part = self.new_part(frame)
        term: Term = yield self.closure(node, part, part.body, name)
        part.body.add(f"return {term.loose}")
        made = self.finished_part(part)
        if not name:
            return made
        suite.add(f"{name} = {made.text}")
        return Term(name)

    def new_part(self, frame: Frame, tail_of: Frame | None = None) -> Frame:
        """Return a function beside this one, for what is too deep to stand in it."""
        name = self.names.new("part")
        while name in self.shared.names.taken:  # A part of another function has it.
            name = self.names.new("part")
        self.shared.names.taken.add(name)
        part = Frame(frame.function, name, frame, tail_of)
        part.body.depth = 1
        return part

    def finished_part(self, part: Frame) -> Term:
        """Keep the definition of a part; return its call, with the variables that it needs."""
        return_again(part.body, self.shared.uses)
        part.params = free_names(part.body, self.is_local)
        whole = Suite(flat=True)
        define(part, whole, self.names, self.shared.uses)
        self.parts.append(whole)
        return Term(f"{part.name}({', '.join(part.params)})", POSTFIX)

    # -- Choices ----------------------------------------------------------------------------------

    def condition(self, node: If, suite: Suite) -> Recursive[Any]:
        (term,) = yield self.operands((node.cond,), suite)
        return term

    def choose_tail(
        self, node: If | Match, frame: Frame, suite: Suite, into: Suite
    ) -> Recursive[None]:
        """Write a choice whose arms return. What comes before it is written in `suite`."""
        if isinstance(node, Match):
            yield self.match(node, frame, suite, into, None)
            return
        term = yield self.condition(node, suite)
        mark = len(suite.lines)
        arms = self.arms(node, frame, into)
        arms[1].level, arms[1].depth = into.level, into.depth
        for scope, body in zip(self.scopes.opened(node), (node.true_branch, node.false_branch)):
            yield self.tail(body, scope)
        if len(suite.lines) > mark:
            term = self.named(term, suite, mark)
        into.add(f"if {term.loose}:")
        into.lines += [arms[0], Suite(arms[1].lines, flat=True)]

    def is_local(self, name: str) -> bool:
        """Tell whether a name is one of a variable here, no global one."""
        is_global = name in self.outer_names or name in self.shared.names.taken
        return name in self.names.taken and not is_global

    def part(
        self, node: If | Match, frame: Frame, suite: Suite, tail_of: Frame | None = None
    ) -> Recursive[Term]:
        """Write a choice as a function that is called at once."""
        inner = self.new_part(frame, tail_of)
        yield self.choose_tail(node, inner, suite, inner.body)
        return self.finished_part(inner)

    def arms(self, node: If | Match, frame: Frame, into: Suite) -> list[Suite]:
        opened = self.scopes.opened(node)
        arms = [Suite(level=into.level + 1, depth=into.depth + 1) for _ in opened]
        for scope, arm in zip(self.scopes.opened(node), arms):
            self.places[scope] = (frame, arm)
        return arms

    def choose(self, node: If, frame: Frame, suite: Suite, hint: str) -> Recursive[Term]:
        term = yield self.condition(node, suite)
        mark = len(suite.lines)
        arms = self.arms(node, frame, suite)
        results: list[Term] = []
        for body in (node.true_branch, node.false_branch):
            result = yield self.value(body, hint)
            results.append(result)
        if len(suite.lines) > mark:
            term = self.named(term, suite, mark)
        text = f"{results[0].tight} if {term.tight} else {results[1].tight}"
        if not arms[0].lines and not arms[1].lines and len(text) <= LONGEST:
            return Term(text, LOOSE)
        target = self.names.new(hint)
        for keyword, arm, result in zip((f"if {term.loose}:", "else:"), arms, results):
            arm.add(f"{target} = {result.loose}")
            suite.lines += [keyword, arm]
        return Term(target)

    def match(
        self, node: Match, frame: Frame, suite: Suite, into: Suite, target: str | None
    ) -> Recursive[None]:
        """Write a chain of tests; each clause binds `target`, or returns where it is None."""
        (term,) = yield self.operands((node.data,), suite)
        data = self.named(term, suite, len(suite.lines))
        arms = self.arms(node, frame, into)
        if target is None:
            arms[-1].level, arms[-1].depth = into.level, into.depth
        for clause, scope, arm in zip(node.clauses, self.scopes.opened(node), arms):
            for var, path in bindings(clause.lhs, data.text):
                self.terms[id(var)] = Term(self.names.new(var.name))
                if id(var) in self.used:
                    arm.add(f"{self.terms[id(var)].text} = {path}")
            if target is None:
                yield self.tail(clause.rhs, scope)
                continue
            result = yield self.value(clause.rhs, target)
            arm.add(f"{target} = {result.loose}")
        self.write_clauses(node, data, arms, into, target)

    def write_clauses(
        self, node: Match, data: Term, arms: list[Suite], suite: Suite, target: str | None
    ) -> None:
        word = "if"
        last = len(arms) - 1
        for index, (clause, arm) in enumerate(zip(node.clauses, arms)):
            tests = conditions(clause.lhs, data.text, self.shared.class_of)
            if not tests or (node.complete and index == last):
                self.otherwise(arm, suite, is_else=target is not None and word != "if")
                return
            suite.lines += [f"{word} {' and '.join(tests)}:", arm]
            word = "elif" if target is not None else "if"
        place = f" ({node.span})" if node.span else ""
        failure = f"{self.shared.uses('fail')}({f'no clause of the match fits{place}'!r})"
        line = f"return {failure}" if target is None else failure
        self.otherwise(Suite([line]), suite, is_else=target is not None and bool(arms))

    def otherwise(self, arm: Suite, suite: Suite, is_else: bool) -> None:
        if is_else:
            suite.lines += ["else:", arm]
        else:
            suite.lines.append(Suite(arm.lines, flat=True))

    # -- Sizes ------------------------------------------------------------------------------------

    def checked(
        self, term: Term, actual: Type, declared: Type, what: str, frame: Frame, suite: Suite
    ) -> Term:
        """Write that a value must have the dims of the declared type; return it as an atom."""
        if not needs_check(actual, declared):
            return term
        term = self.named(term, suite, len(suite.lines))
        stack = [(term.tight, actual, declared)]
        while stack:
            text, source, wanted = stack.pop()
            if isinstance(source, TupleType) and isinstance(wanted, TupleType):
                rows = enumerate(zip(source.fields, wanted.fields))
                stack += [(f"{text}[{i}]", a, b) for i, (a, b) in rows][::-1]
            elif isinstance(wanted, TensorType) and needs_check(source, wanted):
                shape = tuple_text([self.sizes.text(d, frame) or "None" for d in wanted.shape])
                suite.add(f"{self.shared.uses('check')}({text}, {shape}, {what!r})")
        return term


def _note_loop(frame: Frame) -> None:
    """Note that a function calls itself last; where a part of it does, the part tells it so."""
    is_part = frame.tail_of is not None
    while frame.tail_of is not None:
        frame = frame.tail_of
    frame.repeats = True
    frame.has_functions |= is_part
