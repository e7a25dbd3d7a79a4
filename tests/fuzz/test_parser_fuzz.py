"""Any text gives a module or diagnostics with spans, in time that grows with its length; what is
accepted is well-formed and is read back from its printed form.
"""

from __future__ import annotations

import gc
import random
import re
import time

import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.base.source import Source
from relayvm.compiler.program_text import parse_every_error
from relayvm.ir.equal import structural_equal
from relayvm.ir.printer import print_module
from relayvm.ir.verify import verify_module
from relayvm.ops import OPS
from tests.ir.programs import PROGRAMS, parse

PIECES = re.compile(r"\s+|[%@]?[\w./]+|->|=>|[=!<>]=|.", re.DOTALL)
TEXTS = [PIECES.findall(text) for text in PROGRAMS.values()]
WORDS = sorted({piece for text in TEXTS for piece in text}) + [
    "\0", "\\", '"', "/*", "*/", "#[metadata]", "é", "%", "@", "meta", "1e999f", "free_var ", "[",
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


def check(text: str) -> bool:
    """Return whether the parser accepts a text; fails where it breaks its contract."""
    try:
        module = parse(text)
    except RelayError as reason:
        assert all(d.span is not None for d in reason.diagnostics), text
        str(reason)
        return False
    verify_module(module)
    again = parse(print_module(module))
    assert structural_equal(module, again), text
    return True


@pytest.mark.parametrize("make", [mutate, soup, noise])
@pytest.mark.parametrize("seed", range(4))
def test_any_text_gives_a_module_or_diagnostics(make, seed):
    rng = random.Random(f"{make.__name__} {seed}")
    accepted = sum(check(make(rng)) for _ in range(400))
    if make is mutate:
        assert accepted >= 16


@pytest.mark.parametrize("seed", range(4))
def test_the_types_of_what_can_be_read_are_checked(seed):
    rng = random.Random(f"types {seed}")
    more = 0
    for _ in range(200):
        text = mutate(rng)
        try:
            parse(text)
        except RelayError as reason:
            with pytest.raises(RelayError) as caught:
                parse_every_error(Source("test.rly", text), OPS)
            every = caught.value.diagnostics
            assert all(d.span is not None for d in every), text
            assert {str(d) for d in reason.diagnostics} <= {str(d) for d in every}, text
            more += len(every) > len(reason.diagnostics)
    assert more < 20, "errors that follow from others"


REPEATED = {
    "open parentheses": "(",
    "open braces": "{",
    "open brackets": "[",
    "functions": "def @f() { 1 }\n",
    "broken lets": "let %x = ; ",
    "unclosed functions": "def @f( ",
    "quotes": '"',
    "escaped quotes": '"\\',
    "comments": "/*",
    "types": "type T { C }\n",
    "fields": ".0",
    "stars": "* ",
    "metadata": "#[metadata]",
    "strange characters": "$ ",
    "dims": "Tensor[(n // ",
    "matches": "match (%x) { C(",
    "lists": "f(a=[",
    "minus": "-",
    "unknown": "%a ",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("start", ["", "def @main(%x: int32) { ", "def @main() { sum(1, axis="])
def test_time_grows_with_the_length_of_the_text(name, start):
    def seconds(count: int) -> float:
        text = start + REPEATED[name] * count
        # Full collections cost what other tests left on the heap, not what the parser does.
        gc.disable()
        begin = time.process_time()
        check(text)
        spent = time.process_time() - begin
        gc.enable()
        return spent

    seconds(100)
    small = min(seconds(1000) for _ in range(3))
    # Eight times the text: a quadratic parser takes 64 times as long. The best of some runs counts,
    # since a busy machine makes single ones slow.
    bound = 30 * max(small, 0.004)
    assert any(seconds(8000) < bound for _ in range(5))
