"""Every independent error of a program is reported, and none that only follows from another."""

from __future__ import annotations

import random

import pytest

import relayvm
from relayvm.base.diagnostics import RelayError

# Each is one statement with one error: its code, and the text of the statement for a number.
FAULTS = {
    "shape-mismatch": "let %e{} = add(zeros(shape=[2]), ones(shape=[3]));",
    "type-mismatch": "let %e{}: int32 = 1f;",
    "unknown-variable": "let %e{} = add(%nowhere{}, 1);",
    "unknown-function": "let %e{} = @nowhere{}(1);",
    "unknown-operator": "let %e{} = nowhere{}(1);",
    "bad-attribute": 'let %e{} = nn.softmax(ones(shape=[2]), axis="a");',
    "unknown-attribute": "let %e{} = nn.relu(1f, axes=2);",
    "missing-attribute": "let %e{} = ones();",
    "not-a-function": "let %e{} = %x(1);",
    "wrong-arity": "let %e{} = @good(%x, %x);",
    "tuple-index": "let %e{} = (1, 2).5;",
}
USES = "let %u{} = add(%e{}, 1); let %w{} = (%u{}, %e{}); "
GOOD = "let %g{} = add(%x, {}); let %h{} = @good(%g{}); "


def errors_of(text: str) -> list[tuple[str, int]]:
    """Return the codes and lines of what is wrong with a program, in order of lines."""
    with pytest.raises(RelayError) as caught:
        relayvm.parse(text)
        relayvm.compile(relayvm.parse(text))
    places = []
    for diagnostic in caught.value.diagnostics:
        assert diagnostic.span is not None
        places.append((diagnostic.code, diagnostic.span.line))
    return places


def statement(text: str, number: int) -> str:
    return text.replace("{}", str(number))


def function(name: str, statements: list[str]) -> str:
    return f"def @{name}(%x: int32) -> int32 {{\n" + "\n".join(statements) + "\n%x\n}\n"


@pytest.mark.parametrize("code", FAULTS)
def test_one_error_is_one_message_however_it_is_used(code):
    body = [statement(FAULTS[code], 1), statement(USES, 1), statement(GOOD, 2)]
    text = function("main", body) + function("good", [])
    assert errors_of(text) == [(code, 2)]


@pytest.mark.parametrize("code", FAULTS)
def test_the_same_error_in_many_functions_is_reported_in_each(code):
    text = function("good", [])
    lines = []
    for number in range(5):
        lines.append((code, text.count("\n") + 2))
        text += function(f"f{number}", [statement(FAULTS[code], number)])
    assert errors_of(text) == lines


@pytest.mark.parametrize("seed", range(30))
def test_all_errors_of_a_program_are_reported_once_each(seed):
    generator = random.Random(seed)
    text, expected = function("good", []), []
    codes = list(FAULTS)
    for number in range(generator.randint(1, 4)):
        body: list[str] = []
        for _ in range(generator.randint(1, 6)):
            place = len(body)
            if generator.random() < 0.5:
                body.append(statement(GOOD, 10 * number + place))
                continue
            code = generator.choice(codes)
            expected.append((code, text.count("\n") + 2 + place))
            body.append(statement(FAULTS[code] + USES, 10 * number + place))
        text += function(f"f{number}", body)
    if expected:
        assert errors_of(text) == expected


def test_a_name_that_is_not_known_hides_no_error_beside_it():
    text = (
        "def @main(%x: int32) -> int32 {\nlet %a = %x + 1i8;\n(%a, nowhere(%x, %x + 2f), %b).9\n}"
    )
    codes = ["dtype-mismatch", "unknown-operator", "dtype-mismatch", "unknown-variable"]
    assert sorted(errors_of(text)) == sorted(zip([*codes, "tuple-index"], (2, 3, 3, 3, 3)))
