"""Explicit memory: decides who holds each object and adds the retains and releases.

Ownership follows Ullrich and de Moura, "Counting Immutable Beans" (IFL 2019): a parameter is
borrowed unless the function gives it away; an object is released right after its last use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from relayvm.base.abi import KernelSignature
from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.lower.linear import (
    OBJECT,
    Arg,
    Block,
    Choice,
    Def,
    LinearFunction,
    Operand,
    Reg,
    Role,
    Step,
    Take,
    Use,
    roles,
    steps,
)
from relayvm.compiler.lower.liveness import Live, walk_blocks

MAX_GIVEN = 32  # inputs that an instruction can name as given away: a bit each


def make_memory_explicit(
    functions: Mapping[str, LinearFunction], signatures: list[KernelSignature]
) -> None:
    """Fix what is taken out of references and how each parameter is held, then add retains and
    releases, in place.

    `signatures` by kernel number tell which input's storage an output may take over.
    """
    take_from_references(functions)
    infer_borrowed_params(functions)
    for function in functions.values():
        _fix_arguments(function, functions)
        _Counter(signatures).run(function)


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


def infer_borrowed_params(functions: Mapping[str, LinearFunction]) -> None:
    """Mark the object parameters that a caller only lends.

    All start as borrowed. One becomes owned if its function gives it away, or if a tail call
    somewhere passes it an object that the calling frame itself would have to keep. To a fixpoint.
    """
    for function in functions.values():
        for param in function.params:
            param.borrowed = param.kind == OBJECT and not function.owned_params
    calls = {name: _calls(function) for name, function in functions.items()}
    callers: dict[str, set[str]] = {}
    for name, own in calls.items():
        for step in own:
            callers.setdefault(step.callee, set()).add(name)
    pending = dict.fromkeys(functions)
    while pending:
        name, _ = pending.popitem()
        for step in calls[name]:
            for changed in _claim(name, step, functions):
                # What a function holds decides what its callers must give and it may pass on.
                pending[changed] = None
                pending.update(dict.fromkeys(callers.get(changed, ())))


def _calls(function: LinearFunction) -> list[Step]:
    """Return the calls of a function, after claiming the parameters that other steps give away."""
    calls: list[Step] = []
    for step in steps(function.body):
        for role in roles(step.operands):
            if isinstance(role, Take):
                _own(role.reg)
        if any(isinstance(role, Arg) for role in roles(step.operands)):
            calls.append(step)
    return calls


def _claim(name: str, step: Step, functions: Mapping[str, LinearFunction]) -> Iterator[str]:
    """Yield the functions of which a call in the named one has made a parameter owned."""
    for arg, param in _arguments(step, functions):
        if param is None or not param.borrowed:
            if _own(arg.reg):
                yield name
        elif step.ends and arg.reg.owner is not None:
            param.borrowed = False
            yield step.callee


def _own(reg: Reg) -> bool:
    """Turn a borrowed parameter into an owned one; other registers stay what they are."""
    if reg.is_param and reg.borrowed:
        reg.borrowed = False
        return True
    return False


def _arguments(step: Step, functions: Mapping[str, LinearFunction]) -> list[tuple[Arg, Reg | None]]:
    """Pair the object arguments of a call with the callee's parameters; None for closures
    (owned).
    """
    args = [role for role in roles(step.operands) if isinstance(role, Arg)]
    if not args:
        return []
    params: list[Reg | None] = (
        list(functions[step.callee].params) if step.callee else [None] * len(args)
    )
    assert len(params) == len(args), f"`{step.callee}` takes {len(params)}, is given {len(args)}"
    return [(arg, param) for arg, param in zip(args, params) if arg.reg.kind == OBJECT]


def _fix_arguments(function: LinearFunction, functions: Mapping[str, LinearFunction]) -> None:
    for step in steps(function.body):
        owned = {
            id(arg): param is None or not param.borrowed
            for arg, param in _arguments(step, functions)
        }
        if any(isinstance(role, Arg) for role in roles(step.operands)):
            step.operands = _map_roles(step.operands, partial(_settled, owned))


def _settled(owned: Mapping[int, bool], role: Role) -> Role:
    if not isinstance(role, Arg):
        return role
    return Take(role.reg) if owned.get(id(role)) else Use(role.reg)


def _map_roles(
    operands: tuple[Operand, ...], change: Callable[[Role], Role]
) -> tuple[Operand, ...]:
    result: list[Operand] = []
    for operand in operands:
        if isinstance(operand, tuple):
            result.append(_map_roles(operand, change))
        elif isinstance(operand, (Use, Take, Arg, Def)):
            result.append(change(operand))
        else:
            result.append(operand)
    return tuple(result)


class _Counter:
    """Walks a function backwards with the set of owned registers that are still needed."""

    def __init__(self, signatures: list[KernelSignature]) -> None:
        self.signatures = signatures

    def run(self, function: LinearFunction) -> None:
        live = Live()
        trampoline(self.block(function.body, live))
        unused = [
            p for p in function.params if p.kind == OBJECT and not p.borrowed and p not in live
        ]
        function.body.items[:0] = [_release(p, function.span) for p in unused]

    def block(self, block: Block, live: Live) -> Recursive[None]:
        """Rewrite a block whose end needs `live`; leave in `live` what its start needs."""
        out: list[Step | Choice] = []
        for item in reversed(block.items):
            if isinstance(item, Step):
                self.step(item, live, out)
            else:
                yield self.choice(item, live)
                out.append(item)
        block.items = out[::-1]

    def choice(self, choice: Choice, live: Live) -> Recursive[None]:
        owner = choice.on.owner
        joins = set(choice.joins)
        on = (owner,) if owner else ()
        dead = yield walk_blocks(choice.blocks, live, joins, on, self.block)
        for block, regs in zip(choice.blocks, dead):
            ordered = sorted(regs, key=lambda r: (r.name, id(r)))
            block.items[:0] = [_release(reg, choice.span) for reg in ordered]

    def step(self, step: Step, live: Live, out: list[Step | Choice]) -> None:
        """Append, in reverse: the releases after the step, the step, the retains before it."""
        step = self._donate(step, live)
        before: list[Step | Choice] = []
        all_roles = list(roles(step.operands))
        defined = {r.reg for r in all_roles if isinstance(r, Def)}
        lent = _owners(r.reg for r in all_roles if isinstance(r, Use))
        borrowed_takes = _owners(r.reg for r in all_roles if isinstance(r, Take) and r.reg.borrowed)
        moved: set[Reg] = set()

        def give(role: Role) -> Role:
            if not isinstance(role, Take):
                return role
            reg = role.reg
            kept = reg in lent or (reg in live and reg not in defined)
            if not reg.borrowed and not kept and reg not in moved:
                moved.add(reg)
                return role
            copy = Reg(OBJECT, reg.name, reg.type)
            before.append(Step("retain", (Def(copy), Use(reg)), step.span))
            return Take(copy)

        step = replace(step, operands=_map_roles(step.operands, give))
        dead = [r for r in sorted(defined, key=id) if _counted(r) and r not in live]
        last = [r for r in (lent | borrowed_takes) if r not in live and r not in moved]
        ends_here = sorted(last, key=lambda r: (r.name, id(r)))
        if step.ends:
            # Behind the last instruction there is no place: release in front, after the retains.
            assert not lent - live.regs - moved or step.name == "trap", (
                f"`{step.name}` lends a local"
            )
            out.append(step)
            out.extend(_release(r, step.span) for r in ends_here)
        else:
            out.extend(_release(r, step.span) for r in [*dead, *ends_here])
            out.append(step)
        out.extend(before)
        live.remove(defined)
        live.add(lent)
        live.add(borrowed_takes)
        live.add(r.reg for r in all_roles if isinstance(r, Take) and not r.reg.borrowed)

    def _donate(self, step: Step, live: Live) -> Step:
        """Let a kernel write over an input that dies with it."""
        if step.name != "kernel":
            return step
        number, inputs, outputs = step.operands
        assert isinstance(number, int) and isinstance(inputs, tuple) and isinstance(outputs, tuple)
        pairs = self.signatures[number].in_place
        mask = 0
        donated: list[Operand] = list(inputs)
        for _output, index in pairs:
            role = inputs[index]
            reg = role.reg if isinstance(role, Use) else None
            if index >= MAX_GIVEN or reg is None or not _counted(reg) or reg in live:
                continue
            if mask >> index & 1:
                continue
            others = (r.reg for k, r in enumerate(inputs) if k != index and isinstance(r, Use))
            if any(other.owner is reg for other in others):
                continue
            mask |= 1 << index
            donated[index] = Take(reg)
        if not mask:
            return step
        return replace(step, name="kernel_reuse", operands=(number, mask, tuple(donated), outputs))


def _owners(regs: Iterable[Reg]) -> set[Reg]:
    """Return the owned registers that keep these objects alive."""
    return {owner for reg in regs if (owner := reg.owner) is not None}


def _counted(reg: Reg) -> bool:
    return reg.kind == OBJECT and not reg.borrowed


def _release(reg: Reg, span: Span | None) -> Step:
    return Step("release", (Take(reg),), span)
