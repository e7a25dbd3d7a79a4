"""The end of an inference: decides what no flow decides, and reports what stays unknown or does not
fit.
"""

from __future__ import annotations

from collections.abc import Callable

from relayvm.compiler.inference.context import Context, Deferred
from relayvm.compiler.inference.holes import Hole, Owner
from relayvm.compiler.inference.type_walk import type_holes


def settle(context: Context) -> None:
    """Give every hole its final type, then check all flows of dims.

    What is decided late has the weakest grounds: operands that an operator infers, ShapeVars with
    partly unknown arguments, parameters from their uses. Rules that still fail are errors.
    """
    solver = context.solver
    while True:
        solver.queue.drain()
        if _complete(context):
            continue
        if solver.dims.settle_solutions() or solver.dims.settle_from_above(fed=False):
            continue
        if _each(context, lambda task: task.fail()):
            continue
        if solver.dims.settle_from_above(fed=True):
            continue
        if not solver.dims.settle_rest():
            break
    solver.dims.check()
    solver.choices.check(context.reporter.mismatch)
    _report_holes(context)


def _complete(context: Context) -> bool:
    """Infer operands in the order of the calls; True if one was. What follows from one is found
    before the next is asked.
    """
    found = False
    context.deferred = [task for task in context.deferred if not task.done]
    for task in context.deferred:
        if not task.done and task.complete_inputs():
            found = True
            context.solver.queue.drain()
    return found


def _each(context: Context, step: Callable[[Deferred], bool]) -> bool:
    """Take a step with every deferred task; True if one of them did something."""
    return sum(step(task) for task in context.deferred) > 0


def _report_holes(context: Context) -> None:
    """Report the types that stay unknown; what only follows from another one is reported if nothing
    else is. Nor is what a type lacks that had to fit another and does not.
    """
    groups: dict[int, list[Owner]] = {}
    excused = {id(h.state.representative()) for h in type_holes(*context.solver.clashing)}
    for hole in _empty_holes(context):
        context.solver.choices.dispute(hole)
        if id(hole.state.representative()) in excused:
            continue
        groups.setdefault(id(hole.state.representative()), []).append(hole.state.owner)
    # Holes of one group would all be known if one was.
    primary = [
        written[0]
        for owners in groups.values()
        if (written := [o for o in owners if not o.derived])
    ]
    if not primary and not context.sink.diagnostics:
        primary = [owners[0] for owners in groups.values()][:1]
    for owner in primary:
        context.reporter.report(
            "cannot-infer", f"cannot infer {owner.what}; annotate it", owner.span
        )


def _empty_holes(context: Context) -> list[Hole]:
    types = [*context.vars.values(), *context.types.values(), *context.slots.values()]
    for arguments in context.type_args.values():
        types.extend(arguments)
    return [hole for hole in type_holes(*types) if not hole.state.poisoned]
