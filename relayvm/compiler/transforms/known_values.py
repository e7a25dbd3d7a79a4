"""What partial evaluation knows of values, where it writes code, and what it tells from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import AnyDim, Dim, DimVar
from relayvm.base.dtypes import number_of
from relayvm.compiler.evaluate_code import array_type
from relayvm.compiler.transforms.copies import TypeMap
from relayvm.compiler.transforms.instances import match_types, type_params_only
from relayvm.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    Var,
)
from relayvm.ir.types import FuncType, ShapeArg, TensorType, TupleType, Type, TypeParam, TypeVar
from relayvm.ir.visit import (
    free_type_vars,
    free_vars,
    rewrite_pattern,
    substitute_in_type,
    type_walk,
)
from relayvm.ops.operator import Operator

FOLDED_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function with the variables of the activation that made it."""

    function: Function
    env: Env
    # The variable that names the function inside itself.
    own: Var | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """A constructor with its fields."""

    constructor: Constructor
    fields: tuple[Value, ...]
    # The number of known constructors in it.
    size: int
    # What its type is applied to: of a constructor without fields nothing else tells it.
    type_args: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """A tuple."""

    fields: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The key of a reference in the store."""

    # What it held when it was made, which is older than the reference.
    first: Value
    # Its type, if there are polymorphic functions in it: what it holds may be more general.
    type: Type | None = None


Measure = tuple[float | None, ...]
Known = Constant | Closure | Data | Fields | Reference | GlobalVar | Constructor


@dataclass(slots=True, eq=False)
class Value:
    """What is known of a value, and its atom in the residual program with the block it is in."""

    known: Known | None = None
    atom: Expr | None = None
    home: Block | None = None


@dataclass(slots=True, eq=False)
class Block:
    """The lets of a scope of the residual program."""

    parent: Block | None = None
    lets: list[tuple[Var, Expr]] = field(default_factory=list)

    def bind(self, value: Expr, name: str = "v", annotation: Type | None = None) -> Var:
        """Name a value."""
        variable = Var(name, annotation)
        self.lets.append((variable, value))
        return variable

    def closed(self, result: Expr) -> Expr:
        """Return the whole scope; a result that was named last is the result itself."""
        lets = self.lets
        if lets and lets[-1][0] is result and not is_open(result.type_annotation):
            variable, value = lets[-1]
            # A recursive function needs its name.
            if not isinstance(value, Function) or variable not in free_vars(value):
                result, lets = value, lets[:-1]
        for variable, value in reversed(lets):
            result = Let(variable, value, result)
        return result

    def sees(self, home: Block | None) -> bool:
        """Return True if names of `home` are in scope here."""
        block: Block | None = self
        while block is not None and block is not home:
            block = block.parent
        return home is None or block is home


class Env:
    """Variables of one activation of a function, and what its type parameters stand for."""

    __slots__ = ("parent", "types", "values")

    def __init__(self, parent: Env | None, types: Mapping[TypeParam, Type | Dim]) -> None:
        self.parent = parent
        outer: Mapping[TypeParam, Type | Dim] = {} if parent is None else parent.types
        self.types: Mapping[TypeParam, Type | Dim] = {**outer, **types} if types else outer
        self.values: dict[Var, Value] = {}

    def __getitem__(self, variable: Var) -> Value:
        env: Env | None = self
        while env is not None:
            if variable in env.values:
                return env.values[variable]
            env = env.parent
        return Value(atom=variable)

    def type(self, type_: Type | None) -> Type | None:
        """Return a type with the type parameters replaced."""
        return None if type_ is None else substitute_in_type(type_, self.types)

    def type_map(self) -> TypeMap:
        """Return the mapping that replaces the type parameters, for a copy of an expression."""
        types: dict[TypeVar, Type] = {}
        dims: dict[DimVar, Dim] = {}
        for param, value in self.types.items():
            if isinstance(param, DimVar):
                assert not isinstance(value, Type)
                dims[param] = value
            else:
                assert isinstance(value, Type)
                types[param] = value
        return TypeMap(types, dims)


def is_open(type_: Type | None) -> bool:
    """Return True for a type with sizes `?`: a value of it must not become narrower."""
    return type_ is not None and any(
        isinstance(part, TensorType) and any(isinstance(d, AnyDim) for d in part.shape)
        for part in type_walk(type_)
    )


def is_sized(type_: Type) -> bool:
    """Return True for a type with sizes in it."""
    return any(isinstance(part, TensorType) and part.shape for part in type_walk(type_))


def measure_of(value: Value) -> float | None:
    """Return what tells how large a known argument is, None where nothing is known."""
    known = value.known
    if isinstance(known, Constant) and known.data.ndim == 0:
        return float(number_of(known.data))
    return known.size if isinstance(known, Data) else None


def type_instance(closure: Closure, call: Call, env: Env) -> Mapping[TypeParam, Type | Dim] | None:
    """Return what the type parameters of a function stand for in a call of it; None if the call
    does not tell.

    Where the function came through a place, the type arguments are those of the type of the place:
    the function may be more general, or have its parameters in another order.
    """
    params = closure.function.type_params
    if not params:
        return {}
    given = [substitute_in_type(t, env.types) for t in call.type_args]
    own, place = closure.env.type(closure.function.checked_type), env.type(call.op.checked_type)
    if (
        isinstance(own, FuncType)
        and isinstance(place, FuncType)
        and len(place.type_params) == len(given)
        and not any(isinstance(p, DimVar) for p in params)
    ):
        used = {p: getattr(t, "dim", t) for p, t in zip(place.type_params, given)}
        wanted = substitute_in_type(FuncType(place.arg_types, place.ret_type), used)
        found: dict[TypeVar, Type] = {}
        match_types(own, wanted, own.type_params, found)
        if len(found) == len(params):
            return {p: found[q] for p, q in zip(params, type_params_only(own.type_params))}
    if len(given) != len(params):
        return None
    return {p: getattr(t, "dim", t) for p, t in zip(params, given)}


def args_of_instance(
    closure: Closure, types: Mapping[TypeParam, Type | Dim] | None
) -> tuple[Type, ...]:
    """Return the type arguments of a function for what its parameters stand for; none if that is
    for inference to find.
    """
    found = [(types or {}).get(p) for p in closure.function.type_params]
    given = [t if isinstance(t, Type) else ShapeArg(t) for t in found if t is not None]
    return tuple(given) if len(given) == len(found) else ()


def fits_pattern(
    pattern: Pattern, value: Value, bound: dict[Var, tuple[Value, Type | None]]
) -> bool | None:
    """Return whether a value fits, binding variables to what they get, with the type of the field
    that held it where this depends on no type parameters; None if that is not known.
    """
    waiting: list[tuple[Pattern, Value, Type | None]] = [(pattern, value, None)]
    unknown = False
    while waiting:
        lhs, item, held = waiting.pop()
        match lhs:
            case PatternWildcard():
                pass
            case PatternVar():
                is_closed = held is not None and not free_type_vars(held)
                bound[lhs.var] = item, held if is_closed else None
            case PatternTuple() if isinstance(item.known, Fields):
                kinds = held.fields if isinstance(held, TupleType) else (None,) * len(lhs.patterns)
                waiting.extend(zip(lhs.patterns, item.known.fields, kinds))
            case PatternConstructor() if isinstance(item.known, Data):
                if lhs.constructor.index != item.known.constructor.index:
                    return False
                waiting.extend(zip(lhs.patterns, item.known.fields, lhs.constructor.inputs))
            case PatternConstructor() if isinstance(item.known, Constructor):
                if lhs.constructor.index != item.known.index:
                    return False
            case _:
                unknown = True
    return None if unknown else True


def renewed_pattern(pattern: Pattern, bound: dict[Var, Value], env: Env) -> Pattern:
    """Return a pattern with new variables, of which nothing is known."""

    def renewed(part: Pattern) -> Pattern:
        if not isinstance(part, PatternVar):
            return part
        old = part.var
        new = Var(old.name, env.type(old.type_annotation), span=old.span)
        bound[old] = Value(atom=new)
        return PatternVar(new, span=part.span)

    return rewrite_pattern(pattern, renewed)


def folded_call(op: Operator, args: Sequence[Value], attrs: Mapping[str, object]) -> Value | None:
    """Return the result of an operator on small constants, None if it must run."""
    arrays = [_array(arg) for arg in args]
    if not arrays or any(array is None for array in arrays):
        return None
    try:
        types = [array_type(array) for array in arrays]
        size = op.result_type(types, attrs)
        if not op.is_data_dependent and _bytes(size) > FOLDED_BYTES:
            return None
        return _constant(op.evaluate(arrays, attrs))
    except (RelayError, ArithmeticError, ValueError, IndexError, MemoryError):
        return None


def _array(value: Value) -> object:
    known = value.known
    if isinstance(known, Constant):
        return known.data if known.data.nbytes <= FOLDED_BYTES else None
    if isinstance(known, Fields):
        items = tuple(_array(field_) for field_ in known.fields)
        return None if any(item is None for item in items) else items
    return None


def _bytes(type_: Type) -> int:
    total = 0
    for part in type_walk(type_):
        if isinstance(part, TensorType):
            sizes = [d if isinstance(d, int) else FOLDED_BYTES for d in part.shape]
            total += int(np.prod(sizes, dtype=object)) * 8
    return total


def _constant(result: object) -> Value:
    if isinstance(result, tuple):
        return Value(Fields(tuple(map(_constant, result))))
    made = Constant(np.asarray(result))
    return Value(made, made)
