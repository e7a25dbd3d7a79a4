"""Random texts for the parser: damaged programs, words and characters in no order, and programs
from the grammar, right ones and wrong ones.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from tests.ir.programs import PROGRAMS

PIECES = re.compile(r"\s+|[%@]?[\w./]+|->|=>|[=!<>]=|.", re.DOTALL)
TEXTS = [PIECES.findall(text) for text in PROGRAMS.values()]
WORDS = sorted({piece for text in TEXTS for piece in text}) + [
    "\0", "\\", '"', "/*", "*/", "#[metadata]", "é", "%", "@", "meta", "1e999f", "free_var ", "[",
    "#[attrs(", "#[", "meta[relay.Constant][0]", "meta[tir.Any][0]", '{"a": 1}', "ShapeVar",
]  # fmt: skip


def mutate(rng: random.Random) -> str:
    """Return a program with a few pieces dropped, doubled, exchanged or replaced."""
    pieces = list(rng.choice(TEXTS))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(pieces))
        match rng.randrange(6):
            case 0:
                del pieces[at : at + rng.choice((1, 1, 2, 5))]
            case 1:
                pieces[at:at] = pieces[at : at + rng.randrange(1, 12)]
            case 2:
                pieces[at] = rng.choice(WORDS)
            case 3:
                pieces.insert(at, rng.choice(WORDS))
            case 4:
                other = rng.randrange(len(pieces))
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case 5:
                donor = rng.choice(TEXTS)
                start = rng.randrange(len(donor))
                pieces[at:at] = donor[start : start + rng.randrange(1, 30)]
        if not pieces:
            pieces = [" "]
    return "".join(pieces)


def soup(rng: random.Random) -> str:
    """Return words of the language in no order."""
    return "".join(rng.choice(WORDS) + rng.choice(("", " ")) for _ in range(rng.randrange(60)))


def noise(rng: random.Random) -> str:
    """Return characters in no order."""
    return "".join(chr(rng.choice((rng.randrange(128), rng.randrange(0x2FF)))) for _ in range(80))


def damage(rng: random.Random) -> str:
    """Return a program with a few of its bytes changed, read as a tool would that does not stop at
    bytes that are no UTF-8.
    """
    content = bytearray(rng.choice(list(PROGRAMS.values())).encode())
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(content))
        match rng.randrange(4):
            case 0:
                content[at] ^= 1 << rng.randrange(8)
            case 1:
                content[at] = rng.randrange(256)
            case 2:
                del content[at : at + rng.choice((1, 1, 3, 20))]
            case 3:
                content[at:at] = bytes([rng.choice(b'()[]{},;:="%@/*-.0f\n\\#')])
        content = content or bytearray(b" ")
    return content.decode("utf-8", rng.choice(("replace", "ignore", "surrogateescape")))


def grammatical(rng: random.Random) -> str:
    """Return a program from the grammar, with a few mistakes in most."""
    return Grammar(rng, rng.choice((0, 0, 0.002, 0.01, 0.05))).module()


def repetitive(rng: random.Random) -> str:
    """Return a few words of the language many times over, as what costs too much would show in."""
    unit = [rng.choice(WORDS) + rng.choice(("", " ")) for _ in range(rng.randrange(1, 6))]
    before = rng.choice(("", "def @main(%x: int32) { ", "def @main(", "type T { C(", "def @m(a="))
    after = rng.choice(("", "".join(rng.choice(WORDS) for _ in range(rng.randrange(3)))))
    count = max(1, 6000 // len("".join(unit)))
    if rng.random() < 0.5:
        return before + "".join(unit) * count + after
    # Numbered names keep errors apart that are the same otherwise.
    many = "".join("".join(unit).replace("x", f"x{i}").replace("f", f"f{i}") for i in range(count))
    return before + many + after


GENERATORS: dict[str, Callable[[random.Random], str]] = {
    make.__name__: make for make in (mutate, soup, noise, damage, grammatical, repetitive)
}


class Grammar:
    """Writes text by the rules of `relayvm/ir/grammar.md`; `wrong` is how often a word is another.

    Names are mostly those that are in scope, so that many programs are right.
    """

    def __init__(self, rng: random.Random, wrong: float) -> None:
        self.rng = rng
        self.wrong = wrong
        self.locals: list[str] = []
        self.types: list[str] = []
        self.dims: list[str] = []
        self.graphs = 0

    def t(self, *words: str) -> str:
        """Return words, each with the chance of a mistake."""
        return "".join(rng_word(self.rng) if self.wrong_now() else w for w in words)

    def wrong_now(self) -> bool:
        return self.wrong > 0 and self.rng.random() < self.wrong

    def list(self, make: Callable[[], str], most: int = 3, least: int = 0) -> str:
        items = [make() for _ in range(self.rng.randint(least, most))]
        end = self.t(",") if items and self.rng.random() < 0.1 else ""
        return self.t(", ").join(items) + end

    # --- modules -------------------------------------------------------------------------

    def module(self) -> str:
        rng = self.rng
        parts = ['#[version = "0.0.5"]\n'] if rng.random() < 0.2 else []
        if rng.random() < 0.2:
            parts.append(self.t("#[attrs(") + self.attributes() + self.t(")", "]\n"))
        rest = [self.definition(name) for name in ("main", "f", "nn/h")]
        rest += [self.data("T", "CDE"), self.data("U", "GHI")] if rng.random() < 0.9 else []
        rest += [self.t("extern ", "type ", "V", rng.choice(("", ";")))]
        rng.shuffle(rest)
        row = '{"dtype": "float32", "shape": [1], "data": "AACAPw=="}'
        section = self.t("#[metadata]", '\n{"relay.Constant": [') + self.t(row, "]", "}")
        return "\n".join([*parts, *rest, section])

    def definition(self, name: str) -> str:
        return self.t("def ", f"@{name}") + self.function()

    def data(self, name: str, constructors: str) -> str:
        self.types = ["A"]
        rows = []
        for i, constructor in enumerate(constructors):
            fields = self.t("(") + self.list(self.type, i, i) + self.t(")") if i else ""
            rows.append(self.t(constructor) + fields)
        self.types = []
        return self.t("type ", name, "[A]", " { ") + self.t(", ").join(rows) + self.t(" }")

    def params(self) -> str:
        """Write type parameters; the caller ends their scope."""
        if self.rng.random() < 0.6:
            return ""
        made = []
        for name in self.rng.sample("ABnm", self.rng.randint(1, 3)):
            is_dim = name in "nm"
            (self.dims if is_dim else self.types).append(name)
            made.append(
                self.t(name, self.rng.choice((": ShapeVar",) if is_dim else ("", ": Type")))
            )
        return self.t("[") + self.t(", ").join(made) + self.t("]")

    def function(self, depth: int = 4) -> str:
        old, types, dims = len(self.locals), len(self.types), len(self.dims)
        text = self.params() + self.t("(")
        names = self.rng.sample(("x", "y", "z", "a/b"), self.rng.randint(0, 3))
        text += self.t(", ").join(self.binder(name) for name in names)
        if self.rng.random() < 0.2:
            text += (self.t(", ") if names else "") + self.attributes()
        text += self.t(")")
        if self.rng.random() < 0.5:
            text += self.t(" -> ") + self.type()
        text += self.block(depth)
        del self.locals[old:], self.types[types:], self.dims[dims:]
        return text

    # --- types ---------------------------------------------------------------------------

    def type(self, depth: int = 3) -> str:
        rng = self.rng
        kind = rng.randrange(9 if depth else 4)
        inner = lambda: self.type(depth - 1)  # noqa: E731
        if kind < 2:
            return self.t(rng.choice(("int32", "float32", "bool", "float16", "uint8", "_")))
        if kind < 4:
            return (
                self.t("Tensor", "[", "(") + self.list(self.dim) + self.t(")", ", ", "float32", "]")
            )
        if kind == 4:
            return self.t("(") + self.list(inner) + self.t(")")
        if kind == 5:
            types, dims = len(self.types), len(self.dims)
            text = self.t("fn ") + self.params() + self.t("(") + self.list(inner)
            text += self.t(")", " -> ") + inner()
            del self.types[types:], self.dims[dims:]
            return text
        if kind == 6:
            return self.t("ref", "(") + inner() + self.t(")")
        if kind == 7:
            return (
                self.t(rng.choice(("List", "Option", "T", "Array", "Tree")), "[")
                + inner()
                + self.t("]")
            )
        return self.t(rng.choice((*self.types, "V")))

    def dim(self, depth: int = 2) -> str:
        rng = self.rng
        if depth and rng.random() < 0.3:
            op = rng.choice(("+", "*", " // ", " % ", " + "))
            return (
                self.t("(") + self.dim(depth - 1) + self.t(op) + self.dim(depth - 1) + self.t(")")
            )
        if depth and rng.random() < 0.1:
            name = rng.choice(("min", "max", "broadcast", "floordiv", "floormod"))
            return (
                self.t(name, "(")
                + self.dim(depth - 1)
                + self.t(", ")
                + self.dim(depth - 1)
                + self.t(")")
            )
        return self.t(rng.choice(("1", "3", "?", "2", "3i64", "7", *self.dims)))

    # --- expressions ---------------------------------------------------------------------

    def block(self, depth: int) -> str:
        return self.t("{ ") + self.statements(depth) + self.t(" }")

    def statements(self, depth: int) -> str:
        rng, old = self.rng, len(self.locals)
        parts = []
        for _ in range(rng.choice((0, 0, 1, 1, 2)) if depth else 0):
            kind = rng.randrange(4)
            if kind < 2:
                value = self.expression(depth - 1)
                parts.append(self.t("let ") + self.binder() + self.t(" = ") + value + self.t(";\n"))
            elif kind == 2:
                value = self.expression(depth - 1)
                parts.append(self.t(f"%{self.graphs}", " = ") + value + self.t(";\n"))
                self.locals.append(str(self.graphs))
                self.graphs += 1
            else:
                parts.append(self.expression(depth - 1) + self.t(";\n"))
        parts.append(self.expression(depth))
        del self.locals[old:]
        return "".join(parts)

    def binder(self, name: str = "") -> str:
        name = name or f"{self.rng.choice('xyz_')}{len(self.locals)}"
        text = self.t(f"%{name}") + (self.t(": ") + self.type() if self.rng.random() < 0.5 else "")
        self.locals.append(name)
        return text

    def variable(self) -> str:
        return self.t(f"%{self.rng.choice(self.locals)}")

    def expression(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            return self.leaf()
        inner = lambda: self.expression(depth - 1)  # noqa: E731
        makers: list[Callable[[], str]] = [
            lambda: (
                inner() + self.t(rng.choice((" + ", " * ", " - ", " / ", " == ", " < "))) + inner()
            ),
            lambda: self.t("-") + self.grouped(depth - 1),
            lambda: self.t("(") + self.list(inner) + self.t(")"),
            lambda: self.t("(") + self.statements(depth - 1) + self.t(")"),
            lambda: (
                self.t("if ", "(")
                + inner()
                + self.t(") ")
                + self.block(depth - 1)
                + self.t(" else ")
                + self.block(depth - 1)
            ),
            lambda: self.match(depth),
            lambda: self.t("fn ") + self.function(depth - 1),
            lambda: self.t(rng.choice(("ref", "ref_read")), "(") + inner() + self.t(")"),
            lambda: self.t("ref_write", "(") + inner() + self.t(", ") + inner() + self.t(")"),
            lambda: self.call(depth),
            lambda: self.call(depth),
            lambda: self.call(depth),
            lambda: self.grouped(depth - 1) + self.t(rng.choice((".0", ".1", ".0.0"))),
            lambda: self.block(depth - 1),
        ]
        return rng.choice(makers)()

    def call(self, depth: int) -> str:
        rng = self.rng
        callee = rng.choice(
            ("add", "exp", "array.length", "@f", "@main", "@map", "Cons", "Some", "C", "tanh")
        )
        text = self.t(callee) if rng.random() < 0.8 else self.grouped(depth - 1)
        if rng.random() < 0.1:
            text += self.t("[") + self.list(self.type, 2) + self.t("]")
        args = self.list(lambda: self.expression(depth - 1))
        text += self.t("(") + args
        if rng.random() < 0.1:
            text += self.t(", " if args else "") + self.attributes_of_call()
        text += self.t(")")
        return text + (self.t("(") + self.leaf() + self.t(")") if rng.random() < 0.05 else "")

    def grouped(self, depth: int) -> str:
        return self.t("(") + self.expression(depth) + self.t(")")

    def match(self, depth: int) -> str:
        head = self.t(self.rng.choice(("match", "match?")), " (") + self.expression(depth - 1)
        return head + self.t(")", " { ") + self.list(lambda: self.clause(depth)) + self.t(" }")

    def clause(self, depth: int) -> str:
        old = len(self.locals)
        text = self.pattern() + self.t(" => ") + self.expression(depth - 1)
        del self.locals[old:]
        return text

    def pattern(self, depth: int = 2) -> str:
        rng = self.rng
        kind = rng.randrange(5 if depth else 2)
        inner = lambda: self.pattern(depth - 1)  # noqa: E731
        if kind == 0:
            return self.t("_")
        if kind == 1:
            return self.binder()
        if kind == 2:
            return self.t("(") + self.list(inner, 3, 1) + self.t(")")
        if kind == 3:
            return self.t("Cons", "(") + inner() + self.t(", ") + inner() + self.t(")")
        if rng.random() < 0.5:
            return self.t("D", "(") + inner() + self.t(")")
        return self.t(rng.choice(("Nil", "None", "C", "G")))

    def leaf(self) -> str:
        rng = self.rng
        if self.locals and rng.random() < 0.6:
            return self.variable()
        return self.t(rng.choice((
            "1", "2f", "1.5f16", "-3i8", "True", "inff", "nanf64", "()", "Nil", "None", "exp",
            "255u8", "0.1f64", "1e-30f", "meta[relay.Constant][0]", "9000000000", "@f",
        )))  # fmt: skip

    def attributes(self) -> str:
        """Write attributes that a function may have."""
        names = self.rng.sample(
            ("a", "b", "Primitive", "axis", "if", "d.e"), self.rng.randint(1, 3)
        )
        return self.t(", ").join(self.t(name, "=") + self.value(3) for name in names)

    def attributes_of_call(self) -> str:
        """Write attributes that a call of something that is no operator may have."""
        return self.attributes() + self.t(", ", "attrs_type_key", "=", '"DictAttrs"')

    def value(self, depth: int) -> str:
        rng = self.rng
        inner = lambda: self.value(depth - 1)  # noqa: E731
        kind = rng.randrange(10 if depth else 6)
        if kind < 6:
            return self.t(rng.choice((
                "1", "-1", "0.5f", "True", "None", '"s"', '"\\n\\u{e9}"', "float32", "inff",
                *self.dims, "?", "[]", "{}", "()", "meta[relay.Constant][0]",
            )))  # fmt: skip
        if kind < 8:
            return self.t("[") + self.list(inner) + self.t("]")
        if kind == 8:
            return self.t("(") + self.list(inner) + self.t(")")
        return self.t("{", '"k"', ": ") + inner() + self.t("}")


def rng_word(rng: random.Random) -> str:
    """Return a word that belongs somewhere else, or none."""
    return rng.choice(("", "", rng.choice(WORDS), " "))
