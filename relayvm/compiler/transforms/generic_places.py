"""Where polymorphic values are taken: at the places of nodes that take values of known types."""

from __future__ import annotations

from collections.abc import Iterator

from relayvm.base.dims import Dim
from relayvm.compiler.transforms.instances import (
    type_params_only,
)
from relayvm.ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    RefCreate,
    RefWrite,
    Tuple,
)
from relayvm.ir.intrinsics import Intrinsic
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, RefType, ShapeArg, Type, TypeCall, TypeParam
from relayvm.ir.visit import (
    SomePart,
    children,
    substitute_in_type,
)


class GenericTypes:
    """Tells which types are, or hold, those of functions with type parameters of kind Type."""

    def __init__(self) -> None:
        self._holds_one = SomePart(_has_type_params)

    def __call__(self, type_: Type | None) -> bool:
        """Return True for a type of values that have more than one instance."""
        return type_ is not None and self._holds_one(type_)


def _has_type_params(part: Type) -> bool:
    return isinstance(part, FuncType) and bool(type_params_only(part.type_params))


class GeneralPlaces:
    """Tells which expressions are as general as what is around them says: without that inference
    could find other types for the polymorphic functions in their values.
    """

    def __init__(self) -> None:
        self._generic = GenericTypes()

    def __call__(self, node: Expr) -> bool:
        """Return True for a choice, new reference or tuple with polymorphic functions in it."""
        return isinstance(node, (If, Match, RefCreate, Tuple)) and self._generic(node.checked_type)


class Places:
    """Tells which types the places of nodes take."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def wanted(self, node: Expr) -> Iterator[tuple[int, Type]]:
        """Yield the places of a node that take values, and the types of these."""
        kind = node.checked_type
        match node:
            case Call():
                yield from enumerate(self.parameters(node), 1)
            case Let() if node.var.checked_type is not None:
                yield 0, node.var.checked_type
            case Function() if isinstance(kind, FuncType):
                yield 0, kind.ret_type
            case If() | Match() if kind is not None:
                yield from ((place, kind) for place in range(1, len(children(node))))
            case RefCreate() if isinstance(kind, RefType):
                yield 0, kind.value
            case RefWrite() if isinstance(node.ref.checked_type, RefType):
                yield 1, node.ref.checked_type.value

    def parameters(self, call: Call) -> tuple[Type, ...]:
        """Return the types of the arguments that a call takes; none for operators."""
        op, given = call.op, call.type_args
        if isinstance(op, Constructor):
            data = self.module.types[op.belong_to.name]
            applied = call.checked_type
            assert isinstance(applied, TypeCall)
            known = _bound(data.type_params, applied.args)
            return tuple(substitute_in_type(t, known) for t in op.inputs)
        kind = op.checked_type
        if isinstance(op, Intrinsic):
            kind = op.type
        elif isinstance(op, GlobalVar):
            whole = self.module.functions[op.name]
            # One that was a value, and is called now, has the types of its instance.
            is_instance = not given and bool(whole.type_params) and isinstance(kind, FuncType)
            kind = kind if is_instance else whole.checked_type
        if not isinstance(kind, FuncType):
            return ()
        known = _bound(kind.type_params, given)
        return tuple(substitute_in_type(t, known) for t in kind.arg_types)


def _bound(params: tuple[TypeParam, ...], given: tuple[Type, ...]) -> dict[TypeParam, Type | Dim]:
    return {p: a.dim if isinstance(a, ShapeArg) else a for p, a in zip(params, given)}
