"""The part of the parser that reads dims: arithmetic over numbers and names, bounded in size."""

from __future__ import annotations

from abc import abstractmethod

from relayvm.base.dims import ANY, Dim, DimExpr, apply_term, dim_add, dim_mul, dim_sub
from relayvm.base.source import Span
from relayvm.ir.lexer import Cursor

MAX_DIM_TOKENS = 128
MAX_DIM_TERMS = 64
MAX_DIM_DEPTH = 16


class DimSource(Cursor):
    """A cursor that knows the names of dims in scope."""

    @abstractmethod
    def dim_name(self) -> Dim:
        """Read the name of a symbolic dim."""

    @abstractmethod
    def meta_dim(self) -> Dim:
        """Read `meta[tir.Any][0]`."""


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
        return self._more_terms(self.product(depth), depth)

    def rest_of_sum(self, first: Dim) -> Dim:
        """Read what follows a factor that has been read."""
        return self._more_terms(self._more_factors(first, 0), 0)

    def _more_terms(self, result: Dim, depth: int) -> Dim:
        while self.parser.kind in ("+", "-"):
            op = self.parser.advance()
            other = self.product(depth)
            result = self._checked(dim_add(result, other) if op == "+" else dim_sub(result, other))
        return result

    def product(self, depth: int) -> Dim:
        """Read factors joined by `*`, `//` and `%`."""
        return self._more_factors(self.factor(depth), depth)

    def _more_factors(self, result: Dim, depth: int) -> Dim:
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
            parser.abort("bad-dim", "the dim is too long")
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
            is_meta = parser.text == "meta" and parser.next_kind() == "["
            return parser.meta_dim() if is_meta else parser.dim_name()
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
        # TVM writes the dims of some importers as `3i64`.
        text = text.removesuffix("i64").removesuffix("i32")
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
            self.parser.abort("bad-dim", "the dim has too many terms")


def computed_dim(op: str, a: Dim, b: Dim) -> Dim:
    """Return a dim computed from two others; any size where it would grow out of bounds."""
    if op in ("//", "%") and b == 0:
        return ANY
    arithmetic = {"+": dim_add, "-": dim_sub, "*": dim_mul}
    result = arithmetic[op](a, b) if op in arithmetic else apply_term(op, a, b)
    is_long = isinstance(result, DimExpr) and len(result.terms) > MAX_DIM_TERMS
    return ANY if is_long or (isinstance(result, int) and abs(result) >= 1 << 63) else result
