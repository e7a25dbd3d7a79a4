"""The part of the parser that reads dims: arithmetic over numbers and names, bounded in size."""

from __future__ import annotations

from abc import abstractmethod

from relayvm.base.dims import ANY, Dim, DimExpr, apply_term, dim_add, dim_mul, dim_sub
from relayvm.base.source import Span
from relayvm.ir.lexer import Cursor, SyntaxAbort

MAX_DIM_TOKENS = 128
MAX_DIM_TERMS = 64
MAX_DIM_DEPTH = 16


class DimSource(Cursor):
    """A cursor that knows the names of dims in scope."""

    @abstractmethod
    def dim_name(self) -> Dim:
        """Read the name of a symbolic dim."""


class DimReader:
    """Reads one dim by recursive descent; its depth and size are bounded, so it may recurse."""

    FUNCTIONS = {
        "min": "min",
        "max": "max",
        "broadcast": "broadcast",
        "floordiv": "//",
        "floormod": "%",
    }

    def __init__(self, parser: DimSource, first: int) -> None:
        self.parser = parser
        self.first = first

    def sum(self, depth: int) -> Dim:
        """Read terms joined by `+` and `-`."""
        result = self.product(depth)
        while self.parser.kind in ("+", "-"):
            op = self.parser.advance()
            other = self.product(depth)
            result = self._checked(dim_add(result, other) if op == "+" else dim_sub(result, other))
        return result

    def product(self, depth: int) -> Dim:
        """Read factors joined by `*`, `//` and `%`."""
        result = self.factor(depth)
        while self.parser.kind in ("*", "//", "%"):
            span = self.parser.span()
            op = self.parser.advance()
            other = self.factor(depth)
            if op == "*":
                result = self._product(result, other)
            else:
                result = self._term(op, result, other, span)
        return result

    def factor(self, depth: int) -> Dim:
        """Read a number, a name, `?`, a function of dims, or a dim in parentheses."""
        parser = self.parser
        if depth > MAX_DIM_DEPTH or parser.index - self.first > MAX_DIM_TOKENS:
            parser.report("bad-dim", "the dim is too long", parser.span())
            raise SyntaxAbort
        if parser.kind == "-":
            parser.advance()
            return self._product(self.factor(depth + 1), -1)
        if parser.kind == "?":
            parser.advance()
            return ANY
        if parser.kind == "number":
            return self._number()
        if parser.kind == "(":
            opened = parser.index
            parser.advance()
            result = self.sum(depth + 1)
            parser.expect(")", opened=opened)
            return result
        if parser.kind == "ident":
            if parser.text in self.FUNCTIONS and parser.next_kind() == "(":
                return self._function(depth)
            return parser.dim_name()
        parser.fail("a dim")

    def _function(self, depth: int) -> Dim:
        parser = self.parser
        span = parser.span()
        op = self.FUNCTIONS[parser.advance()]
        opened = parser.index
        parser.advance()
        a = self.sum(depth + 1)
        parser.expect(",")
        b = self.sum(depth + 1)
        parser.expect(")", opened=opened)
        return self._term(op, a, b, span)

    def _number(self) -> int:
        span = self.parser.span()
        text = self.parser.advance()
        if not text.isdigit() or len(text) > 40:
            self.parser.report("bad-dim", f"`{text[:40]}` is not a dim", span)
            return 1
        return int(text)

    def _product(self, a: Dim, b: Dim) -> Dim:
        if isinstance(a, DimExpr) and isinstance(b, DimExpr):
            self._bound(len(a.terms) * len(b.terms))
        return self._checked(dim_mul(a, b))

    def _term(self, op: str, a: Dim, b: Dim, span: Span) -> Dim:
        if op in ("//", "%") and b == 0:
            self.parser.report("bad-dim", "a dim is divided by 0", span)
            return ANY
        return self._checked(apply_term(op, a, b))

    def _checked(self, dim: Dim) -> Dim:
        if isinstance(dim, DimExpr):
            self._bound(len(dim.terms))
        return dim

    def _bound(self, terms: int) -> None:
        if terms > MAX_DIM_TERMS:
            self.parser.report("bad-dim", "the dim has too many terms", self.parser.span())
            raise SyntaxAbort
