"""Calls of operators: the rule runs once the operand types are known, and again when their dims
rise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relayvm.base.diagnostics import Note, quantity
from relayvm.base.dims import ANY, Dim
from relayvm.base.dtypes import DType
from relayvm.base.shapes import ShapeError
from relayvm.base.source import Span
from relayvm.compiler.inference.context import Context, Deferred
from relayvm.compiler.inference.holes import (
    Hole,
    Owner,
    Reason,
    fresh_dim,
    has_dim_hole,
    hole_of,
    is_any,
    new_hole,
)
from relayvm.compiler.inference.messages import origin_notes, type_text
from relayvm.compiler.inference.type_walk import (
    dim_holes_of,
    leaves,
    map_dims,
    prune,
    rebuild,
    resolve,
    type_holes,
)
from relayvm.compiler.kinds import relation_operator
from relayvm.ir.expr import Attrs, Call
from relayvm.ir.types import (
    POISON,
    POISON_DIM,
    POISON_DTYPE,
    TensorType,
    Type,
    TypeRelation,
    TypeVar,
    is_poisoned,
)
from relayvm.ops.operator import Operator
from relayvm.ops.schema import operand_failures

# A rule that must know a size, such as how many numbers tell a shape, is tried with those below.
MOST_SIZE_TRIED = 8


def operator_call(context: Context, call: Call, types: Sequence[Type]) -> Type:
    """Return the type of a call of an operator; a hole if its rule has to wait."""
    op = call.op
    assert isinstance(op, Operator)
    pruned = [prune(t) for t in types]
    key, result = context.application(op, call.attrs, pruned)
    if result is not None and not call.type_args:
        return result
    if not _well_formed(context, op, call):
        _poison_all(context, types)
        return POISON
    has_attrs = _has_attributes(context, op, call)
    if not has_attrs or any(_is_wrong(context, t) for t in pruned):
        for failure in sure_failures(context, op, call, call.args, pruned, has_attrs):
            report_failure(context, op, call, pruned, failure)
        _poison_all(context, pruned)
        return POISON
    if all(context.solver.rigid(t) for t in pruned):
        final = [context.solver.final(t) for t in pruned]
        try:
            result = applied(context, op, call, final)
        except ShapeError as failure:
            for each in operand_errors(op, call.args, final) or [failure]:
                report_failure(context, op, call, final, each)
            return POISON
        if op.is_data_dependent:
            return result
        return context.keep_application(key, op, call.attrs, pruned, result)
    out = new_hole(Owner(f"the result of `{op.name}`", call.span, derived=True))
    task = OperatorCall(context, op, call, pruned, out)
    context.deferred.append(task)
    context.solver.queue.put(task)
    return out


def applied(context: Context, op: Operator, call: Call, types: Sequence[Type]) -> Type:
    """Return what the rule of an operator gives, or for operands that are type parameters what
    their function promises of them.
    """
    for relation in context.assumed.of(op.name, types):
        attrs = dict(relation.attrs or {})
        if op.complete_attrs(attrs) == op.complete_attrs(call.attrs):
            return relation.args[-1]
    if context.has_faults:
        return _applied_beside_faults(op, call, types)
    return op.call_type(types, call.attrs, call.args)


def _applied_beside_faults(op: Operator, call: Call, types: Sequence[Type]) -> Type:
    """Return what the rule gives for operands with dims and element types that may be wrong.

    Any size and any dtype that the operator takes stand for those: what fails for them fails
    whatever is meant there. A result has the same faults.
    """
    known = _without_faults(op, types, ANY)
    if all(a is b for a, b in zip(known, types)):
        return op.call_type(types, call.attrs, call.args)
    every = [part for given in types for part in leaves(given)]
    dtypes = any(isinstance(t, TensorType) and t.dtype is POISON_DTYPE for t in every)
    try:
        result = op.call_type(known, call.attrs, call.args)
    except ShapeError as failure:
        if dtypes and failure.code == "dtype-mismatch":
            return POISON
        # There are sizes that a rule must know.
        sizes = (_without_faults(op, types, size) for size in range(MOST_SIZE_TRIED))
        if any(_holds(op, call, sized) for sized in sizes):
            return POISON
        raise
    return rebuild(result, lambda part: _with_faults(part, dtypes), {})


def _holds(op: Operator, call: Call, types: Sequence[Type]) -> bool:
    try:
        op.call_type(types, call.attrs, call.args)
    except ShapeError:
        return False
    return True


def _without_faults(op: Operator, types: Sequence[Type], size: Dim) -> list[Type]:
    """Return operand types with a size for dims that are wrong, and dtypes that the operator takes
    for those that are.
    """
    known: list[Type] = []
    rows = [o.constraint for o in op.constrained_operands]
    for index, given in enumerate(types):
        dtype = rows[index].dtypes[0]
        previous = known[-1] if known else None
        following = types[index + 1] if index + 1 < len(types) else None
        if rows[index].same_as_previous and isinstance(previous, TensorType):
            dtype = previous.dtype
        elif isinstance(following, TensorType) and rows[index + 1].same_as_previous:
            is_known = following.dtype is not POISON_DTYPE
            dtype = following.dtype if is_known else dtype

        def leaf(part: Type, dtype: DType = dtype) -> Type:
            part = map_dims(part, lambda dim: size if is_poisoned(dim) else dim)
            wrong = isinstance(part, TensorType) and part.dtype is POISON_DTYPE
            return replace(part, dtype=dtype) if isinstance(part, TensorType) and wrong else part

        known.append(rebuild(given, leaf, {}))
    return known


def _with_faults(part: Type, dtypes: bool) -> Type:
    part = map_dims(part, lambda dim: POISON_DIM if is_any(dim) else dim)
    return replace(part, dtype=POISON_DTYPE) if dtypes and isinstance(part, TensorType) else part


def operand_errors(
    op: Operator, given: Sequence[object], types: Sequence[Type]
) -> list[ShapeError]:
    """Return why operands do not fit; of one that is given twice that is told once."""
    failures = operand_failures(op.name, op.constrained_operands, types)
    return list({id(given[index]): f for index, f in reversed(failures.items())}.values())[::-1]


def sure_failures(
    context: Context,
    op: Operator,
    call: Call,
    given: Sequence[object],
    types: Sequence[Type],
    has_attrs: bool = True,
) -> list[ShapeError]:
    """Return what is wrong with a call though not all of its operands and attributes are known."""

    def leaf(part: Type) -> Type:
        unclear = part in context.unclear_params or context.assumed.has(op.name)
        return POISON if isinstance(part, TypeVar) and unclear else part

    known = [rebuild(t, leaf, {}) for t in types]
    found = operand_errors(op, given, known)
    whole = all(context.solver.rigid(t) and not _is_wrong(context, t) for t in types)
    if found or has_attrs or not whole or not any("ax" in name for name in call.attrs):
        return found
    try:
        applied(context, op, call, known)
    except ShapeError as failure:
        # What else a rule says may be due to attributes that are not known.
        return [failure] if failure.code == "bad-axis" else []
    return []


def report_failure(
    context: Context, op: Operator, call: Call, types: Sequence[Type], failure: ShapeError
) -> None:
    """Report why a rule does not hold, with the types of the operands."""
    label = ", ".join(f"{o.name}: {type_text(t)}" for o, t in zip(op.operands, types))
    known = [arg for arg, type_ in zip(call.args, types) if type_ is not POISON]
    notes = () if failure.code == "bad-attribute" else origin_notes(known)
    context.reporter.report(failure.code, failure.message, call.span, label, notes)


def _well_formed(context: Context, op: Operator, call: Call) -> bool:
    """Check what depends on no type, so that it is reported even where types are unknown."""
    if len(call.args) != len(op.operands):
        names = ", ".join(f"`{o.name}`" for o in op.operands)
        expected = quantity(len(op.operands), "operand") + (f" ({names})" if names else "")
        message = f"`{op.name}` takes {expected}, got {len(call.args)}"
        context.reporter.report("wrong-arity", message, call.span)
        return False
    if call.type_args:
        context.reporter.report("wrong-kind", f"`{op.name}` takes no type arguments", call.span)
        return False
    return True


def _has_attributes(context: Context, op: Operator, call: Call) -> bool:
    """Return True if the attributes of a call are known; what is wrong with them is reported."""
    if id(call) in context.unclear_calls:
        return False
    try:
        op.complete_attrs(call.attrs)
    except ShapeError as failure:
        context.reporter.report(failure.code, failure.message, call.span)
        return False
    return True


def _is_wrong(context: Context, type_: Type) -> bool:
    return any(
        leaf.state.poisoned
        if isinstance(leaf, Hole)
        else isinstance(leaf, TypeVar) and leaf in context.unclear_params
        for leaf in leaves(type_)
    )


def _poison_all(context: Context, types: Sequence[Type]) -> None:
    for type_ in types:
        for hole in type_holes(type_):
            context.solver.poison(hole)


class OperatorCall(Deferred):
    """One call whose operand types are not all known, or may still rise."""

    __slots__ = ("call", "context", "failures", "heard", "op", "opened", "types")

    def __init__(
        self, context: Context, op: Operator, call: Call, types: Sequence[Type], out: Hole
    ) -> None:
        super().__init__(out, call.span)
        self.context = context
        self.op = op
        self.call = call
        self.types = types
        self.opened: Type | None = None
        self.failures: Sequence[ShapeError] = ()
        self.heard: set[int] = set()

    def run(self) -> None:
        """Apply the rule to what is known now."""
        if self.done:
            return
        known = [self._known(t) for t in self.types]
        if any(_is_wrong(self.context, t) for t in self.types):
            self.failures = self._sure_failures()
            if not self.fail():
                self._give_up()
            return
        self._listen()
        operands = [t for t in known if t is not None]
        if len(operands) < len(known):
            self.failures = ()
            return
        try:
            result = applied(self.context, self.op, self.call, operands)
        except ShapeError as failure:
            # The dims may still rise to `?`, so this is an error only if nothing else changes.
            self.failures = operand_errors(self.op, self._given(), operands) or [failure]
            return
        self.failures = ()
        self._publish(result)

    def _has_failed(self) -> bool:
        """Return True if something is to be reported, be it of some operands alone."""
        if not self.failures and self.opened is None and not self.done:
            self.failures = self._sure_failures()
        return bool(self.failures) and not self.done

    def _sure_failures(self) -> list[ShapeError]:
        return sure_failures(self.context, self.op, self.call, self._given(), self.types)

    def _given(self) -> Sequence[object]:
        """Return what stands for the operands in the text."""
        return self.call.args

    def complete_inputs(self) -> bool:
        """Let the operator infer operand types from the others, such as a weight from the data."""
        if self.done or self.opened is not None:
            return False
        known = [self._known(t) for t in self.types]
        if all(t is not None for t in known) or all(t is None for t in known):
            return False
        try:
            completed = self.op.complete_types(known, self.call.attrs)
        except ShapeError as failure:
            self.failures = (failure,)
            return False
        learnt = False
        for operand, old, given, new in zip(self.op.operands, known, self.types, completed):
            given = prune(given)
            if old is not None or new is None or not isinstance(given, Hole):
                continue
            message = (
                f"operand `{operand.name}` of `{self.op.name}` is {{actual}}, not {{expected}}"
            )
            self.context.solver.flow(given, new, Reason(self.span, message, given, new))
            self._decide(given, new)
            learnt = True
        return learnt

    def _decide(self, given: Type, new: Type) -> None:
        """Let the dims of an operand that was unknown be the inferred ones, unless something flows
        into it: then the calls behind this one can go on at once.
        """
        given = prune(given)
        if not isinstance(given, TensorType) or not isinstance(new, TensorType):
            return
        for hole_dim, dim in zip(given.shape, new.shape):
            hole = hole_of(hole_dim)
            if hole is not None and hole.value is None and not (hole.fed or has_dim_hole(dim)):
                self.context.solver.dims.raise_hole(hole, dim)

    def fail(self) -> bool:
        """Report the rule that does not hold."""
        if not self._has_failed():
            return False
        types = [resolve(t, {}) for t in self.types]
        for failure in self.failures:
            report_failure(self.context, self.op, self.call, types, failure)
        self._give_up()
        return True

    def _give_up(self) -> None:
        self.done = True
        _poison_all(self.context, self.types)
        self.context.solver.poison(self.out)

    def _known(self, type_: Type) -> Type | None:
        """Return the type with the dims of now, or None if a part of it is not known."""
        result = resolve(type_, {})
        for leaf in leaves(result):
            if isinstance(leaf, Hole):
                return None
            if isinstance(leaf, TensorType) and any(has_dim_hole(d) for d in leaf.shape):
                return None
        return result

    def _listen(self) -> None:
        for type_ in self.types:
            for hole in type_holes(type_):
                if id(hole) not in self.heard:
                    self.heard.add(id(hole))
                    hole.state.listeners.append(self)
            for dim in dim_holes_of(type_):
                if id(dim) not in self.heard:
                    self.heard.add(id(dim))
                    dim.listeners.append(self)

    def _publish(self, result: Type) -> None:
        """Raise the result to what the rule gives now; each of its dims is a hole, for it may rise
        again.
        """
        if self.opened is None:
            self.opened = rebuild(result, lambda t: map_dims(t, lambda _: fresh_dim()), {})
            reason = self._reason(self.opened, self.out)
            self._raise(result)
            self.context.solver.alias(self.out, self.opened, reason)
        else:
            self._raise(result)

    def _raise(self, result: Type) -> None:
        assert self.opened is not None
        old, new = _tensors(self.opened), _tensors(result)
        if len(old) != len(new) or any(a.rank != b.rank for a, b in zip(old, new)):
            self.context.reporter.mismatch(self._reason(result, self.opened))
            self._give_up()
            return
        for a, b in zip(old, new):
            for hole_dim, dim in zip(a.shape, b.shape):
                self._raise_dim(hole_dim, dim)

    def _raise_dim(self, hole_dim: Dim, dim: Dim) -> None:
        hole = hole_of(hole_dim)
        assert hole is not None
        self.context.solver.dims.raise_hole(hole, dim)

    def _reason(self, actual: Type, expected: Type) -> Reason:
        message = f"the result of `{self.op.name}` is {{actual}}, but {{expected}} is needed"
        return Reason(self.span, message, actual, expected)


class Constraint(OperatorCall):
    """A constraint of a polymorphic function at one use of it."""

    __slots__ = ("of", "written")

    def __init__(
        self,
        context: Context,
        op: Operator,
        written: TypeRelation,
        relation: TypeRelation,
        of: str,
        span: Span | None,
    ) -> None:
        owner = Owner(f"`{context.constraint_text(written)}` of {of}", span, derived=True)
        attrs = Attrs(dict(relation.attrs or {}))
        call = Call(op, (), attrs, span=span)
        super().__init__(context, op, call, relation.args[:-1], new_hole(owner))
        self.of = of
        self.written = written

    def fail(self) -> bool:
        """Report the constraint that does not hold, with the types that it is about."""
        if not self._has_failed():
            return False
        types = [resolve(t, {}) for t in self.types]
        label = ", ".join(
            f"{type_text(a)}: {type_text(t)}" for a, t in zip(self.written.args, types)
        )
        shown = self.context.constraint_text(self.written)
        notes = constraint_notes(self.written)
        for failure in self.failures:
            message = f"{self.of} requires `{shown}`: {failure.message}"
            self.context.reporter.report(failure.code, message, self.span, label, notes)
        self._give_up()
        return True

    def _given(self) -> Sequence[object]:
        return self.written.args

    def _reason(self, actual: Type, expected: Type) -> Reason:
        return constraint_reason(self.context, self.written, self.of, self.span, actual, expected)


def constraint_reason(
    context: Context,
    written: TypeRelation,
    of: str,
    span: Span | None,
    actual: Type,
    expected: Type,
) -> Reason:
    """Return why the result of a constraint must be the type that stands for it at a use."""
    shown = context.constraint_text(written)
    message = f"{of} requires `{shown}`, which is {{actual}}, not {{expected}}"
    return Reason(span, message, actual, expected, "", constraint_notes(written))


def constraint_notes(written: TypeRelation) -> tuple[Note, ...]:
    """Return the place where a constraint is written."""
    return (Note("the constraint is written here", written.span),) if written.span else ()


def solve_constraint(
    context: Context, written: TypeRelation, relation: TypeRelation, of: str, span: Span | None
) -> None:
    """Let a constraint of a polymorphic function hold at one use: the operator's result flows into
    the last type.
    """
    op = relation_operator(relation.name)
    assert op is not None
    task = Constraint(context, op, written, relation, of, span)
    context.deferred.append(task)
    context.solver.queue.put(task)
    result = relation.args[-1]
    reason = constraint_reason(context, written, of, span, task.out, result)
    context.solver.flow(task.out, result, reason)


def _tensors(type_: Type) -> list[TensorType]:
    stack, found = [type_], []
    while stack:
        part = stack.pop()
        if isinstance(part, TensorType):
            found.append(part)
        else:
            stack.extend(getattr(part, "fields", ()))
    return found
