"""How parameters are held: lent by the caller, or given to the function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from relayvm.base.abi import KernelSignature
from relayvm.compiler.lower.linear import (
    OBJECT,
    Arg,
    LinearFunction,
    Reg,
    Role,
    Step,
    Take,
    Use,
    map_roles,
    roles,
    steps,
)
from relayvm.compiler.lower.memory.in_place import overwritten_params
from relayvm.compiler.lower.memory.reuse import rebuilt_params
from relayvm.vm.program import Layout


def infer_borrowed_params(
    functions: Mapping[str, LinearFunction],
    layouts: Sequence[Layout],
    signatures: Sequence[KernelSignature],
) -> None:
    """Mark the object parameters that a caller only lends.

    All start as borrowed. One becomes owned if its function gives it away or may make a cell or a
    kernel's result of it, or if a tail call somewhere passes it an object that the calling frame
    itself would have to keep. To a fixpoint.
    """
    for function in functions.values():
        for param in function.params:
            param.borrowed = param.kind == OBJECT and not function.owned_params
        for param in rebuilt_params(function, layouts):
            param.borrowed = False
    calls = {name: _calls(function) for name, function in functions.items()}
    callers: dict[str, set[str]] = {}
    for name, own in calls.items():
        for step in own:
            if step.callee:
                callers.setdefault(step.callee, set()).add(name)
    # What the host passes to a function that nobody else calls is never the function's to change.
    for name in callers:
        for param in overwritten_params(functions[name], signatures):
            param.borrowed = False
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


def fix_arguments(function: LinearFunction, functions: Mapping[str, LinearFunction]) -> None:
    """Settle for each argument of the calls in a function whether it is lent or given."""
    for step in steps(function.body):
        owned = {
            id(arg): param is None or not param.borrowed
            for arg, param in _arguments(step, functions)
        }
        if any(isinstance(role, Arg) for role in roles(step.operands)):
            step.operands = map_roles(step.operands, partial(_settled, owned))


def _settled(owned: Mapping[int, bool], role: Role) -> Role:
    if not isinstance(role, Arg):
        return role
    return Take(role.reg) if owned.get(id(role)) else Use(role.reg)
