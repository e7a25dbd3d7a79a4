"""Names of passes with options, as people write them: `fuse_ops[max_depth=4],to_anf`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

from relayvm.base.diagnostics import error

OptionValue = Union[None, bool, int, float, str, "tuple[str, ...]"]
Options = Mapping[str, OptionValue]
# A pass by name, with options in brackets or beside it.
Step = Union[str, "tuple[str, Options]"]

_WORDS: dict[str, OptionValue] = {"true": True, "false": False, "none": None}


def split_steps(text: str) -> list[str]:
    """Return the steps of a list: `a[x=1,y=2],b` -> `a[x=1,y=2]` and `b`."""
    steps: list[str] = []
    depth, start = 0, 0
    for place, letter in enumerate(text + ","):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth <= 0:
            steps.append(text[start:place].strip())
            start = place + 1
    if depth > 0:
        steps.append(text[start:].strip())
    return [step for step in steps if step]


def read_step(step: Step) -> tuple[str, dict[str, OptionValue]]:
    """Return the name and the options of a step; raises RelayError `bad-option`.

    A value is a number, `true`, `false`, `none`, a word, or words joined by `+`.
    """
    if not isinstance(step, str):
        return step[0], dict(step[1])
    name, bracket, rest = step.partition("[")
    options: dict[str, OptionValue] = {}
    if bracket and not rest.endswith("]"):
        raise error("bad-option", f"`{step}` lacks its closing `]`")
    for item in filter(None, (part.strip() for part in rest[:-1].split(","))):
        key, equals, value = item.partition("=")
        if not equals:
            raise error("bad-option", f"option `{item}` of `{name}` has no value: write `{item}=1`")
        options[key.strip()] = _value(value.strip())
    return name.strip(), options


def _value(text: str) -> OptionValue:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return tuple(text.split("+")) if "+" in text else text


def checked_options(
    name: str, given: Options, defaults: Sequence[tuple[str, OptionValue]]
) -> dict[str, OptionValue]:
    """Return all options of a pass; raises RelayError `bad-option` for one that it does not have
    or a value of another kind than the default's.
    """
    result = dict(defaults)
    for key, value in given.items():
        if key not in result:
            known = ", ".join(f"`{k}={v}`".lower() for k, v in defaults) or "none"
            raise error("bad-option", f"pass `{name}` has no option `{key}`; it has {known}")
        result[key] = _like(result[key], value, f"option `{key}` of pass `{name}`")
    return result


def _like(default: OptionValue, value: OptionValue, what: str) -> OptionValue:
    if isinstance(default, bool):
        if isinstance(value, (bool, int)) and value in (0, 1):
            return bool(value)
        raise error("bad-option", f"{what} is true or false, not `{value}`")
    if isinstance(default, int):
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise error("bad-option", f"{what} is a whole number, not `{value}`")
    if isinstance(default, tuple):
        return (value,) if isinstance(value, str) else value
    return value
