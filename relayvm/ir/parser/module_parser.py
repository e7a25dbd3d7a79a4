"""The part of the parser that reads definitions, in three rounds: names, data types, functions.

So a name may be used before its definition, and the kinds of type parameters are known where they
matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relayvm.base.diagnostics import DiagnosticSink, Note
from relayvm.base.source import Source, Span
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.ir.expr import NO_ATTRS, Attrs, Call, Constructor, Expr, Function, Op, Var
from relayvm.ir.lexer import KEYWORDS, SyntaxAbort, Tokens, tokenize
from relayvm.ir.metadata import Metadata, read_metadata
from relayvm.ir.module import Module, TypeData
from relayvm.ir.parser.attribute_parser import Written
from relayvm.ir.parser.expr_parser import ExprParser
from relayvm.ir.parser.library import merge_library, needs_of_module
from relayvm.ir.parser.type_parser import ParamEntry, TypeName
from relayvm.ir.types import GlobalTypeVar, Kind, Type, TypeVar

VERSION = "0.0.5"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What could be read of a module, and the errors of its text.

    What is `unread` is not there, and what it stands in may be incomplete or not there. All other
    errors are of names and the like: the variables `missing` stand for the expressions that have
    them, `POISON` and the like for types and parts of them. Of functions that are `unclear` no type
    is known, of such type parameters not what can be done with what they stand for, of such calls
    of operators not all attributes.
    """

    module: Module
    sink: DiagnosticSink
    missing: tuple[Var, ...]
    unread: tuple[Span, ...]
    unclear: frozenset[str]
    unclear_params: tuple[TypeVar, ...]
    unclear_calls: tuple[Call, ...]


def parse_module(
    source: Source | str, operators: Mapping[str, Op], library: Module | None = None
) -> Module:
    """Return the module that a text describes.

    Names that the text uses but does not define are taken from `library`, with all that they need.
    Raises RelayError with every independent error.
    """
    found = recover_module(source, operators, library)
    found.sink.raise_if_any()
    return found.module


def recover_module(
    source: Source | str, operators: Mapping[str, Op], library: Module | None = None
) -> Recovered:
    """Return what could be read of a module, and the errors of the text."""
    parser = _parser(source, operators, library)
    module = parser.module()
    unclear = set(parser.unclear_functions)
    if library is not None:
        module = _with_library(parser, module, library, unclear)
    missing, unread = tuple(parser.missing), tuple(parser.unread)
    params, calls = tuple(parser.unclear_params), tuple(parser.unclear_calls)
    return Recovered(module, parser.sink, missing, unread, frozenset(unclear), params, calls)


def _with_library(
    parser: ModuleParser, module: Module, library: Module, unclear: set[str]
) -> Module:
    """Return the module with what it uses of the library; functions of it that cannot work are
    `unclear`.
    """
    used = parser.used_library_functions, parser.used_library_types
    # Names that are taken twice are told once the text can be read.
    is_clean = not parser.sink.diagnostics
    conflicts = parser.sink if is_clean else DiagnosticSink(limit=0)
    if any(used):
        # What stands only in a `%0 = ...;` that nothing uses is no part of the module.
        needs = needs_of_module(module)
        used = used[0] & needs[0], used[1] & needs[1]
    return merge_library(module, library, *used, conflicts, unclear)


def parse_expr(
    source: Source | str, operators: Mapping[str, Op], library: Module | None = None
) -> Expr:
    """Return one expression, which may begin with `free_var %x: T;`.

    Without a library, global functions are left as they are named.
    """
    parser = _parser(source, operators, library)
    result = parser.single_expression()
    parser.sink.raise_if_any()
    return result


def parse_type(
    source: Source | str, library: Module | None = None, module: Module | None = None
) -> Type:
    """Return one type; data types are those of `module` and `library`."""
    known = module if library is None else library
    parser = _parser(source, {}, known)
    result = parser.single_type()
    parser.sink.raise_if_any()
    return result


def _parser(
    source: Source | str, operators: Mapping[str, Op], library: Module | None
) -> ModuleParser:
    if isinstance(source, str):
        source = Source("<string>", source)
    sink = DiagnosticSink()
    tokens = tokenize(source, sink)
    metadata = read_metadata(tokens.metadata, source.folder)
    parser = ModuleParser(tokens, sink, operators, library, metadata)
    if metadata.problem:
        place = tokens.kinds.index("metadata")
        message = f"the metadata section cannot be read: {metadata.problem}"
        parser.report("bad-metadata", message, parser.span(place))
    return parser


class ModuleParser(ExprParser):
    """Reads a whole text."""

    def __init__(
        self,
        tokens: Tokens,
        sink: DiagnosticSink,
        operators: Mapping[str, Op],
        library: Module | None,
        metadata: Metadata,
    ) -> None:
        super().__init__(tokens, sink, operators, library, metadata)
        self._function_tokens: dict[int, str] = {}
        self.unclear_functions: set[str] = set()
        self._repeated_types: list[TypeName] = []

    def module(self) -> Module:
        """Read all definitions."""
        self._version()
        attrs = self._module_attrs()
        start = self.index
        self._find_names()
        self._find_kinds()
        types = self._type_definitions()
        self.index = start
        functions: dict[str, Function] = {}
        while self.kind not in ("eof", "metadata"):
            try:
                trampoline(self._definition(functions))
            except SyntaxAbort:
                self._skip_to_definition()
        return Module(functions, types, attrs=attrs)

    def single_expression(self) -> Expr:
        """Read one expression up to the end of the text."""
        self._version()
        self.free_vars_allowed = True
        self.globals_open = self.library is None
        try:
            result: Expr = trampoline(self.sequence(""))
            if self.kind != "metadata":
                self.expect("eof", "an operator")
        except SyntaxAbort:
            return self.placeholder()
        return result

    def single_type(self) -> Type:
        """Read one type up to the end of the text, with names for its parts in front."""
        try:
            while self.kind == "type":
                self.type_abbreviation()
            result = self.whole_type()
            self.expect("eof")
        except SyntaxAbort:
            self.sink.raise_if_any()
            raise
        return result

    def _version(self) -> None:
        if self.kind != "version":
            return
        span = self.span()
        version = self.advance().split('"')[1]
        if version != VERSION:
            self.report(
                "unsupported-version",
                f"the text has version {version[:40]}, known is {VERSION}",
                span,
            )

    def _module_attrs(self) -> Attrs:
        """Read `#[attrs(name=value)]` if it is there."""
        if self.kind != "module_attrs":
            return NO_ATTRS
        opened = self.index
        self.advance()
        values: Written = {}
        try:
            while self.kind == "ident" or self.kind in KEYWORDS:
                self.attribute(values)
                if not self.accept(","):
                    break
            self.expect(")", ",", opened=opened)
            self.expect("]", opened=opened)
        except SyntaxAbort:
            self._skip_to_definition()
        return Attrs({name: value for name, (value, _, _) in values.items()})

    # --- round one: names ----------------------------------------------------------------

    def _find_names(self) -> None:
        """Note the names of all definitions and report those that are defined twice."""
        kinds = self.kinds
        for i in range(self.index, len(kinds) - 1):
            if kinds[i] == "def" and kinds[i + 1] == "global":
                self._note_function(i + 1)
            elif kinds[i] == "type" and kinds[i + 1] == "ident" and kinds[i + 2] == "=":
                continue
            elif kinds[i] == "type" and kinds[i + 1] == "ident" and kinds[i - 1] not in (",", "("):
                self._note_type(i, extern=i > 0 and kinds[i - 1] == "extern")

    def _note_function(self, token: int) -> None:
        name, span = self.texts[token][1:], self.span(token)
        if name in self.function_spans:
            self._duplicate(f"function `@{name}`", span, self.function_spans[name])
            self.unclear_functions.add(name)
            # Under no name that could be called its body is read and checked all the same.
            self._function_tokens[token] = f"{name} {token}"
            return
        self.function_spans[name] = span
        self._function_tokens[token] = name

    def _note_type(self, token: int, extern: bool) -> None:
        name, span = self.texts[token + 1], self.span(token + 1)
        if name in self.type_names:
            self._duplicate(f"type `{name}`", span, self.type_names[name].span)
            self.unclear_types.add(name)
            self._repeated_types.append(TypeName(name, span, [], token, extern))
            return
        self.may_name_a_type(name, span)
        self.type_names[name] = TypeName(name, span, [], token, extern)

    def _duplicate(self, what: str, span: Span, first: Span | None) -> None:
        notes = [Note("first defined here", first)] if first else []
        self.report("duplicate-name", f"{what} is defined twice", span, notes=notes)

    # --- round two: data types -----------------------------------------------------------

    def _find_kinds(self) -> None:
        """Read the data types once without keeping anything but the kinds of their parameters."""
        own = [*self.type_names.values(), *self._repeated_types]
        kept, self.sink = self.sink, DiagnosticSink(limit=0)
        for known in own:
            self.index = known.token + 2
            mark = self.type_scope.mark()
            try:
                known.params = trampoline(self.type_params())
            except SyntaxAbort:
                known.params = []
            self.type_scope.undo(mark)
        for known in own:
            self._read_kinds(known)
        self.sink = kept
        entries = [entry for known in own for entry in known.params]
        _spread_kinds(entries)
        for entry in entries:
            entry.kind = entry.kind or Kind.TYPE
            entry.made = None

    def _read_kinds(self, known: TypeName) -> None:
        self.index = known.token + 2
        mark = self.type_scope.mark()
        try:
            trampoline(self.type_params(known.params))
            for entry in known.params:
                self.type_scope.bind(entry.name, entry)
            trampoline(self._constructors(known))
        except SyntaxAbort:
            pass
        finally:
            self.type_scope.undo(mark)

    def _type_definitions(self) -> dict[str, TypeData]:
        types: dict[str, TypeData] = {}
        for known in [*self.type_names.values(), *self._repeated_types]:
            if known.name in self.used_library_types:
                continue
            self.index = known.token
            begin = self.begin()
            self.index += 2
            mark = self.type_scope.mark()
            constructors: list[Constructor] = []
            try:
                trampoline(self.type_params(known.params))
                for entry in known.params:
                    self.type_scope.bind(entry.name, entry)
                if known.extern and self.kind == "{":
                    self.fail(
                        "the end of the definition",
                        help="write `type`, not `extern type`, for a type with constructors",
                    )
                if not known.extern:
                    constructors = trampoline(self._constructors(known))
            except SyntaxAbort:
                self.advance()  # The definition holds the place of the error.
            finally:
                self.type_scope.undo(mark)
            params = tuple(entry.param() for entry in known.params)
            header = GlobalTypeVar(known.name, span=known.span)
            span = self.span_from(begin)
            data = TypeData(header, params, tuple(constructors), known.extern, span=span)
            types.setdefault(known.name, data)
            self._keep_constructors(constructors)
        return types

    def _keep_constructors(self, constructors: list[Constructor]) -> None:
        for constructor in constructors:
            first = self.constructors.get(constructor.name)
            if constructor.belong_to.name in self.unclear_types:
                self.unclear_constructors.add(constructor.name)
            elif first is not None and constructor.span is not None:
                what = f"constructor `{constructor.name}`"
                self._duplicate(what, constructor.span, first.span)
                self.unclear_constructors.add(constructor.name)
            self.constructors[constructor.name] = constructor

    def _constructors(self, known: TypeName) -> Recursive[Any]:
        opened = self.index
        self.expect("{", "[")
        constructors: list[Constructor] = []
        while self.kind != "}":
            span = self.span()
            name = self.expect("ident", "}")
            inputs: list[Type] = []
            if self.kind == "(":
                inner = self.index
                self.advance()
                while self.kind != ")":
                    inputs.append((yield self.type_()))
                    if not self.accept(","):
                        break
                self.expect(")", ",", opened=inner)
            header = GlobalTypeVar(known.name, span=known.span)
            index = len(constructors)
            constructors.append(Constructor(name, tuple(inputs), header, index, span=span))
            if not self.accept(","):
                break
        self.expect("}", ",", opened=opened)
        return constructors

    # --- round three: functions ----------------------------------------------------------

    def _definition(self, functions: dict[str, Function]) -> Recursive[Any]:
        begin = self.begin()
        if self.kind == "def":
            self.advance()
            token = self.index
            self.expect("global")
            self.scope.reset()
            function = yield self.function(begin)
            if token in self._function_tokens:
                functions[self._function_tokens[token]] = function
        elif self.kinds[self.index : self.index + 3] == ["type", "ident", "="]:
            self.type_abbreviation()
        elif self.kind in ("type", "extern"):
            self._skip_type_definition()
        elif self.kind == "version":
            self.fail("a definition", help="the version stands first")
        else:
            self.fail("`def`, `type` or `extern type`")

    def _skip_type_definition(self) -> None:
        """Step over a definition that round two has read."""
        extern = self.accept("extern")
        self.expect("type")
        self.expect("ident")
        if self.kind == "[":
            self._skip_brackets()
        if self.kind == "{":
            self._skip_brackets()
        elif not extern:
            self._skip_to_definition()
        else:
            self.accept(";")

    def _skip_brackets(self) -> None:
        depth = 0
        while self.kind not in ("def", "type", "extern", "eof", "metadata"):
            depth += self.kind in ("[", "{", "(")
            depth -= self.kind in ("]", "}", ")")
            self.advance()
            if not depth:
                return

    def _skip_to_definition(self) -> None:
        while self.kind not in ("def", "type", "extern", "eof", "metadata"):
            self.advance()


def _spread_kinds(entries: list[ParamEntry]) -> None:
    """Give parameters the kinds of those in whose place they are used."""
    users: dict[int, list[ParamEntry]] = {}
    for entry in entries:
        for other in entry.same_as:
            users.setdefault(id(other), []).append(entry)
    waiting = [entry for entry in entries if entry.kind is not None]
    waiting += [other for entry in entries for other in entry.same_as if other.kind is not None]
    while waiting:
        known = waiting.pop()
        for entry in users.get(id(known), ()):
            if entry.kind is None:
                entry.kind = known.kind
                waiting.append(entry)
