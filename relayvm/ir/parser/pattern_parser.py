"""The part of the parser that reads binders and patterns, and finds constructors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from relayvm.base.diagnostics import DiagnosticSink, Note, quantity
from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive
from relayvm.ir.expr import (
    Call,
    Constructor,
    Expr,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    Var,
)
from relayvm.ir.lexer import Tokens
from relayvm.ir.metadata import Metadata
from relayvm.ir.module import Module
from relayvm.ir.parser.attribute_parser import AttributeParser
from relayvm.ir.parser.type_parser import Scope
from relayvm.ir.types import Type


class PatternParser(AttributeParser):
    """Reads patterns; the constructors of the module are filled in by the parser of definitions."""

    def __init__(
        self, tokens: Tokens, sink: DiagnosticSink, library: Module | None, metadata: Metadata
    ) -> None:
        super().__init__(tokens, sink, library, metadata)
        self.scope: Scope[Expr] = Scope()
        self.missing: dict[Var, None] = {}
        self.constructors: dict[str, Constructor] = {}
        self.unclear_constructors: set[str] = set()
        self.unclear_calls: list[Call] = []
        self._from_library: dict[str, Constructor] | None = None

    def binder(self) -> Recursive[Any]:
        """Read `%x` or `%x: T` as a new variable."""
        span = self.span()
        name = self.expect("local")[1:]
        if self.kind == "{":
            self._skip_device()
        annotation: Type | None = None
        if self.accept(":"):
            annotation = self.leaf_type() or (yield self.type_())
        return Var(name, annotation, span=span)

    def _skip_device(self) -> None:
        """Step over `{virtual_device=...}` of texts from TVM, which means nothing here."""
        opened = self.index
        self.advance()
        if self.text != "virtual_device":
            self.fail("`virtual_device`")
        while self.kind not in ("}", "{", ";", "eof", "metadata"):
            self.advance()
        self.expect("}", opened=opened)

    def placeholder(self, name: str = "_", span: Span | None = None) -> Var:
        """Return what stands for an expression that could not be read."""
        missing = Var(name, span=span or self.span())
        self.missing[missing] = None
        return missing

    def bind_variables(self, variables: Iterable[Var], what: str) -> None:
        """Bring new variables into scope; of a name that is given twice nothing is known."""
        first: dict[str, Var] = {}
        for var in variables:
            self.scope.bind(var.name, var)
            if var.name != "_" and var.name in first:
                old = first[var.name].span
                self.report(
                    "duplicate-name",
                    f"{what} `%{var.name}` is named twice",
                    var.span,
                    notes=[Note("first named here", old)] if old else [],
                )
                self.scope.bind(var.name, self.placeholder(var.name, var.span))
            first.setdefault(var.name, var)

    def constructor(self, name: str) -> Constructor | None:
        """Return the constructor of this name: the module's own, else the library's, which is
        noted as used.
        """
        found = self.constructors.get(name) or self.library_constructors().get(name)
        if found is not None and name not in self.constructors:
            self.type_name(found.belong_to.name)
        return found

    def library_constructors(self) -> Mapping[str, Constructor]:
        if self._from_library is None:
            own = self.type_names.keys() - self.used_library_types
            types = self.library.types if self.library else {}
            self._from_library = {
                c.name: c
                for name, data in types.items()
                if name not in own
                for c in data.constructors
            }
        return self._from_library

    def pattern(self, bound: list[Var]) -> Recursive[Any]:
        """Read a pattern; the variables that it binds are added to `bound`."""
        begin, kind = self.begin(), self.kind
        if kind == "local":
            var = yield self.binder()
            bound.append(var)
            return PatternVar(var, span=self.span_from(begin))
        if kind == "(":
            patterns = yield self._patterns(bound)
            return PatternTuple(patterns, span=self.span_from(begin))
        if kind != "ident":
            self.fail("a pattern")
        if self.text == "_":
            self.advance()
            return PatternWildcard(span=self.span_from(begin))
        return (yield self._constructor_pattern(bound, begin))

    def _patterns(self, bound: list[Var]) -> Recursive[Any]:
        opened = self.index
        self.advance()
        patterns: list[Pattern] = []
        while self.kind != ")":
            patterns.append((yield self.pattern(bound)))
            if not self.accept(","):
                break
        self.expect(")", ",", opened=opened)
        return tuple(patterns)

    def _constructor_pattern(self, bound: list[Var], begin: int) -> Recursive[Any]:
        span = self.span()
        name = self.advance()
        constructor = self.constructor(name)
        patterns: tuple[Pattern, ...] = ()
        first = len(bound)
        if self.kind == "(":
            patterns = yield self._patterns(bound)
        whole = self.span_from(begin)
        if constructor is not None and len(patterns) == len(constructor.inputs):
            if name not in self.unclear_constructors:
                return PatternConstructor(constructor, patterns, span=whole)
        elif constructor is None:
            known = chain(self.constructors, self.library_constructors())
            self.report(
                "unknown-constructor",
                f"there is no constructor `{name}`",
                span,
                help=lambda: self.suggestion(name, known),
            )
        elif name not in self.unclear_constructors:
            self.report(
                "wrong-arity",
                f"constructor `{name}` has {quantity(len(constructor.inputs), 'field')}, "
                f"but the pattern has {len(patterns)}",
                whole,
                notes=[Note(f"`{name}` is defined here", constructor.span)],
            )
        self.missing.update(dict.fromkeys(bound[first:]))
        return PatternWildcard(span=whole)
