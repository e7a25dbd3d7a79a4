"""Lines, tokens and lists of assembly text, and how a place in it is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from relayvm.base.diagnostics import error
from relayvm.base.source import Source, Span

TOKEN = re.compile(
    r'(?P<space>[ \t]+)|(?P<comment>;.*)|(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<bytes>x(?:[0-9a-f]{2})*(?!\w))|(?P<name>[A-Za-z_]\w*)|(?P<number>-?[0-9]+)"
    r"|(?P<mark>->|==|//|\.\.\.|[(){},:+*%?])"
)
WORD_LIMIT = 1 << 16

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the text: what it is, its characters, its place."""

    kind: str
    text: str
    begin: int


class TextReader:
    """Reads line by line: a line is a statement; `{` opens a block that a line `}` ends."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.lines = source.text.split("\n")
        self.number = -1
        self.tokens: list[Token] = []
        self.at = 0

    def next_line(self) -> bool:
        """Go to the next line; False at the end of the text."""
        self.number += 1
        return self.number < len(self.lines)

    def line_begin(self) -> int:
        """Return the offset at which the line begins."""
        return self.source.line_starts[min(self.number, len(self.lines) - 1)]

    def scan(self) -> None:
        """Split the line into tokens."""
        line, begin, at = self.lines[self.number], self.line_begin(), 0
        self.tokens, self.at = [], 0
        while at < len(line):
            match = TOKEN.match(line, at)
            if match is None:
                self.fail(f"{line[at]!r} cannot stand here", begin + at, begin + at + 1)
            if match.lastgroup not in ("space", "comment"):
                self.tokens.append(Token(str(match.lastgroup), match.group(), begin + at))
            at = match.end()
        self.tokens.append(Token("end", "", begin + len(line)))

    def fail(self, message: str, begin: int, end: int) -> NoReturn:
        """Refuse a range of the text."""
        raise error("bad-assembly", message, Span(self.source, begin, max(end, begin + 1)))

    def refuse(self, message: str, token: Token | None = None) -> NoReturn:
        """Refuse a token, by default the next."""
        token = token or self.tokens[self.at]
        self.fail(message, token.begin, token.begin + len(token.text))

    def take(self, kind: str, what: str = "") -> Token:
        """Return the next token, which must be of this kind."""
        token = self.tokens[self.at]
        if token.kind != kind:
            self.refuse(f"{what or kind} expected, not `{token.text or 'the end of the line'}`")
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        """Go past the next token if it is this mark or name."""
        token = self.tokens[self.at]
        if token.kind in ("mark", "name") and token.text == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Go past the next token, which must be this mark or name."""
        if not self.accept(text):
            self.refuse(f"`{text}` expected")

    def end(self) -> None:
        """Refuse anything more on the line."""
        if self.tokens[self.at].kind != "end":
            self.refuse("the line should end here")

    def choose(self, choices: dict[str, Callable[[], None]]) -> Callable[[], None]:
        """Return what the next name chooses."""
        token = self.take("name", "a statement")
        if token.text not in choices:
            self.refuse(f"`{token.text}` is none of {', '.join(choices)}", token)
        return choices[token.text]

    def number_below(self, limit: int, least: int = 0) -> int:
        """Return the next number n, `least <= n < limit`."""
        token = self.take("number", "a number")
        if len(token.text) > 24 or not least <= int(token.text) < limit:
            self.refuse(f"a number n with {least} <= n < {limit} expected", token)
        return int(token.text)

    def string(self) -> str:
        """Return the next text in quotes."""
        token = self.take("string", "a text in quotes")
        try:
            text = json.loads(token.text)
        except ValueError:
            self.refuse("this text has an escape that does not exist", token)
        if "\0" in text or not is_encodable(text):
            self.refuse("this text cannot be stored", token)
        return str(text)

    def index(self, mark: str, limit: int = WORD_LIMIT) -> int:
        """Return n of the next name, such as `f12` for the mark `f`."""
        token = self.take("name", f"`{mark}` with a number")
        digits = token.text[1:]
        if token.text[0] != mark or not re.fullmatch("[0-9]{1,5}", digits) or int(digits) >= limit:
            self.refuse(f"`{mark}` with a number below {limit} expected", token)
        return int(digits)

    def numbered(self, mark: str, table: Sequence[object]) -> None:
        """Read the number of a definition, which must be the next of its table."""
        token = self.tokens[self.at]
        if self.index(mark) != len(table):
            self.refuse(f"`{mark}{len(table)}` comes next", token)

    def list_of(self, item: Callable[[], T]) -> list[T]:
        """Return items in parentheses."""
        self.expect("(")
        items: list[T] = []
        if self.accept(")"):
            return items
        items.append(item())
        while self.accept(","):
            items.append(item())
        self.expect(")")
        return items

    def name_of(self, names: Iterable[str]) -> str:
        """Return the next name, which must be one of `names`."""
        token = self.take("name", "a name")
        if token.text not in names:
            self.refuse(f"`{token.text}` is none of {', '.join(names)}", token)
        return token.text

    def letters(self, allowed: str) -> str:
        """Return a list of classes of registers as one string."""

        def letter() -> str:
            token = self.take("name", "a class of registers")
            if len(token.text) != 1 or token.text not in allowed:
                self.refuse(f"a class of {', '.join(allowed)} expected", token)
            return token.text

        return "".join(self.list_of(letter))

    def block(self) -> Iterator[str]:
        """Yield the lines of a block, scanned, or unscanned if they begin with a bar."""
        self.expect("{")
        self.end()
        opened = self.number
        while self.next_line():
            line = self.lines[self.number]
            if line.strip() == "}":
                self.scan()
                self.at = 1
                return
            if not line.lstrip().startswith("|"):
                self.scan()
                if self.tokens[0].kind == "end":
                    continue
            yield line
        begin = self.source.line_starts[opened]
        self.fail("this block is not closed", begin, begin + len(self.lines[opened]))

    def bar_text(self, line: str) -> str:
        """Return what stands behind the bar of a line."""
        text = line.lstrip()[1:].removeprefix(" ")
        if "\0" in text or not is_encodable(text):
            begin = self.line_begin()
            self.fail("this text cannot be stored", begin, begin + len(line))
        return text


def is_encodable(text: str) -> bool:
    """Tell whether a text has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
