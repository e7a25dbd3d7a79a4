"""Text to tokens, and the cursor with which the parser walks them. Knows no grammar beyond single
tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NoReturn

from relayvm.base.diagnostics import Diagnostic, DiagnosticSink, Note
from relayvm.base.source import Source, Span
from relayvm.ir.literal import LiteralError, read_string, write_string

KEYWORDS = frozenset(
    [
        "let",
        "fn",
        "def",
        "if",
        "else",
        "type",
        "match",
        "match?",
        "extern",
        "free_var",
        "ref",
        "ref_read",
        "ref_write",
        "True",
        "False",
    ]
)
DEFINITION_STARTS = frozenset(("def", "type", "extern", "metadata", "eof"))

_WORD = r"[A-Za-z_](?:[A-Za-z0-9_]|/(?=[A-Za-z0-9_]))*"
_NAME = r"(?:[A-Za-z_]|/(?=[A-Za-z0-9_]))(?:[A-Za-z0-9_]|/(?=[A-Za-z0-9_]))*"
_SUFFIX = r"(?:f[0-9]e[0-9]m[0-9][a-z]*|(?:bf|[fiu])[0-9]*)?"
_TOKEN = re.compile(
    rf"""[ \t\r\n]*(?:
      (?P<local>%{_NAME})
    | (?P<ident>match\?|{_WORD}(?:\.{_WORD})*)
    | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?{_SUFFIX}(?![A-Za-z0-9_]))
    | (?P<slashes>//)
    | (?P<open_comment>/\*)
    | (?P<graph>%[0-9]+(?![A-Za-z0-9_]))
    | (?P<field>\.[0-9]+)
    | (?P<punctuation>->|=>|==|!=|<=|>=|[()\[\]{{}},;:=<>+*/\-?%.])
    | (?P<global>@{_NAME})
    | (?P<quoted>@?`(?:[^`\\\n]|\\[^\n])*`)
    | (?P<bad_number>[0-9][A-Za-z0-9_]*)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
    | (?P<bad_string>"[^\n]*)
    | (?P<version>\#\[\s*version\s*=\s*"[^"\n]*"\s*\])
    | (?P<module_attrs>\#\[\s*attrs\s*\()
    | (?P<metadata>\#\[\s*metadata\s*\])
    | (?P<end>\Z)
    | (?P<strange>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_GLOBAL = re.compile(_NAME)
_PLAIN_WORD = re.compile(_WORD)
_STRANGE = re.compile(r"[^\x00-\x7f]*")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_BEFORE_DIVISION = frozenset(("ident", "number", ")", "?"))


class SyntaxAbort(Exception):
    """A reported syntax error: the parser unwinds to a place from which it can go on."""


class Tokens:
    """The tokens of a source as three parallel lists: kind, text, first offset.

    The kind of keywords and punctuation is their own text; what is no token has kind `bad` and is
    already reported. The last token has kind `eof`.
    """

    __slots__ = ("begins", "kinds", "metadata", "source", "texts")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.begins: list[int] = []
        self.metadata = ""

    def add(self, kind: str, text: str, begin: int) -> None:
        self.kinds.append(kind)
        self.texts.append(text)
        self.begins.append(begin)


def tokenize(source: Source, sink: DiagnosticSink) -> Tokens:
    """Return the tokens of `source`; what is no token is reported to `sink`.

    `//` begins a comment, except after a value inside the dims of a `Tensor`, where it divides.
    """
    tokens = Tokens(source)
    add_kind, add_text, add_begin = tokens.kinds.append, tokens.texts.append, tokens.begins.append
    text, position, match = source.text, 0, _TOKEN.match
    shape_depth = 0
    while True:
        found = match(text, position)
        assert found is not None
        kind = found.lastgroup
        assert kind is not None
        word, begin, position = found[kind], found.start(kind), found.end()
        if kind == "punctuation":
            kind = word
            if shape_depth or word == "(":
                shape_depth = _shape_depth(tokens, word, shape_depth)
        elif kind == "ident":
            if word in KEYWORDS:
                kind = word
        elif kind in _SPECIAL:
            if kind == "end":
                break
            if kind == "slashes" and shape_depth and tokens.kinds[-1] in _BEFORE_DIVISION:
                kind = "//"
            elif kind == "metadata":
                tokens.metadata = text[position:]
                break
            elif kind == "quoted":
                kind, word = _quoted_name(source, word, begin, sink)
            else:
                position = _skip(source, kind, begin, position, sink)
                if kind in ("slashes", "open_comment"):
                    continue
                # The parser tells what is wrong with a number, as it knows what it is for.
                kind = "number" if kind == "bad_number" else "bad"
                word = text[begin:position]
        add_kind(kind)
        add_text(word)
        add_begin(begin)
    if kind == "metadata":
        tokens.add(kind, word, begin)
    tokens.add("eof", "", begin)
    return tokens


# Kinds of which not every match is a token as it stands.
_SPECIAL = frozenset(
    ("slashes", "open_comment", "quoted", "bad_number", "bad_string", "metadata", "end", "strange")
)


def _shape_depth(tokens: Tokens, word: str, depth: int) -> int:
    """Return how many parentheses deep what follows `word` is inside the dims of a
    `Tensor[(...)`.
    """
    if word == "(":
        begins = tokens.kinds[-1:] == ["["] and tokens.texts[-2:-1] == ["Tensor"]
        return depth + 1 if depth or begins else 0
    if word == ")":
        return depth - 1
    return 0 if word in ("{", "}", ";") else depth


def write_name(name: str, mark: str = "") -> str:
    """Return the name of a function (`mark` is `@`), data type or constructor as it is written."""
    plain = _PLAIN_GLOBAL if mark else _PLAIN_WORD
    if plain.fullmatch(name) and (mark or name not in KEYWORDS):
        return mark + name
    inside = write_string(name)[1:-1].replace("`", "\\u{60}")
    return f"{mark}`{inside}`"


def _quoted_name(source: Source, word: str, begin: int, sink: DiagnosticSink) -> tuple[str, str]:
    """Return kind and text of a name in backquotes: those of the same name without."""
    mark = "@" if word[0] == "@" else ""
    try:
        return "global" if mark else "ident", mark + read_string(word[len(mark) :])
    except LiteralError as failure:
        sink.add(Diagnostic("bad-literal", str(failure), Span(source, begin, begin + len(word))))
        return "bad", word


def _skip(source: Source, kind: str, begin: int, end: int, sink: DiagnosticSink) -> int:
    """Return where to go on after a comment or what is no token, which is reported."""
    text = source.text
    if kind == "slashes":
        end = text.find("\n", end)
        return len(text) if end < 0 else end
    if kind == "open_comment":
        return _skip_comment(source, begin, sink)
    span = Span(source, begin, end)
    if kind == "bad_string":
        sink.add(Diagnostic("syntax", 'the string has no closing `"` on its line', span))
    elif kind == "strange":
        end = _STRANGE.match(text, end).end()  # type: ignore[union-attr]
        shown = text[begin : min(end, begin + 20)].encode("unicode_escape").decode()
        message = f"`{shown}` cannot begin a token"
        sink.add(Diagnostic("syntax", message, Span(source, begin, end)))
    return end


def _skip_comment(source: Source, begin: int, sink: DiagnosticSink) -> int:
    depth, position = 1, begin + 2
    while depth:
        edge = _COMMENT_EDGE.search(source.text, position)
        if edge is None:
            span = Span(source, begin, begin + 2)
            sink.add(Diagnostic("syntax", "the comment has no closing `*/`", span))
            return len(source.text)
        depth += 1 if edge.group() == "/*" else -1
        position = edge.end()
    return position


class Cursor:
    """A place in the tokens of one source, with the errors found so far."""

    def __init__(self, tokens: Tokens, sink: DiagnosticSink) -> None:
        self.source = tokens.source
        self.sink = sink
        self.tokens = tokens
        self.kinds = tokens.kinds
        self.texts = tokens.texts
        self.begins = tokens.begins
        self.index = 0
        # What could not be read at all, of which nothing stands in the tree; the tokenizer has
        # found some of it.
        self.unread = [d.span for d in sink.diagnostics if d.span is not None]
        self.faults = 0

    @property
    def kind(self) -> str:
        return self.kinds[self.index]

    @property
    def text(self) -> str:
        return self.texts[self.index]

    def next_kind(self) -> str:
        """Return the kind of the token after this one."""
        return self.kinds[min(self.index + 1, len(self.kinds) - 1)]

    def begin(self) -> int:
        """Return the offset at which the current token begins."""
        return self.begins[self.index]

    def span(self, index: int | None = None) -> Span:
        """Return the span of one token, by default the current one."""
        i = self.index if index is None else index
        return Span(self.source, self.begins[i], self.begins[i] + len(self.texts[i]))

    def span_from(self, begin: int) -> Span:
        """Return the span from an offset to the end of the token before the current one."""
        i = max(self.index - 1, 0)
        return Span(self.source, begin, max(begin, self.begins[i] + len(self.texts[i])))

    def advance(self) -> str:
        """Step over the current token and return its text; stays at the end."""
        text = self.texts[self.index]
        if self.index < len(self.kinds) - 1:
            self.index += 1
        return text

    def accept(self, kind: str) -> bool:
        """Step over the current token if it has this kind."""
        if self.kinds[self.index] != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str, *others: str, opened: int | None = None) -> str:
        """Step over a token of this kind and return its text; `others` could stand here as well.

        `opened` is the index of the token that this one closes.
        """
        if self.kinds[self.index] == kind:
            return self.advance()
        notes = (
            () if opened is None else (Note(f"`{self.texts[opened]}` is here", self.span(opened)),)
        )
        self.fail(_one_of((kind, *others)), notes)

    def fail(self, expected: str, notes: Iterable[Note] = (), help: str = "") -> NoReturn:
        """Report that something else was expected at the current token, and unwind."""
        found = self.kind
        if found == "bad":
            raise SyntaxAbort
        shown = "the end of the text" if found == "eof" else f"`{self.text[:40]}`"
        self.report(
            "syntax", f"expected {expected}, found {shown}", self.span(), notes=notes, help=help
        )
        raise SyntaxAbort

    def abort(self, code: str, message: str) -> NoReturn:
        """Report that nothing can be read from the current token on, and unwind."""
        self.report(code, message, self.span())
        self.unread.append(self.span())
        raise SyntaxAbort

    def report(
        self,
        code: str,
        message: str,
        span: Span | None,
        *,
        label: str = "",
        notes: Iterable[Note] = (),
        help: str | Callable[[], str] = "",
    ) -> None:
        """Keep an error and go on; a help that takes time to find is given as a function.

        Whoever goes on puts something in the place of what is wrong that gives no more errors.
        """
        self.faults += 1
        if code == "syntax" and span is not None:
            self.unread.append(span)
        if len(self.sink.diagnostics) < self.sink.limit:
            text = help if isinstance(help, str) else help()
            self.sink.add(Diagnostic(code, message, span, label, tuple(notes), text))


_KIND_NAMES = {
    "an operator": "an operator",
    "ident": "a name",
    "local": "a variable such as `%x`",
    "global": "a name such as `@f`",
    "string": "a string",
    "number": "a number",
    "eof": "the end of the text",
}


def _one_of(kinds: tuple[str, ...]) -> str:
    names = [_KIND_NAMES.get(kind, f"`{kind}`") for kind in kinds]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" or {names[-1]}"
