"""What is taken out of references, so that what makes a new value of it may change it in place."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from relayvm.compiler.lower.linear import (
    Block,
    Choice,
    LinearFunction,
    Reg,
    Step,
    Use,
    roles,
    steps,
)


def take_from_references(functions: Mapping[str, LinearFunction]) -> None:
    """Take the value out of a reference that is written next, so that the function which makes the
    new value from the old one is its only holder: `ref_write(r, f(ref_read(r)))`.

    Nothing in between may look at a reference, write to one (which may hand this one to somebody
    else) or leave the function; a trap may, since then nobody can reach it.
    """
    opaque = _opaque_functions(functions)
    for function in functions.values():
        pending = [function.body]
        blocks: list[Block] = []
        while pending:
            blocks.append(pending.pop())
            for item in blocks[-1].items:
                if isinstance(item, Choice):
                    pending.extend(item.blocks)
        disturbing: set[int] = set()
        for block in reversed(blocks):  # Inner blocks first.
            if any(_disturbs(item, opaque, disturbing) for item in block.items):
                disturbing.add(id(block))
            _take_in_block(block, opaque, disturbing)


def _opaque_functions(functions: Mapping[str, LinearFunction]) -> set[str]:
    """Return the functions that may look at references, or call what nobody knows."""
    callers: dict[str, set[str]] = {}
    pending: list[str] = []
    for name, function in functions.items():
        for step in steps(function.body):
            if step.callee:
                callers.setdefault(step.callee, set()).add(name)
            elif _is_opaque(step, ()):
                pending.append(name)
    found = set(pending)
    while pending:
        new = callers.get(pending.pop(), set()) - found
        found |= new
        pending.extend(new)
    return found


_OPAQUE = frozenset({"ref_read", "ref_write", "call_closure", "tail_call_closure"})


def _is_opaque(step: Step, opaque: Collection[str]) -> bool:
    return step.name in _OPAQUE or step.callee in opaque


def _disturbs(item: Step | Choice, opaque: Collection[str], disturbing: Collection[int]) -> bool:
    """Tell whether something may look at a reference inside of a choice, or leave it."""
    if isinstance(item, Choice):
        return any(id(block) in disturbing for block in item.blocks)
    return _is_opaque(item, opaque) or (item.ends and item.name != "trap")


def _take_in_block(block: Block, opaque: Collection[str], disturbing: Collection[int]) -> None:
    read: Step | None = None
    for item in block.items:
        if isinstance(item, Choice):
            if _disturbs(item, opaque, disturbing):
                read = None
        elif item.name == "ref_read":
            read = item
        elif item.name == "ref_write" and read is not None and _reference(item) is _reference(read):
            read.name = "ref_take"
            read = None
        elif _is_opaque(item, opaque):
            read = None


def _reference(step: Step) -> Reg:
    return next(role.reg for role in roles(step.operands) if isinstance(role, Use))
