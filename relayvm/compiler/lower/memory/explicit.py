"""Explicit memory: decides who holds each object and adds the retains and releases.

Ownership follows Ullrich and de Moura, "Counting Immutable Beans" (IFL 2019): a parameter is
borrowed unless the function gives it away; an object is released right after its last use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from relayvm.base.abi import KernelSignature
from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.lower.linear import (
    OBJECT,
    Block,
    Choice,
    Def,
    LinearFunction,
    Reg,
    Role,
    Step,
    Take,
    Use,
    map_roles,
    roles,
)
from relayvm.compiler.lower.liveness import Live, walk_blocks
from relayvm.compiler.lower.memory.in_place import donate
from relayvm.compiler.lower.memory.ownership import fix_arguments, infer_borrowed_params
from relayvm.compiler.lower.memory.references import take_from_references
from relayvm.compiler.lower.memory.reuse import reuse_cells
from relayvm.vm.program import Layout


def make_memory_explicit(
    functions: Mapping[str, LinearFunction],
    signatures: list[KernelSignature],
    layouts: Sequence[Layout],
) -> None:
    """Fix what is taken out of references, how each parameter is held and which cells are made in
    the memory of others, then add retains and releases, in place.

    `signatures` by kernel number tell which input's storage an output may take over.
    """
    take_from_references(functions)
    infer_borrowed_params(functions, layouts, signatures)
    for function in functions.values():
        fix_arguments(function, functions)
        reuse_cells(function, layouts)
        _Counter(signatures).run(function)


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
            ordered = sorted(regs, key=lambda r: (r.name, r.number))
            block.items[:0] = [_release(reg, choice.span) for reg in ordered]

    def step(self, step: Step, live: Live, out: list[Step | Choice]) -> None:
        """Append, in reverse: the releases after the step, the step, the retains before it."""
        step = donate(step, live, self.signatures)
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

        step = replace(step, operands=map_roles(step.operands, give))
        dead = [r for r in sorted(defined, key=lambda r: r.number) if _counted(r) and r not in live]
        last = [r for r in (lent | borrowed_takes) if r not in live and r not in moved]
        ends_here = sorted(last, key=lambda r: (r.name, r.number))
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


def _owners(regs: Iterable[Reg]) -> set[Reg]:
    """Return the owned registers that keep these objects alive."""
    return {owner for reg in regs if (owner := reg.owner) is not None}


def _counted(reg: Reg) -> bool:
    return reg.kind == OBJECT and not reg.borrowed


def _release(reg: Reg, span: Span | None) -> Step:
    return Step("release", (Take(reg),), span)
