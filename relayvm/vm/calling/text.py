"""The Python function that calls an entry in the usual case, written for the kinds of its values.

The usual case: all arguments given by position, arrays of numpy with the shapes of the last call.
All else is left to the general function, which may then change what the next call expects. Small
arrays are copied into the record, and from it: that takes less time than to find their addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

WORD, OTHER = "word", "other"
COPIED = "copied"  # an array that lies in the record during a call
LENT = "lent"  # an array of the caller's, as argument; as result, one made before the call
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "missing"})()
PLACES = 4
UNREADABLE = -3

GENERAL = """
def run(*args, out=None, **named):
    return general(args, named, out)
"""

USUAL = """
def run({parameters}*rest, out=None, **named):
    if {last} or rest or named{unless}:
        return general(given(({arguments}*rest,)), named, out)
    outs = None if out is None else checked(out)
    try:
        record = pop()
    except IndexError:
        record = new()
    try:
        {shapes}
        if {usual}:
            {before}
            try:
                {late}
                code = invoke(record.call{pointers})
            except ValueError:  # elements do not lie in order
                code = {unreadable}
            if not code:
                {after}
            if code != {unreadable}:
                return filled(outs, finish(record, code, None, {fresh}))
    except BaseException:
        drop(record)
        raise
    finally:
        push(record)
    return general(given(({arguments})), named, out)
"""


def function_of(
    kinds: Sequence[str] | None, results: Sequence[str], sized: bool, names: dict[str, Any]
) -> Callable[..., Any]:
    """Return the function for arguments and results of these kinds; None: the general one alone.

    `sized` says that results have the sizes that were checked; `names` are what the text refers to.
    """
    text = GENERAL if kinds is None else _usual(kinds, results, sized)
    scope = {**names, "MISSING": MISSING, "given": _given}
    exec(compile(text, "<call>", "exec"), scope)
    run: Callable[..., Any] = scope["run"]
    return run


def _given(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([a for a in args if a is not MISSING])


def _usual(kinds: Sequence[str], results: Sequence[str], sized: bool) -> str:
    count, arrays = len(kinds), [i for i, kind in enumerate(kinds) if kind in (COPIED, LENT)]
    check = "type(a{0}) is ndarray and a{0}.shape == s{0} and a{0}.dtype is d{0}"
    copied = [i for i in arrays if kinds[i] == COPIED]
    before = [_unpacked("v", copied, "views")] if copied else []
    before += [f"v{i}[...] = a{i}" for i in copied]
    before += [f"set{i}(record, a{i}, None)" for i, kind in enumerate(kinds) if kind == WORD]
    fresh = [i for i, kind in enumerate(results) if kind == LENT]
    room = (
        "y{0} = empty(record.sizes[{0}], e{0}) if outs is None or outs[{0}] is None else outs[{0}]"
    )
    before += [room.format(i) for i in fresh]
    lent = [i for i in arrays if kinds[i] == LENT]
    buffers = [(f"a{i}", f"record.slots[{i}]") for i in lent]
    buffers += [(f"y{i}", f"record.destinations[{i}]") for i in fresh]
    late = [f"{slot}.data = from_buffer({name})" for name, slot in buffers[PLACES:]]
    each = ", ".join(f"y{i}" if i in fresh else "None" for i in range(len(results)))
    return USUAL.format(
        parameters="".join(f"a{i}=MISSING, " for i in range(count)) + ("/, " if count else ""),
        arguments="".join(f"a{i}, " for i in range(count)),
        unless="" if sized else " or out is not None",
        last=f"a{count - 1} is MISSING" if count else "False",
        shapes=_unpacked("s", lent, "shapes") if lent else "pass",
        usual=" and ".join(check.format(i) for i in arrays) or "True",
        before="; ".join(before) or "pass",
        late="; ".join(late) or "pass",
        pointers="".join(f", from_buffer({name})" for name, _ in buffers[:PLACES]),
        unreadable=UNREADABLE,
        after=_after(results, f"({each},)" if results else "None"),
        fresh=f"({each},)" if fresh else "None",
    )


def _unpacked(letter: str, numbers: Sequence[int], attribute: str) -> str:
    return f"{''.join(f'{letter}{i}, ' for i in numbers)}= record.{attribute}"


def _after(results: Sequence[str], fresh: str) -> str:
    if OTHER in results or not results:
        return f"return filled(outs, finish(record, code, None, {fresh}))"
    values = ", ".join(f"y{i}" if kind == LENT else f"c{i}()" for i, kind in enumerate(results))
    # The record has a place for every result.
    copied = any(kind != LENT for kind in results)
    unpack = f"{_unpacked('c', range(len(results)), 'copies')}; " if copied else ""
    value = values if len(results) == 1 else f"({values})"
    return f"{unpack}return {value} if outs is None else filled(outs, {value})"
