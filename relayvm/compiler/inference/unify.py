"""Flows between types: skeletons are unified at once, dims through the lattice of `dim_flow`.

`A` fits `B` where both have one skeleton and each dim of `A` fits that of `B`: tuples and data
types as their fields do, functions contra- and covariantly, references invariantly. A hole that
meets a type takes its skeleton with dims of its own, so that it may hold more than what it met
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from relayvm.base.dims import Dim, DimVar, symbol
from relayvm.base.dtypes import DType
from relayvm.base.source import Span
from relayvm.compiler.analysis.variance import Use, Variance
from relayvm.compiler.inference.choices import Choices
from relayvm.compiler.inference.dim_flow import DimSolver
from relayvm.compiler.inference.holes import (
    MOST_PARTS,
    Choice,
    DimHole,
    Hole,
    HoleState,
    Mode,
    Owner,
    Pending,
    Queue,
    Reason,
    Renaming,
    fresh_dim,
    new_hole,
)
from relayvm.compiler.inference.type_walk import (
    Dimless,
    Memo,
    Parameters,
    Places,
    Rigid,
    SameTypes,
    map_dims,
    prune,
    resolve,
    substitute,
    type_holes,
)
from relayvm.ir.types import (
    POISON,
    POISON_DTYPE,
    FuncType,
    GlobalTypeVar,
    RefType,
    ShapeArg,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)
from relayvm.ir.visit import type_children as parts
from relayvm.ir.visit import with_type_children as with_parts

Flow = tuple[Type, Type, Mode]


class TypeSolver:
    """The state of one inference: which holes are bound, which flows wait, which failed."""

    def __init__(
        self,
        mismatch: Callable[[Reason], None],
        dim_mismatch: Callable[[Reason, Dim, Dim], None],
        infinite: Callable[[Reason], None],
        too_large: Callable[[Reason], None],
        constrain: Callable[[TypeRelation, TypeRelation, str, Span | None], None],
        assume: Callable[[Iterable[TypeRelation]], None],
        choices: Choices,
        variance: Variance,
    ) -> None:
        self.choices = choices
        self.variance = variance
        self.constrain = constrain
        self.assume = assume
        self.queue = Queue()
        self.dims = DimSolver(self.queue, dim_mismatch)
        self.rigid = Rigid()
        self.parameters = Parameters()
        self.dimless = Dimless()
        self.places = Places(self.dimless)
        self.same_type = SameTypes()
        # The types that did not fit.
        self.clashing: list[Type] = []
        self._memo: Memo = {}
        self._left = MOST_PARTS
        self._due: list[tuple[Type, Type, Pending]] = []
        self._is_waking = False
        self._mismatch = mismatch
        self._infinite = infinite
        self._too_large = too_large
        self._exhausted = False

    def flow(
        self,
        source: Type,
        target: Type,
        reason: Reason,
        mode: Mode = Mode.CHECKED,
        renaming: Renaming | None = None,
    ) -> None:
        """Let values of type `source` go where `target` is declared.

        Where that would never end nothing more is taken apart, in other flows either.
        """
        self._left = MOST_PARTS
        self._flow(source, target, reason, mode, renaming)

    def _flow(
        self,
        source: Type,
        target: Type,
        reason: Reason,
        mode: Mode,
        renaming: Renaming | None,
    ) -> None:
        stack: list[Flow] = [(source, target, mode)]
        # Parts that both types share flow once. The types are kept: ids of dead ones would recur.
        seen: dict[tuple[int, int, int], tuple[Type, Type]] = {}
        while stack:
            given, wanted, mode = stack.pop()
            source, target = prune(given), prune(wanted)
            if source is target and renaming is None:
                continue
            if not isinstance(source, TensorType):
                key = (id(source), id(target), id(mode))
                if key in seen:
                    continue
                seen[key] = (source, target)
            if source is POISON or target is POISON:
                self._poison(source, target)
            elif isinstance(source, Hole) or isinstance(target, Hole):
                self._flow_hole(given, wanted, reason, mode, renaming, stack)
            elif not self._flow_known(given, wanted, reason, mode, renaming, stack):
                self.choices.dispute(given, wanted)
                self.clashing += given, wanted
                self._mismatch(reason)
                return

    def alias(self, hole: Type, type_: Type, reason: Reason) -> None:
        """Make an untouched hole the same as `type_`; let `type_` flow into it if it is in use
        already.
        """
        hole, type_ = prune(hole), prune(type_)
        if isinstance(hole, Hole) and hole is not type_ and type_ is not POISON:
            state = hole.state
            unused = not (state.above or state.below or state.listeners or state.group)
            if unused and (self.rigid(type_) or hole not in type_holes(type_)):
                state.bound = type_
                return
        self.flow(type_, hole, reason)

    def final(self, type_: Type) -> Type:
        """Return a type that is rigid without the bound holes in it."""
        return resolve(type_, self._memo)

    def bind(self, hole: Hole, skeleton: Type, reason: Reason) -> bool:
        """Give the hole a type with dims of its own; False if it would be infinite or has too many
        parts. A type without sizes is taken whole: growing types are not copied.
        """
        group = hole.state.representative()
        rigid = self.rigid(skeleton)
        inner = () if rigid else type_holes(skeleton)
        if any(h.state.representative() is group for h in inner):
            self.choices.dispute(hole, *inner)
            self._infinite(reason)
            self.poison(hole)
            return False
        whole = self.dimless(skeleton)
        opened = skeleton if whole else self._opened(skeleton, hole.state, rigid)
        if opened is None:
            if not self._exhausted:
                self._too_large(reason)
            self._exhausted = True
            self.poison(hole)
            return False
        hole.state.bound = opened
        self._wake(hole)
        return True

    def _opened(self, skeleton: Type, state: HoleState, rigid: bool) -> Type | None:
        """Return a type that flows into a hole with dims of its own in each place, and holes for
        what is to be found of it; None where too many parts are opened in one flow.
        """
        compound = not isinstance(skeleton, TensorType)
        if self._exhausted or (rigid and compound and self.places.again(skeleton) > MOST_PARTS):
            return None
        if not compound or state.representative().choices:
            self._left -= 1
            return _open(skeleton, state) if self._left >= 0 else None
        made: list[Type] = []
        seen: set[int] = set()
        waiting: list[tuple[Type, int]] = [(skeleton, -1)]
        while waiting:
            part, count = waiting.pop()
            if count >= 0:
                fields = tuple(made[len(made) - count :])
                made[len(made) - count :] = [with_parts(part, fields)]
            elif self.dimless(part):
                made.append(part)
            elif isinstance(part, Hole) or (isinstance(part, FuncType) and part.type_params):
                made.append(new_hole(state.owner, state.produced))
            else:
                below = [prune(p) for p in parts(part)]
                self._left -= 1 if id(part) in seen else 1 - len(below)
                seen.add(id(part))
                if self._left < 0:
                    return None
                if below:
                    waiting += [(part, len(below)), *((p, -1) for p in reversed(below))]
                else:
                    made.append(map_dims(part, lambda _: fresh_dim(state.produced)))
        return made[0]

    def poison(self, hole: Hole) -> None:
        """Mark a hole, and all that it flows into, as not worth a message."""
        stack = [hole]
        while stack:
            state = stack.pop().state
            if state.poisoned:
                continue
            state.poisoned = True
            stack.extend(p.other for p in state.above if isinstance(p.other, Hole))
            for task in state.listeners:
                self.queue.put(task)

    def instantiate(
        self,
        type_: FuncType,
        of: str = "a polymorphic function",
        span: Span | None = None,
        choice: Choice | None = None,
    ) -> tuple[FuncType, tuple[Type, ...]]:
        """Return a polymorphic type with holes for its parameters, and these; `choice` is the place
        that could have had the type itself.
        """
        choices = frozenset((choice,) if choice else ())
        types: dict[TypeVar, Type] = {}
        dims: dict[DimVar, Dim] = {}
        arguments: list[Type] = []
        for parameter in type_.type_params:
            if isinstance(parameter, TypeVar):
                owner = Owner(f"type argument `{parameter.name}` of {of}", span)
                types[parameter] = new_hole(owner, choices=choices)
                arguments.append(types[parameter])
            else:
                dims[parameter] = symbol(DimHole(parameter.name, solves=True))
                arguments.append(ShapeArg(dims[parameter]))
        return self.apply(type_, types, dims, of, span), tuple(arguments)

    def apply(
        self,
        type_: FuncType,
        types: dict[TypeVar, Type],
        dims: dict[DimVar, Dim],
        of: str = "the function",
        span: Span | None = None,
    ) -> FuncType:
        """Return a polymorphic type for given arguments; its constraints are to be solved."""
        constraints = _distinct(type_.type_constraints)
        body = FuncType(type_.arg_types, type_.ret_type, (), constraints)
        result = substitute(body, types, dims, self.parameters)
        assert isinstance(result, FuncType)
        if not result.type_constraints:
            return result
        for given, relation in zip(constraints, result.type_constraints):
            self.constrain(given, relation, of, span)
        return FuncType(result.arg_types, result.ret_type)

    def _poison(self, source: Type, target: Type) -> None:
        for hole in type_holes(source, target):
            self.poison(hole)

    def _wake(self, hole: Hole) -> None:
        state = hole.state
        above, below, listeners = state.above, state.below, state.listeners
        state.above, state.below, state.listeners = [], [], []
        for task in listeners:
            self.queue.put(task)
        due = [(hole, p.other, p) for p in above] + [(p.other, hole, p) for p in below]
        # Those that wake others are not nested in each other, however many there are.
        self._due += reversed(due)
        if self._is_waking:
            return
        self._is_waking = True
        try:
            while self._due:
                source, target, p = self._due.pop()
                self._flow(source, target, p.reason, p.mode, p.renaming)
        finally:
            self._is_waking = False

    def _flow_hole(
        self,
        given: Type,
        wanted: Type,
        reason: Reason,
        mode: Mode,
        renaming: Renaming | None,
        stack: list[Flow],
    ) -> None:
        source, target = prune(given), prune(wanted)
        if isinstance(source, Hole) and isinstance(target, Hole):
            source.state.above.append(Pending(target, reason, mode, renaming))
            target.state.below.append(Pending(source, reason, mode, renaming))
            source.state.join_group(target.state)
            if source.state.poisoned:
                self.poison(target)
            return
        hole, known = (source, target) if isinstance(source, Hole) else (target, source)
        assert isinstance(hole, Hole)
        state = hole.state.representative()
        state.choices |= self.choices.origins(wanted if hole is source else given)
        if isinstance(known, FuncType) and known.type_params:
            # What goes where a polymorphic function is declared must be one.
            place = None if hole is source else self.choices.place(hole.state.owner)
            if place is not None:
                state.choices |= {place}
            if place is None or place in self.choices.kept:
                self._bind_polymorphic(hole, known, reason)
                return
            source = known = self.instantiate(known, choice=place)[0]
        if self.bind(hole, known, reason):
            stack.append((source, target, mode))

    def _bind_polymorphic(self, hole: Hole, type_: FuncType, reason: Reason) -> None:
        """Let the hole be a polymorphic function."""
        group = hole.state.representative()
        if any(h.state.representative() is group for h in type_holes(type_)):
            self._infinite(reason)
            self.poison(hole)
            return
        hole.state.bound = type_
        self._wake(hole)

    def _flow_known(
        self,
        given: Type,
        wanted: Type,
        reason: Reason,
        mode: Mode,
        renaming: Renaming | None,
        stack: list[Flow],
    ) -> bool:
        inner = mode if mode is Mode.EQUAL else Mode.STRICT
        source, target = prune(given), prune(wanted)
        match source, target:
            case TensorType(), TensorType():
                if source.rank != target.rank or not _same_dtype(source.dtype, target.dtype):
                    return False
                for a, b in zip(source.shape, target.shape):
                    self.dims.flow(a, b, reason, mode, renaming)
                return True
            case ShapeArg(), ShapeArg():
                self.dims.flow(source.dim, target.dim, reason, inner, renaming)
                return True
            case TupleType(), TupleType() if len(source.fields) == len(target.fields):
                stack.extend((a, b, mode) for a, b in zip(source.fields, target.fields))
                return True
            case TypeCall(), TypeCall() if source.func == target.func:
                if len(source.args) != len(target.args):
                    return False
                for number, (own, other) in enumerate(zip(source.args, target.args)):
                    use = self.variance.use(source.func.name, number)
                    if use is Use.TAKEN and isinstance(own, ShapeArg):
                        # Functions of any size are functions of a known one.
                        stack.append((other, own, inner))
                    else:
                        stack.append((own, other, inner if use is Use.GIVEN else Mode.EQUAL))
                return True
            case RefType(), RefType():
                stack.append((source.value, target.value, Mode.EQUAL))
                return True
            case FuncType(), FuncType():
                return self._flow_functions(given, wanted, reason, inner, stack)
            case TypeVar(), TypeVar():
                return source is target
            case GlobalTypeVar(), GlobalTypeVar():
                return source.name == target.name
        return False

    def _flow_functions(
        self, given: Type, wanted: Type, reason: Reason, mode: Mode, stack: list[Flow]
    ) -> bool:
        source, target = prune(given), prune(wanted)
        assert isinstance(source, FuncType) and isinstance(target, FuncType)
        if mode is Mode.EQUAL and (source.type_params or target.type_params):
            # What is written there may be used by whoever knows it by the other type.
            renamed = self._renamed(source, target)
            if renamed is None:
                return False
            source, target = renamed, FuncType(target.arg_types, target.ret_type)
        elif target.type_params:
            # A declared polymorphic type: what comes must work for every choice of its parameters.
            self.assume(target.type_constraints)
            if not source.type_params:
                self.choices.meet(given, wanted, reason)
            target = FuncType(target.arg_types, target.ret_type)
        if source.type_params:
            source = self.instantiate(source)[0]
        if len(source.arg_types) != len(target.arg_types):
            return False
        stack.append((source.ret_type, target.ret_type, mode))
        stack.extend((b, a, mode) for a, b in zip(source.arg_types, target.arg_types))
        return True

    def _renamed(self, source: FuncType, target: FuncType) -> FuncType | None:
        """Return the first of two polymorphic types with the parameters of the second; None if
        these are not as many of the same kinds.
        """
        types: dict[TypeVar, Type] = {}
        dims: dict[DimVar, Dim] = {}
        if len(source.type_params) != len(target.type_params):
            return None
        for own, other in zip(source.type_params, target.type_params):
            if isinstance(own, TypeVar) and isinstance(other, TypeVar):
                types[own] = other
            elif isinstance(own, DimVar) and isinstance(other, DimVar):
                dims[own] = symbol(other)
            else:
                return None
        self.assume(target.type_constraints)
        return self.apply(source, types, dims)


def _distinct(constraints: tuple[TypeRelation, ...]) -> tuple[TypeRelation, ...]:
    """Return constraints without those that say again what one before says."""
    if len(constraints) < 2:
        return constraints
    found: dict[tuple[object, ...], TypeRelation] = {}
    for relation in constraints:
        own = id(relation) if relation.attrs else 0
        found.setdefault((relation.name, own, *map(id, relation.args)), relation)
    return tuple(found.values())


def _same_dtype(a: DType, b: DType) -> bool:
    return a is b or a is POISON_DTYPE or b is POISON_DTYPE


def _open(type_: Type, state: HoleState) -> Type:
    """Return the outermost part of a type with holes for its parts, which stand for parts of a
    hole.
    """
    owner, produced, choices = state.owner, state.produced, state.representative().choices
    match type_:
        case TensorType() if type_.shape:
            return TensorType(tuple(fresh_dim(produced) for _ in type_.shape), type_.dtype)
        case TupleType():
            return TupleType(tuple(new_hole(owner, produced, choices) for _ in type_.fields))
        case FuncType():
            args = tuple(new_hole(owner, produced, choices) for _ in type_.arg_types)
            return FuncType(args, new_hole(owner, produced, choices))
        case RefType():
            return RefType(new_hole(owner, produced, choices))
        case TypeCall():
            return TypeCall(
                type_.func,
                tuple(
                    ShapeArg(fresh_dim(produced))
                    if isinstance(a, ShapeArg)
                    else new_hole(owner, produced, choices)
                    for a in type_.args
                ),
            )
    return type_
