"""Passes with what they require and ensure, and the loop that runs, verifies and records them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from relayvm.base.diagnostics import InternalError, RelayError, error
from relayvm.base.settings import flag
from relayvm.compiler.instruments import Recorder, report_fault
from relayvm.compiler.steps import Options, OptionValue, Step, checked_options, read_step
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import Function
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import FuncType, TupleType
from relayvm.ir.verify import verify_module


class Property(Enum):
    """What a pass may require of a module, and another ensure."""

    TYPED = "every expression has its type"
    FUSED = "operators that belong together are grouped into kernels"
    ANF = "operands are atoms; every other value is named by a let"
    MATCHES_COMPILED = "matches test one constructor at a time"
    CLOSURES_LIFTED = "functions inside of functions only name globals and captures"
    MONOMORPHIC = "functions and data types have no type parameters of kind Type"


@dataclass(frozen=True, slots=True)
class Pass:
    """One row. It runs at `opt_level` and above; `breaks` is what it may destroy.

    `options` are keyword parameters of `run` with their defaults. What is not `in_pipeline` runs
    only where it is asked for by name. A pass that is `judging` may refuse a program; one that
    `rounds` may change floats as its documentation tells. `again` is run instead on what passes
    made of a typed module.
    """

    name: str
    run: Callable[..., Module]
    doc: str
    requires: frozenset[Property] = frozenset()
    ensures: frozenset[Property] = frozenset()
    breaks: frozenset[Property] = frozenset()
    opt_level: int = 0
    options: tuple[tuple[str, OptionValue], ...] = ()
    in_pipeline: bool = True
    judging: bool = False
    rounds: bool = False
    again: Callable[[Module], Module] | None = None


PassTable = Mapping[str, Pass]


def run_pipeline(
    module: Module, table: PassTable, names: Sequence[Step], verify: bool | None = None
) -> Module:
    """Return the module after the named passes, each preceded by those whose result it requires.

    A step is a name, with options behind it as in `fuse_ops[max_depth=4]` or beside it as a
    mapping. Raises RelayError `unknown-pass` and `bad-option`, what a pass reports about the
    program, and InternalError, which names the pass and the command that runs it again on the
    module it failed on.
    """
    steps: list[tuple[Pass, Options]] = []
    for step in names:
        name, given = read_step(step)
        if name not in table:
            raise error("unknown-pass", f"there is no pass `{name}`; known are {', '.join(table)}")
        steps.append((table[name], checked_options(name, given, table[name].options)))
    check = flag("RELAYVM_VERIFY") if verify is None else verify
    state = _State(module, is_typed(module), table, Recorder(), check)
    for row, options in steps:
        state.run(row, options)
    state.recorder.finish()
    return state.module


def is_typed(module: Module) -> bool:
    """Return True if type inference has run on every function of the module."""
    return all(
        f.checked_type is not None and f.body.checked_type is not None
        for f in module.functions.values()
    )


def _without_types(before: Module, after: Module) -> Module:
    """Return `after` with the functions that changed marked as untyped, for `is_typed`."""
    functions = {
        name: f if f is before.functions.get(name) else replace(f, checked_type=None)
        for name, f in after.functions.items()
    }
    return after.with_functions(functions)


def _with_plain_library(before: Module, after: Module) -> Module:
    """Return `after` with only those names marked as the library's that mean what they meant: a
    reader of its text has them.
    """
    if after is before:
        return after
    plain = frozenset(
        name
        for name in after.library & before.library
        if _declares_the_same(before.functions.get(name), after.functions.get(name))
        and _same_data(before.types.get(name), after.types.get(name))
    )
    return after if plain == after.library else replace(after, library=plain)


def alters_library(before: Module, after: Module) -> bool:
    """Tell whether a definition of the library says something else than before, or has left."""
    if before.altered:
        return True
    if after is before or "entries" in after.attrs:
        return False  # What is being compiled is no text for anybody.
    for name in before.library & before.functions.keys():
        old, new = before.functions[name], after.functions.get(name)
        if new is not old and new is not None and not structural_equal(old, new):
            return True
    return False


def _declares_the_same(old: Function | None, new: Function | None) -> bool:
    if old is new or old is None or new is None:
        return old is new
    return structural_equal(_declaration(old), _declaration(new))


def _declaration(function: Function) -> FuncType:
    unknown = TupleType(())
    types = tuple(p.type_annotation or unknown for p in function.params)
    return FuncType(types, function.ret_type or unknown, function.type_params)


def _same_data(old: TypeData | None, new: TypeData | None) -> bool:
    if old is new or old is None or new is None:
        return old is new
    return structural_equal(old, new)


class _State:
    def __init__(
        self, module: Module, typed: bool, table: PassTable, recorder: Recorder, verify: bool
    ) -> None:
        self.module = module
        self.held: frozenset[Property] = frozenset({Property.TYPED} if typed else ())
        self.was_typed = typed
        self.table = table
        self.recorder = recorder
        self.verify = verify

    def run(self, step: Pass, options: Options | None = None) -> None:
        """Run one pass after whatever provides the properties that it requires and that are
        missing.
        """
        for needed in Property:
            if needed in step.requires and needed not in self.held:
                self.run(self.provider(needed))
        before = self.module
        with self.recorder.measure(step.name):
            after = self.guarded(step, before, options or dict(step.options))
        if Property.TYPED in step.breaks and Property.TYPED not in step.ensures:
            after = _without_types(before, after)
        after = _with_plain_library(before, after)
        if not step.judging and not after.altered and alters_library(before, after):
            after = replace(after, altered=True)
        self.module = after
        self.was_typed = self.was_typed or Property.TYPED in step.ensures
        self.held = self.held | step.ensures if after is before else self.after(step)
        self.recorder.record(step.name, before, after)

    def after(self, step: Pass) -> frozenset[Property]:
        """Return what holds once a pass has changed the module."""
        return (self.held - step.breaks) | step.ensures

    def provider(self, needed: Property) -> Pass:
        for step in self.table.values():
            if needed in step.ensures:
                return step
        raise InternalError(f"no pass ensures {needed.name}")

    def guarded(self, step: Pass, before: Module, options: Options) -> Module:
        try:
            if step.again is not None and self.was_typed:
                after = step.again(before)
            else:
                after = step.run(before, **options)
            if self.verify and after is not before:
                verify_module(after, typed=Property.TYPED in self.after(step))
            return after
        except RelayError as failure:
            if step.judging or failure.code in _REPORTED_CODES:
                raise
            raise report_fault(step.name, before) from None
        except Exception as reason:
            raise report_fault(step.name, before) from reason


# A RelayError out of a pass that does not judge is a fault of ours, but for these: what the rows of
# the user's own operators lack is found by whichever pass needs it.
_REPORTED_CODES = frozenset({"bad-operator"})
