"""Any text gives a module or diagnostics with spans, in time that grows with its length; what is
accepted is well-formed and is read back from its printed form.
"""

from __future__ import annotations

import random

import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from tests.fuzz.parser import CORPUS, check, check_every_error, is_slow, seconds
from tests.fuzz.texts import GENERATORS, grammatical, mutate, repetitive

ACCEPTED = {"mutate": 8, "damage": 4, "grammatical": 40}


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("seed", range(4))
def test_any_text_gives_a_module_or_diagnostics(name, seed):
    rng = random.Random(f"{name} {seed}")
    count = 40 if name == "repetitive" else 250
    accepted = sum(check(GENERATORS[name](rng)) for _ in range(count))
    assert accepted >= ACCEPTED.get(name, 0)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.rly")), ids=lambda path: path.stem)
def test_texts_that_once_broke_the_contract(path):
    text = path.read_bytes().decode("utf-8", "surrogatepass")
    check(text)
    check_every_error(text)
    assert not is_slow(text)


@pytest.mark.parametrize("make", [mutate, grammatical])
@pytest.mark.parametrize("seed", range(2))
def test_the_types_of_what_can_be_read_are_checked(make, seed):
    rng = random.Random(f"types {make.__name__} {seed}")
    more = [check_every_error(make(rng)) for _ in range(150)]
    if make is mutate:
        assert sum(n > 0 for n in more) < 15, "errors that follow from others"


def test_a_file_of_any_bytes_gives_a_module_or_an_error(tmp_path):
    rng = random.Random(1)
    path = tmp_path / "any.relay"
    for size in (0, 1, 7, 100, 1000):
        path.write_bytes(rng.randbytes(size))
        try:
            relayvm.parse(path)
        except RelayError as reason:
            str(reason)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_repeated_words_take_time_by_their_number(seed):
    rng = random.Random(f"repeated {seed}")
    for _ in range(60):
        text = repetitive(rng)
        assert not is_slow(text), text[:200]


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
    "nested matches": "match(%x){_=>",
    "nested functions": "fn (%x: int32) {",
    "nested branches": "if (%x) { ",
    "lets": "let %x = ",
    "parameters": "fn [n: ShapeVar](",
    "dictionaries": '{"a": ',
    "attributes": "f(a=(",
    "graphs": "%0 = ",
    "comments in types": "Tensor[(n /* ",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("start", ["", "def @main(%x: int32) { ", "def @main() { sum(1, axis="])
def test_time_grows_with_the_length_of_the_text(name, start):
    def spent(count: int) -> float:
        return seconds(start + REPEATED[name] * count)

    spent(100)
    small = min(spent(1000) for _ in range(3))
    # Eight times the text: a quadratic parser takes 64 times as long. The best of some runs counts,
    # since a busy machine makes single ones slow.
    bound = 30 * max(small, 0.004)
    assert any(spent(8000) < bound for _ in range(5))
