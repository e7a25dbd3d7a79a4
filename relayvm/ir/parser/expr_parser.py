"""The part of the parser that reads expressions and patterns, and that goes on after an error in a
statement.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from itertools import accumulate, chain
from typing import Any

from relayvm.base.diagnostics import DiagnosticSink
from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive
from relayvm.ir.expr import (
    NO_ATTRS,
    Attrs,
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
from relayvm.ir.intrinsics import ARRAY_NAME, INTRINSICS, Intrinsic
from relayvm.ir.lexer import DEFINITION_STARTS, KEYWORDS, SyntaxAbort, Tokens
from relayvm.ir.literal import NAMED_FLOAT, LiteralError, read_number
from relayvm.ir.metadata import Metadata
from relayvm.ir.metadata.section import CONSTANTS
from relayvm.ir.module import Module
from relayvm.ir.parser.attribute_parser import Written
from relayvm.ir.parser.pattern_parser import PatternParser
from relayvm.ir.parser.type_parser import ParamEntry
from relayvm.ir.types import Type, TypeParam

# Binary operators: how tightly they bind, and the operator of the table that they mean.
BINARY: dict[str, tuple[int, str]] = {
    "*": (12, "multiply"),
    "/": (12, "divide"),
    "+": (10, "add"),
    "-": (10, "subtract"),
    "<": (8, "less"),
    "<=": (8, "less_equal"),
    ">": (8, "greater"),
    ">=": (8, "greater_equal"),
    "==": (7, "equal"),
    "!=": (7, "not_equal"),
}


_POSTFIX = frozenset(("(", "[", "field"))
_ENDS = frozenset((",", ")", ";"))


class ExprParser(PatternParser):
    """Reads expressions. Every method that can meet a nested expression is a generator for
    `trampoline`.
    """

    def __init__(
        self,
        tokens: Tokens,
        sink: DiagnosticSink,
        operators: Mapping[str, Op],
        library: Module | None,
        metadata: Metadata,
    ) -> None:
        super().__init__(tokens, sink, library, metadata)
        self.operators = operators
        self.function_spans: dict[str, Span] = {}
        self.used_library_functions: set[str] = set()
        self.free_vars_allowed = False
        self.globals_open = False
        self._depths: dict[str, list[int]] = {}

    # --- statements ----------------------------------------------------------------------

    def block(self) -> Recursive[Any]:
        """Read `{ ... }`: its own scope."""
        opened = self.index
        self.expect("{")
        result = yield self.sequence("}")
        self.expect("}", ";", opened=opened)
        return result

    def sequence(self, closing: str) -> Recursive[Any]:
        """Read statements and a result, up to but without the closing token.

        After a syntax error inside braces it goes on with the next statement.
        """
        mark = self.scope.mark()
        lets: list[tuple[Var, Expr, int]] = []
        while True:
            start = self.index
            result: Expr | None = None
            try:
                kind = self.kinds[start]
                if kind == "let":
                    yield self._let(lets)
                elif kind == "graph" and self.next_kind() == "=":
                    yield self._graph_binding()
                elif kind == "free_var":
                    yield self._free_var()
                elif kind == "type" and self.free_vars_allowed:
                    self.type_abbreviation()
                else:
                    begin = self.begin()
                    result = self._leaf() or (yield self.expression())
                    if self.kinds[self.index] == ";":
                        self.advance()
                        lets.append((Var("_", span=result.span), result, begin))
                        continue
            except SyntaxAbort:
                if closing != "}" or not self._recover(start):
                    self.scope.undo(mark)
                    raise
                if self.kind == "}":
                    result = self.placeholder()
                else:
                    self.advance()
                    continue
            if result is not None:
                break
        self.scope.undo(mark)
        end = self.begins[max(self.index - 1, 0)] + len(self.texts[max(self.index - 1, 0)])
        for var, value, begin in reversed(lets):
            result = Let(var, value, result, span=Span(self.source, begin, max(begin, end)))
        return result

    def _recover(self, start: int) -> bool:
        """Skip to the `;` or `}` that ends the failed statement; False if a definition comes
        first.
        """
        if self.kinds[start] == "let" and self.kinds[start + 1] == "local":
            self.scope.bind(self.texts[start + 1][1:], self.placeholder())
        elif self.kinds[start] == "graph":
            self.scope.bind(self.texts[start], self.placeholder())
        depth = 0
        while self.kind not in DEFINITION_STARTS:
            if self.kind == "{":
                depth += 1
            elif self.kind == "}":
                if not depth:
                    return True
                depth -= 1
            elif self.kind == ";" and not depth:
                return True
            self.advance()
        return False

    def _graph_binding(self) -> Recursive[Any]:
        name = self.advance()
        self.advance()
        value = yield self.expression()
        self.expect(";", "an operator")
        self.scope.bind(name, value)

    def _let(self, lets: list[tuple[Var, Expr, int]]) -> Recursive[Any]:
        begin = self.begin()
        self.advance()
        var = yield self.binder()
        self.expect("=", ":")
        recursive = self.kind == "fn"
        mark = self.scope.mark()
        if recursive:
            self.scope.bind(var.name, var)
        value = yield self.expression()
        if recursive and not isinstance(value, Function):
            self.scope.undo(mark)
        self.expect(";", "an operator")
        self.scope.bind(var.name, var)
        lets.append((var, value, begin))

    def _free_var(self) -> Recursive[Any]:
        span = self.span()
        self.advance()
        var = yield self.binder()
        self.expect(";")
        if not self.free_vars_allowed:
            self.report(
                "syntax", "`free_var` can stand only in an expression without a module", span
            )
        self.scope.bind(var.name, var)

    # --- operators -----------------------------------------------------------------------

    def expression(self) -> Recursive[Any]:
        """Read an expression with binary operators."""
        if self.kind == "let" or (self.kind == "graph" and self.next_kind() == "="):
            return (yield self.sequence(""))
        operands: list[tuple[Expr, int]] = []
        waiting: list[tuple[int, str, Span]] = []
        while True:
            begin, first = self.begin(), self.index
            while self.kinds[self.index] == "-":
                self.index += 1
            minuses = self.index - first
            if self.kind == "number" or (self.kind == "ident" and self.text in NAMED_FLOAT):
                operand = self._number(begin, minuses % 2 == 1)
            else:
                inner = self.begin()
                primary = self._primary()
                operand = (yield primary) if isinstance(primary, Generator) else primary
                if self.kinds[self.index] in _POSTFIX or isinstance(operand, Constructor):
                    operand = yield self._postfix(operand, inner)
                if minuses:
                    operand = self._negated(operand, minuses, first)
            kind = self.kinds[self.index]
            if kind not in BINARY:
                break
            operands.append((operand, begin))
            strength, name = BINARY[kind]
            while waiting and waiting[-1][0] >= strength:
                self._apply(operands, waiting.pop())
            waiting.append((strength, name, self.span()))
            self.advance()
        operands.append((operand, begin))
        while waiting:
            self._apply(operands, waiting.pop())
        return operands[0][0]

    def _leaf(self) -> Expr | None:
        """Read an operand that is one variable or number, which most are: it needs no generator."""
        kind = self.kinds[self.index]
        if self.kinds[min(self.index + 1, len(self.kinds) - 1)] not in _ENDS:
            return None
        if kind in ("local", "graph"):
            return self._variable()
        return self._number(self.begin(), False) if kind == "number" else None

    def _apply(self, operands: list[tuple[Expr, int]], waiting: tuple[int, str, Span]) -> None:
        right, _ = operands.pop()
        left, begin = operands.pop()
        op = self._operator(waiting[1], waiting[2])
        operands.append((Call(op, (left, right), span=self.span_from(begin)), begin))

    def _operator(self, name: str, span: Span) -> Expr:
        if name in self.operators:
            return self.operators[name]
        self.report("unknown-operator", f"there is no operator `{name}`", span)
        return self.placeholder()

    def _negated(self, operand: Expr, minuses: int, first: int) -> Expr:
        op = self._operator("negative", self.span(first))
        for _ in range(minuses):
            operand = Call(op, (operand,), span=self.span_from(self.begins[first]))
        return operand

    def _number(self, begin: int, negative: bool) -> Expr:
        text = self.advance()
        span = self.span_from(begin)
        try:
            return Constant(read_number(text, negative), span=span)
        except LiteralError as reason:
            self.report("bad-literal", str(reason), span)
            return self.placeholder()

    # --- calls and projections -----------------------------------------------------------

    def _postfix(self, operand: Expr, begin: int) -> Recursive[Any]:
        while True:
            kind = self.kind
            if kind == "(":
                operand = yield self._call(operand, (), begin)
            elif kind == "[":
                type_args = tuple((yield self.call_type_arguments()))
                if self.kind == "(":
                    operand = yield self._call(operand, type_args, begin)
                elif isinstance(operand, Constructor):
                    operand = Call(operand, (), NO_ATTRS, type_args, span=self.span_from(begin))
                else:
                    self.expect("(")
            elif kind == "field":
                span = self.span()
                digits = self.advance()[1:]
                if len(digits) > 9:
                    self.report("syntax", f"there is no tuple field {digits[:40]}", span)
                    digits = "0"
                operand = TupleGetItem(operand, int(digits), span=self.span_from(begin))
            else:
                break
        if isinstance(operand, Constructor) and not operand.inputs:
            operand = Call(operand, (), span=self.span_from(begin))
        return operand

    def _call(self, callee: Expr, type_args: tuple[Type, ...], begin: int) -> Recursive[Any]:
        opened = self.index
        self.advance()
        args: list[Expr] = []
        values: Written = {}
        spoilt: set[str] = set()
        unknown = False
        while self.kind != ")":
            if self.next_kind() == "=" and (self.kind == "ident" or self.kind in KEYWORDS):
                name, faults = self.text, self.faults
                self.attribute(values)
                if self.faults > faults:
                    spoilt.add(name)
            elif values:
                self.fail("an attribute such as `axis=1`", help="operands come before attributes")
            elif self._is_meta_attrs():
                found = self.meta_attributes()
                unknown = found is None
                values = found or {}
            else:
                args.append(self._leaf() or (yield self.expression()))
            if not self.accept(","):
                break
        self.expect(")", ",", opened=opened)
        span = self.span_from(begin)
        attrs = NO_ATTRS
        if isinstance(callee, Op):
            faults = self.faults
            attrs = NO_ATTRS if unknown else self.call_attrs(callee, values, span, spoilt)
            if spoilt or unknown or self.faults > faults:
                if _may_be_operands(callee, len(args), values):
                    callee = self.placeholder(span=span)
                call = Call(callee, tuple(args), attrs, type_args, span=span)
                self.unclear_calls.append(call)
                return call
        elif values and callee not in self.missing:
            attrs = self.plain_attrs(values)
        return Call(callee, tuple(args), attrs, type_args, span=span)

    def _is_meta_attrs(self) -> bool:
        """Tell whether `meta[relay.attrs.Conv2DAttrs][0]` is next: attributes, no operand."""
        if self.kind != "ident" or self.text != "meta":
            return False
        return self.texts[self.index + 1] == "[" and self.texts[self.index + 2] != CONSTANTS

    # --- primaries -----------------------------------------------------------------------

    def _primary(self) -> Expr | Recursive[Any]:
        """Read an operand, or return the generator that reads one with expressions inside."""
        kind = self.kind
        if kind in ("local", "graph"):
            return self._variable()
        if kind == "ident":
            return self._named()
        if kind == "global":
            return self._global()
        begin = self.begin()
        if kind in ("True", "False"):
            self.advance()
            return Constant(read_number(kind, False), span=self.span_from(begin))
        if kind == "(":
            return self._parentheses(begin)
        if kind == "{":
            return self.block()
        if kind == "if":
            return self._if(begin)
        if kind in ("match", "match?"):
            return self._match(begin)
        if kind == "fn":
            self.advance()
            return self.function(begin)
        if kind in ("ref", "ref_read", "ref_write"):
            return self._reference(begin)
        if kind == "string":
            self.fail("an expression", help="strings can only be attributes")
        self.fail("an expression")

    def _variable(self) -> Expr:
        span = self.span()
        text = self.advance()
        # Graph bindings keep their `%`, so that they never meet a variable of the same name.
        name = text if text[1].isdigit() else text[1:]
        found = self.scope.get(name)
        if found is not None:
            return found
        message = f"there is no variable `{text[:80]}` here"
        self.report("unknown-variable", message, span, help=lambda: self._near_variable(name))
        missing = self.placeholder(name, span)
        self.scope.bind(name, missing)
        return missing

    def _near_variable(self, name: str) -> str:
        known = (n for n in reversed(self.scope) if n[:1] != "%")
        hint = self.suggestion(name, known, "%")
        if not hint and "/" in name:
            hint = "`/` is part of the name; write spaces around it to divide"
        return hint

    def _global(self) -> Expr:
        span = self.span()
        name = self.advance()[1:]
        if name not in self.function_spans:
            if self.library is not None and name in self.library.functions:
                self.used_library_functions.add(name)
            elif not self.globals_open:
                known = chain(self.function_spans, self.library.functions if self.library else ())
                self.report(
                    "unknown-function",
                    f"there is no function `@{name[:80]}`",
                    span,
                    help=lambda: self.suggestion(name, known, "@"),
                )
                return self.placeholder(span=span)
        return GlobalVar(name, span=span)

    def _named(self) -> Expr:
        span = self.span()
        name = self.text
        if name == "meta":
            return self._meta_constant()
        self.advance()
        constructor = self.constructor(name)
        if constructor is not None:
            unclear = name in self.unclear_constructors
            return self.placeholder(name, span) if unclear else constructor
        if name in self.operators:
            return self.operators[name]
        if name in INTRINSICS:
            self.type_name(ARRAY_NAME)  # notes that it is used
            return INTRINSICS[name]
        known = chain(self.constructors, self.library_constructors(), self.operators, INTRINSICS)
        self.report(
            "unknown-operator",
            f"there is no operator or constructor `{name[:80]}`",
            span,
            help=lambda: self.suggestion(name, known),
        )
        return self.placeholder(span=span)

    def _meta_constant(self) -> Expr:
        key, index, span = self.meta_reference()
        if key == CONSTANTS and index is not None:
            return Constant(self.metadata.constants[index], span=span)
        if index is not None:
            message = f"`meta[{key[:40]}]` is no expression; one is `meta[{CONSTANTS}]`"
            self.report("bad-metadata", message, span)
        return self.placeholder(span=span)

    def _parentheses(self, begin: int) -> Recursive[Any]:
        opened = self.index
        self.advance()
        fields: list[Expr] = []
        comma = False
        while self.kind != ")":
            fields.append((yield (self.expression() if fields else self.sequence(")"))))
            comma = self.accept(",")
            if not comma:
                break
        self.expect(")", ",", opened=opened)
        if len(fields) == 1 and not comma:
            return fields[0]
        return Tuple(tuple(fields), span=self.span_from(begin))

    def _if(self, begin: int) -> Recursive[Any]:
        self.advance()
        opened = self.index
        self.expect("(")
        cond = yield self.sequence(")")
        self.expect(")", opened=opened)
        true_branch = yield self.block()
        self.expect("else")
        if self.kind == "if":
            # `else if` is written without braces; each link of the chain is one step deeper.
            false_branch = yield self._if(self.begin())
        else:
            false_branch = yield self.block()
        return If(cond, true_branch, false_branch, span=self.span_from(begin))

    def _reference(self, begin: int) -> Recursive[Any]:
        kind = self.advance()
        opened = self.index
        self.expect("(")
        first = yield self.sequence(")" if kind != "ref_write" else ",")
        second: Expr | None = None
        if kind == "ref_write":
            self.expect(",")
            second = yield self.expression()
        self.expect(")", opened=opened)
        span = self.span_from(begin)
        if kind == "ref":
            return RefCreate(first, span=span)
        if second is None:
            return RefRead(first, span=span)
        return RefWrite(first, second, span=span)

    # --- functions -----------------------------------------------------------------------

    def function(self, begin: int) -> Recursive[Any]:
        """Read a function from its type parameters on."""
        type_mark, mark = self.type_scope.mark(), self.scope.mark()
        try:
            entries: list[ParamEntry] = []
            if self.kind == "[":
                entries = yield self.type_params()
            params: list[Var] = []
            values: Written = {}
            opened = self.index
            self.expect("(", "[")
            while self.kind != ")":
                if self.next_kind() == "=" and (self.kind == "ident" or self.kind in KEYWORDS):
                    self.attribute(values)
                else:
                    params.append((yield self.binder()))
                if not self.accept(","):
                    break
            self.expect(")", ",", opened=opened)
            ret_type: Type | None = None
            if self.accept("->"):
                ret_type = self.leaf_type() or (yield self.type_())
            constraints = yield self.constraints(entries)
            self.bind_variables(params, "parameter")
            body = yield self.block()
        finally:
            self.scope.undo(mark)
            self.type_scope.undo(type_mark)
        made: tuple[TypeParam, ...] = tuple(entry.param() for entry in entries)
        attrs = Attrs({n: v for n, (v, _, _) in values.items()}) if values else NO_ATTRS
        span = self.span_from(begin)
        return Function(tuple(params), body, ret_type, made, attrs, constraints, span=span)

    # --- matches -------------------------------------------------------------------------

    def _match(self, begin: int) -> Recursive[Any]:
        complete = self.advance() == "match"
        if self.kind != "(":
            self.expect("(")
        # `match (a, b) { ... }` takes a tuple apart without a second pair of parentheses.
        data = yield self._parentheses(self.begin())
        outer = self.index
        self.expect("{")
        clauses: list[Clause] = []
        broken = False
        while self.kind != "}":
            start = self.index
            try:
                clauses.append((yield self._clause()))
            except SyntaxAbort:
                broken = True
                if not self._recover_clause(start):
                    raise
            if not self.accept(","):
                break
        self.expect("}", ",", opened=outer)
        if broken:
            return self.placeholder()
        return Match(data, tuple(clauses), complete, span=self.span_from(begin))

    def _recover_clause(self, start: int) -> bool:
        """Skip to the `,` or `}` that ends the failed clause; False if a definition comes first."""
        braces = max(0, self._depth_since(start, "{", "}"))
        others = self._depth_since(start, "([", ")]")
        while self.kind not in DEFINITION_STARTS:
            kind = self.kind
            if not braces and (kind == "}" or (kind == "," and others <= 0)):
                return True
            braces += (kind == "{") - (kind == "}")
            others += (kind in ("(", "[")) - (kind in (")", "]"))
            self.advance()
        return False

    def _depth_since(self, start: int, opening: str, closing: str) -> int:
        """Return how many brackets opened since a token are still open here.

        The depths of all tokens are found once: matches may nest, and each recovers in turn.
        """
        depths = self._depths.get(opening)
        if depths is None:
            steps = ((kind in opening) - (kind in closing) for kind in self.kinds)
            depths = self._depths[opening] = list(accumulate(steps, initial=0))
        return depths[self.index] - depths[start]

    def _clause(self) -> Recursive[Any]:
        begin = self.begin()
        mark = self.scope.mark()
        bound: list[Var] = []
        lhs = yield self.pattern(bound)
        self.bind_variables(bound, "variable")
        try:
            self.expect("=>")
            rhs = yield self.expression()
        finally:
            self.scope.undo(mark)
        return Clause(lhs, rhs, span=self.span_from(begin))


def _may_be_operands(op: Op, given: int, values: Written) -> bool:
    """Return True if operands lack that may be meant by attributes which the operator has not."""
    wanted = len(op.type.arg_types) if isinstance(op, Intrinsic) else len(op.operands)
    known = {*(row.name for row in op.attributes), *op.ignored}
    return given < wanted and not known.issuperset(values)
