"""Code between a program and its differentiated form: values with empty gradients going in, values
and gradients coming out.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dtypes import INT32
from relayvm.base.source import Span
from relayvm.compiler.autodiff.adjoint_types import AdjointTypes, has_float, is_float
from relayvm.compiler.kinds import check_parts
from relayvm.ir.adt import definition_of, field_types
from relayvm.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    PatternConstructor,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.intrinsics import INTRINSICS, array_item
from relayvm.ir.types import (
    UNIT,
    GlobalTypeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
)
from relayvm.ir.visit import TypeWords
from relayvm.ops import OPS

Bindings = list[tuple[Var, Expr]]


class Way(Enum):
    """What a conversion makes of each float tensor."""

    LIFT = "the pair of the tensor and a reference to zeros"
    VALUE = "the tensor of a pair"
    GRADIENT = "the gradient that a pair has gathered"
    SEED = "the pair itself, ones added to its gradient"


def let_all(bindings: Bindings, body: Expr) -> Expr:
    """Return `body` under lets, the first outermost."""
    for variable, value in reversed(bindings):
        body = Let(variable, value, body)
    return body


def zeros_of(types: AdjointTypes, tensor: TensorType, value: Expr, out: Bindings) -> Var:
    """Bind zeros as large as `value`, of the type that its reference holds, and return them."""
    zeros = Var("zeros", types.gathered(tensor))
    out.append((zeros, OPS["zeros_like"](value)))
    return zeros


class Conversions:
    """Makes the conversions by type; those of data types and arrays are functions in `added`."""

    def __init__(self, types: AdjointTypes) -> None:
        self.types = types
        self.added: dict[str, Function] = {}
        self._names: dict[tuple[Way, Type], str] = {}
        self._words = TypeWords()
        self._leaves: dict[Way, Callable[[Expr, TensorType, Bindings], Expr]] = {
            Way.LIFT: self._lift,
            Way.VALUE: lambda pair, tensor, out: TupleGetItem(pair, 0),
            Way.GRADIENT: self._gradient,
            Way.SEED: self._seed,
        }

    def convert(self, way: Way, value: Expr, type_: Type, out: Bindings, span: Span | None) -> Expr:
        """Return the conversion of an atom whose type before differentiation is `type_`.

        Raises RelayError `no-gradient` for a type whose values have no derivative form.
        """
        match type_:
            case TensorType() if is_float(type_):
                return self._leaves[way](value, type_, out)
            case TensorType():
                return OPS["zeros_like"](value) if way is Way.GRADIENT else value
            case TupleType() if way is Way.SEED and not has_float(type_):
                return value
            case TupleType():
                check_parts(type_, span, self._words)
                return self._tuple(way, value, type_, out, span)
            case GlobalTypeVar() | TypeCall():
                name = self._function(way, type_, span)
                return self._bound("converted", Call(GlobalVar(name), (value,)), out)
        kind = type(type_).__name__
        raise error(
            "no-gradient",
            f"a parameter or result of type `{kind}` cannot be differentiated from outside",
            span,
            help="differentiate a function of tensors, tuples and data types that uses it",
        )

    @staticmethod
    def _bound(name: str, value: Expr, out: Bindings) -> Var:
        variable = Var(name)
        out.append((variable, value))
        return variable

    def _lift(self, value: Expr, tensor: TensorType, out: Bindings) -> Expr:
        zeros = zeros_of(self.types, tensor, value, out)
        return self._bound("pair", Tuple((value, RefCreate(zeros))), out)

    def _gradient(self, pair: Expr, tensor: TensorType, out: Bindings) -> Expr:
        read = Var("gradient", TensorType(tensor.shape, tensor.dtype))
        out.append((read, RefRead(TupleGetItem(pair, 1))))
        return read

    def _seed(self, pair: Expr, tensor: TensorType, out: Bindings) -> Expr:
        gathered = self._bound("reference", TupleGetItem(pair, 1), out)
        ones = OPS["ones_like"](TupleGetItem(pair, 0))
        total = Var("total", self.types.gathered(tensor))
        out.append((total, OPS["add"](RefRead(gathered), ones)))
        out.append((Var("_"), RefWrite(gathered, total)))
        return pair

    def _tuple(
        self, way: Way, value: Expr, type_: TupleType, out: Bindings, span: Span | None
    ) -> Expr:
        fields = []
        for i, field in enumerate(type_.fields):
            item = self._bound("item", TupleGetItem(value, i), out)
            fields.append(self.convert(way, item, field, out, span))
        return self._bound("fields", Tuple(tuple(fields)), out)

    def _function(self, way: Way, type_: Type, span: Span | None) -> str:
        known = self._names.get((way, type_))
        if known is not None:
            return known
        definition, _ = definition_of(self.types.module, type_)
        name = f"{way.name.lower()}_{definition.header.name}"
        while name in self.added or name in self.types.module.functions:
            name += "_"
        self._names[way, type_] = name
        item = array_item(type_, self.types.module.types)
        if item is None:
            self.added[name] = self._of_data(way, type_, span)
        else:
            self.added[name] = self._of_array(way, name, type_, item, span)
        return name

    def _ends(self, way: Way, type_: Type) -> tuple[Type, Type]:
        """Return the types of argument and result of a conversion."""
        plain, paired = type_, self.types.of(type_)
        if way is Way.LIFT:
            return plain, paired
        return paired, paired if way is Way.SEED else plain

    def _of_data(self, way: Way, type_: Type, span: Span | None) -> Function:
        definition, _ = definition_of(self.types.module, type_)
        given, made = self._ends(way, type_)
        value = Var("value", given)
        clauses = []
        for old in definition.constructors:
            new = self.types.constructor(old)
            source, target = (old, new) if way is Way.LIFT else (new, old)
            if way is Way.SEED:
                target = new
            clauses.append(self._clause(way, type_, old, source, target, span))
        return Function((value,), Match(value, tuple(clauses)), made)

    def _clause(
        self,
        way: Way,
        type_: Type,
        old: Constructor,
        source: Constructor,
        target: Constructor,
        span: Span | None,
    ) -> Clause:
        kinds = field_types(self.types.module, type_, old)
        variables = [Var(f"field{i}") for i in range(len(kinds))]
        out: Bindings = []
        fields = [self.convert(way, v, kind, out, span) for v, kind in zip(variables, kinds)]
        pattern = PatternConstructor(source, tuple(map(PatternVar, variables)))
        return Clause(pattern, let_all(out, Call(target, tuple(fields))))

    def _of_array(
        self, way: Way, name: str, type_: Type, item: Type, span: Span | None
    ) -> Function:
        """Return the function that converts the items in a loop."""
        given, made = self._ends(way, type_)
        value, place = Var("value", given), Var("i", TensorType((), INT32))
        done = Var("done", made)
        size = Call(INTRINSICS["array.length"], (value,))
        out: Bindings = []
        got = self._bound("item", Call(INTRINSICS["array.get"], (value, place)), out)
        new = self.convert(way, got, item, out, span)
        more = Call(INTRINSICS["array.push"], (done, new))
        step = Call(GlobalVar(f"{name}_items"), (value, OPS["add"](place, _int(1)), more))
        loop = If(OPS["less"](place, size), let_all(out, step), done)
        self.added[f"{name}_items"] = Function((value, place, done), loop, made)
        whole = Var("value", given)
        empty = Call(INTRINSICS["array.new"], (Call(INTRINSICS["array.length"], (whole,)),))
        start = Call(GlobalVar(f"{name}_items"), (whole, _int(0), empty))
        return Function((whole,), start, made)


def _int(value: int) -> Constant:
    return Constant(np.array(value, np.int32))


def unit() -> Tuple:
    """Return the unit value."""
    return Tuple(())


UNIT_TYPE = UNIT
