"""Reads the text of a nest as `printer.py` writes it; raises RelayError `nest-syntax` otherwise.

Dtypes and lanes of expressions follow from their operands; `verify.py` checks what the grammar
cannot.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from relayvm.base.abi import TRAP_REASONS, Access
from relayvm.base.diagnostics import error
from relayvm.base.dtypes import BY_NAME, DType
from relayvm.base.source import Source, Span
from relayvm.kernels import loops as n
from relayvm.kernels.compute import INDEX_MODES
from relayvm.kernels.printer import INFIX
from relayvm.kernels.scalar_ops import SCALAR_OPS

_TOKEN = re.compile(
    r"-?(?:inf|nan|\d+(?:\.\d+)?(?:e[-+]?\d+)?)\b"
    r"|[A-Za-z_][A-Za-z0-9_.]*"
    r"|[][(){}@$:,=?<+*-]"
)
_OPERATOR = {sign: name for name, sign in INFIX.items()}
MAX_NESTING = 200
# As many as `elementwise.column_phase` walks down together.
_LANES = tuple(1 << k for k in range(11))

_Item = TypeVar("_Item")


def parse_nest(text: str, name: str = "<nest>") -> n.Nest:
    """Return the nest that `text` describes."""
    return _Parser(Source(name, text)).nest()


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source = source
        # At the end stands an empty word.
        self.words: list[str] = [*_TOKEN.findall(source.text), ""]
        self.at = 0
        self.depth = 0
        self.buffers: dict[str, n.Buffer] = {}
        self.tiles: dict[str, n.Tile] = {}
        self.variables: dict[str, n.Var] = {}
        self.dims: tuple[str, ...] = ()
        self._check_marks()

    def _check_marks(self) -> None:
        """Fail where a character belongs to no word."""
        text, position = self.source.text, 0
        if sum(map(len, self.words)) == sum(map(len, text.split())):
            return
        for match in _TOKEN.finditer(text):
            if text[position : match.start()].strip():
                break
            position = match.end()
        start = position + len(text[position:]) - len(text[position:].lstrip())
        span = Span(self.source, start, start + 1)
        raise error("nest-syntax", f"`{text[start]}` cannot stand in a nest", span)

    def fail(self, expected: str) -> NoReturn:
        end = len(self.source.text.rstrip())
        places = [match.span() for match in _TOKEN.finditer(self.source.text)]
        word, (begin, end) = self.words[self.at], [*places, (end, end)][self.at]
        found = f"`{word}`" if word else "the end"
        span = Span(self.source, begin, max(end, begin + 1))
        raise error("nest-syntax", f"expected {expected}, found {found}", span)

    def peek(self) -> str:
        return self.words[self.at]

    def next(self) -> str:
        word = self.peek()
        self.at += 1 if word else 0
        return word

    def take(self, word: str) -> bool:
        if self.words[self.at] != word:
            return False
        self.at += 1
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if self.words[self.at] != word:
                self.fail(f"`{word}`")
            self.at += 1

    def name(self, what: str) -> str:
        word = self.peek()
        if not word or not (word[0].isalpha() or word[0] == "_"):
            self.fail(what)
        return self.next()

    def number(self, what: str = "a number") -> int:
        word = self.peek()
        if not _is_integer(word) or len(word) > 20:
            self.fail(what)
        return int(self.next())

    def lanes(self) -> int:
        at = self.at
        value = self.number("a number of lanes")
        if value not in _LANES:
            self.at = at
            self.fail("a power of two up to 1024")
        return value

    def choice(self, table: dict[str, _Item], what: str) -> _Item:
        if self.peek() not in table:
            self.fail(what)
        return table[self.next()]

    def dtype(self) -> DType:
        return self.choice(BY_NAME, "a dtype")

    def list(self, item: Callable[[], _Item], close: str) -> tuple[_Item, ...]:
        items: list[_Item] = []
        while not self.take(close):
            if items:
                self.expect(",")
            items.append(item())
        return tuple(items)

    # Structure --------------------------------------------------------------------------------

    def nest(self) -> n.Nest:
        self.expect("nest", "@")
        name = self.name("the name of the nest")
        self.expect("{")
        if self.take("dims"):
            self.dims = (self._dim_name(),)
            while self.take(","):
                self.dims += (self._dim_name(),)
        while self.peek() in n.ROLES:
            self._buffer()
        joined: tuple[n.Expr, ...] = ()
        if self.take("joined"):
            joined = (self.expr(),)
            while self.take(","):
                joined += (self.expr(),)
        phases = []
        while self.take("phase"):
            phases.append(self._phase())
        self.expect("}")
        if self.peek():
            self.fail("the end of the nest")
        buffers = self.buffers.values()
        operands = tuple(b for b in buffers if b.role in ("input", "output"))
        scratch = tuple(b for b in buffers if b.role == "scratch")
        private = tuple(b for b in buffers if b.role == "private")
        return n.Nest(name, self.dims, operands, scratch, tuple(phases), private, joined)

    def _dim_name(self) -> str:
        self.expect("$")
        return self.name("a dim")

    def _buffer(self) -> None:
        role, name = self.next(), self.name("a buffer")
        if name in self.buffers:
            self.at -= 1
            self.fail("a new name")
        self.expect(":")
        dtype = self.dtype()
        self.expect("[")
        shape = self.list(self.expr, "]")
        access = {"strided": Access.STRIDED, "scalar": Access.SCALAR}.get(self.peek(), Access.DENSE)
        self.at += access is not Access.DENSE
        self.buffers[name] = n.Buffer(name, dtype, shape, role, access)

    def _phase(self) -> n.Phase:
        var = self._variable()
        self.expect("<")
        extent = self.expr()
        chain = self.expr() if self.take("chain") else n.const(1)
        return n.Phase(var, extent, self._block(), chain)

    def _variable(self) -> n.Var:
        var = n.Var(self.name("a variable"))
        self.variables[var.name] = var
        return var

    def _block(self) -> tuple[n.Stmt, ...]:
        self.expect("{")
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail("less nesting")
        body = []
        while not self.take("}"):
            body.append(self._stmt())
        self.depth -= 1
        return tuple(body)

    def _stmt(self) -> n.Stmt:
        word = self.peek()
        if word in ("for", "unroll"):
            return self._for(self.next())
        if self.take("if"):
            condition = self.expr()
            then = self._block()
            return n.If(condition, then, self._block() if self.take("else") else ())
        if self.take("let"):
            name = self.name("a variable")
            self.expect("=")
            value = self.expr()
            var = n.Var(name, value.dtype, value.lanes)
            self.variables[name] = var
            return n.Let(var, value)
        if self.take("tile"):
            return self._tile()
        if self.take("prefetch"):
            return self._prefetch()
        return self._store()

    def _prefetch(self) -> n.Prefetch:
        buffer = self.choice(self.buffers, "a buffer")
        self.expect("[")
        return n.Prefetch(buffer, tuple(self.list(self.expr, "]")))

    def _for(self, word: str) -> n.For:
        var = self._variable()
        self.expect("=")
        begin = self.expr()
        self.expect("to")
        end = self.expr()
        step = self.number() if self.take("step") else 1
        kind = "unroll" if word == "unroll" else "serial"
        condition = self.expr() if self.take("while") else None
        return n.For(var, begin, end, step, self._block(), kind, condition)

    def _tile(self) -> n.Declare:
        name = self.name("a tile")
        self.expect(":")
        dtype = self.dtype()
        self.expect("x")
        lanes = self.lanes()
        self.expect("[")
        size = self.number()
        self.expect("]")
        self.tiles[name] = n.Tile(name, dtype, lanes, size)
        return n.Declare(self.tiles[name])

    def _store(self) -> n.Stmt:
        name = self.peek()
        if name in self.tiles:
            tile = self.tiles[self.next()]
            self.expect("[")
            index = self.expr()
            self.expect("]", "=")
            return n.TileStore(tile, index, self.expr())
        buffer = self.choice(self.buffers, "a statement")
        self.expect("[")
        indices = self.list(self.expr, "]")
        mask = self.expr() if self.take("?") else None
        self.expect("=")
        return n.Store(buffer, indices, self.expr(), mask)

    # Expressions ------------------------------------------------------------------------------

    def expr(self) -> n.Expr:
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail("less nesting")
        try:
            return self._expr()
        finally:
            self.depth -= 1

    def _expr(self) -> n.Expr:
        word = self.peek()
        if _is_integer(word):
            return n.const(self.number())
        if self.take("$"):
            at = self.at
            name = self.name("a dim")
            if name not in self.dims:
                self.at = at
                self.fail("a dim of the nest")
            return n.DimRef(name)
        if self.take("("):
            return self._infix()
        if word in self.variables:
            return self.variables[self.next()]
        if word in self.tiles:
            tile = self.tiles[self.next()]
            self.expect("[")
            index = self.expr()
            self.expect("]")
            return n.TileLoad(tile, index)
        if word in self.buffers:
            return self._load()
        if word in BY_NAME:
            return self._literal()
        if word in _FORMS:
            self.next()
            self.expect("(")
            result = _FORMS[word](self)
            self.expect(")")
            return result
        if word in SCALAR_OPS:
            return self._call()
        self.fail("an expression")

    def _infix(self) -> n.Expr:
        a = self.expr()
        name = self.choice(_OPERATOR, "`+`, `-` or `*`")
        b = self.expr()
        self.expect(")")
        return self._checked_call(name, (a, b))

    def _call(self) -> n.Expr:
        name = self.next()
        self.expect("(")
        return self._checked_call(name, self.list(self.expr, ")"))

    def _checked_call(self, name: str, args: tuple[n.Expr, ...]) -> n.Expr:
        row = SCALAR_OPS[name]
        same = all(a.dtype is args[0].dtype and a.lanes == args[0].lanes for a in args)
        if len(args) != row.arity or not same or args[0].dtype not in row.dtypes:
            self.at -= 1
            self.fail(f"operands of one dtype and width that suit `{name}`")
        return n.Call(name, args, row.result(args[0].dtype), args[0].lanes)

    def _literal(self) -> n.Expr:
        dtype = self.dtype()
        self.expect("(")
        word = self.next()
        try:
            value = float(word) if dtype.is_real else int(word)
        except ValueError:
            self.at -= 1
            self.fail(f"a literal of {dtype}")
        if not dtype.is_real and not dtype.min <= value <= dtype.max:
            self.at -= 1
            self.fail(f"a literal of {dtype}")
        self.expect(")")
        return n.const(value, dtype)

    def _load(self) -> n.Load:
        buffer = self.buffers[self.next()]
        self.expect("[")
        indices = self.list(self.expr, "]")
        lanes = self.lanes() if self.take(":") else 1
        return n.Load(buffer, indices, lanes, self.expr() if self.take("?") else None)

    def cast(self) -> n.Expr:
        dtype = self.dtype()
        self.expect(",")
        value = self.expr()
        return n.Cast(value, dtype, value.lanes)

    def select(self) -> n.Expr:
        condition = self.expr()
        self.expect(",")
        a = self.expr()
        self.expect(",")
        b = self.expr()
        return n.Select(condition, a, b, a.dtype, a.lanes)

    def broadcast(self) -> n.Expr:
        value = self.expr()
        self.expect(",")
        return n.Broadcast(value, self.lanes(), value.dtype)

    def ramp(self) -> n.Expr:
        base = self.expr()
        self.expect(",")
        stride = self.expr()
        self.expect(",")
        return n.Ramp(base, stride, self.lanes())

    def mask(self) -> n.Expr:
        count = self.expr()
        self.expect(",")
        return n.Mask(count, self.lanes())

    def index(self) -> n.Expr:
        mode = self.choice({m: m for m in INDEX_MODES}, "an index mode")
        self.expect(",")
        value = self.expr()
        self.expect(",")
        extent = self.expr()
        if self.peek() != ",":
            return n.Index(value, extent, mode)
        self.expect(",")
        reason = self.choice({r: r for r in TRAP_REASONS}, "a reason of a trap")
        self.expect(",")
        first = self.expr()
        self.expect(",")
        return n.Index(value, extent, mode, reason, (first, self.expr()))

    def gather(self) -> n.Expr:
        if self.peek() not in self.buffers:
            self.fail("a buffer")
        load = self._load()
        return n.Gather(load.buffer, load.indices, load.lanes, load.mask)

    def apart(self) -> n.Expr:
        output = self.choice(self.buffers, "a buffer")
        self.expect(",")
        return n.Apart(output, self.choice(self.buffers, "a buffer"))

    def tree(self) -> n.Expr:
        op = self.choice({o: o for o in n.TREE_OPS}, "an operator of a tree")
        vectors = []
        while self.take(","):
            vectors.append(self.expr())
        if not vectors:
            self.fail("a vector")
        return n.tree(op, *vectors)

    def dot(self) -> n.Expr:
        acc = self.expr()
        self.expect(",")
        a = self.expr()
        self.expect(",")
        return n.Dot(acc, a, self.expr(), acc.lanes)

    def lane(self) -> n.Expr:
        vector = self.expr()
        self.expect(",")
        return n.lane(vector, self.number())

    def shuffle(self) -> n.Expr:
        a = self.expr()
        self.expect(",")
        b = self.expr()
        picks = []
        while self.take(","):
            picks.append(self.number("the number of a lane"))
        if len(picks) not in _LANES[1:]:
            self.fail("a power of two of lanes, up to 1024")
        return n.shuffle(a, b, picks)


def _is_integer(word: str) -> bool:
    return word.isdecimal() or (word[:1] == "-" and word[1:].isdecimal())


_FORMS: dict[str, Callable[[_Parser], n.Expr]] = {
    "cast": _Parser.cast,
    "select": _Parser.select,
    "broadcast": _Parser.broadcast,
    "ramp": _Parser.ramp,
    "mask": _Parser.mask,
    "index": _Parser.index,
    "gather": _Parser.gather,
    "apart": _Parser.apart,
    "tree": _Parser.tree,
    "dot": _Parser.dot,
    "lane": _Parser.lane,
    "shuffle": _Parser.shuffle,
}
