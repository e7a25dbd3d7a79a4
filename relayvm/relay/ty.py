"""TVM's names for types: calling them takes the original's parameters and makes `ir` types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any as AnyValue

from relayvm.base.diagnostics import error, quantity
from relayvm.base.dims import ANY, AnyDim, DimVar
from relayvm.base.source import Span
from relayvm.compiler.kinds import RELATIONS
from relayvm.ir import types as ir
from relayvm.ir.types import Kind, TypeParam
from relayvm.relay.node import NodeClass, as_attrs, as_dtype, as_shape, as_type, as_types


class TypeKind:
    """The kinds of types, by TVM's names."""

    Type = Kind.TYPE
    ShapeVar = Kind.SHAPE_VAR
    BaseType = Kind.BASE_TYPE
    Constraint = Kind.CONSTRAINT
    AdtHandle = Kind.ADT_HANDLE
    TypeData = Kind.TYPE_DATA


class Type(metaclass=NodeClass):
    """Any type."""

    nodes = (ir.Type, DimVar)


class TensorType(metaclass=NodeClass):
    """A tensor with dims and an element type."""

    nodes = (ir.TensorType,)

    @staticmethod
    def make(shape: Sequence[object], dtype: str = "float32") -> ir.TensorType:
        """Return a tensor type; dims are integers, variables or `relay.Any()`."""
        return ir.TensorType(as_shape(shape), as_dtype(dtype))


class TupleType(metaclass=NodeClass):
    """The type of tuples."""

    nodes = (ir.TupleType,)

    @staticmethod
    def make(fields: Sequence[ir.Type]) -> ir.TupleType:
        """Return the type of tuples with these fields."""
        return ir.TupleType(as_types(fields, "a tuple type"))


class FuncType(metaclass=NodeClass):
    """The type of functions."""

    nodes = (ir.FuncType,)

    @staticmethod
    def make(
        arg_types: Sequence[ir.Type],
        ret_type: ir.Type,
        type_params: Sequence[TypeParam] | None = None,
        type_constraints: Sequence[ir.TypeRelation] | None = None,
    ) -> ir.FuncType:
        """Return the type of functions from and to these types."""
        return ir.FuncType(
            as_types(arg_types, "a function type"),
            as_type(ret_type, "a function type"),
            tuple(type_params or ()),
            tuple(type_constraints or ()),
        )


class TypeConstraint(metaclass=NodeClass):
    """What holds for type parameters."""

    nodes = (ir.TypeRelation,)


_RELATION_PREFIX = "tvm.relay.type_relation."


class TypeRelation(metaclass=NodeClass):
    """Types that go together as those of an operator's operands and result."""

    nodes = (ir.TypeRelation,)

    @staticmethod
    def make(
        func: AnyValue, args: Sequence[ir.Type], num_inputs: int, attrs: AnyValue
    ) -> ir.TypeRelation:
        """Return the relation of an operator, given by name or as one of TVM's relations; the last
        of `args` is the type of the result.
        """
        name = str(getattr(func, "name", func)).removeprefix(_RELATION_PREFIX)
        parts = as_types(args, "a type relation")
        if num_inputs != len(parts) - 1:
            known = quantity(len(parts) - 1, "input")
            message = f"{quantity(len(parts), 'type')} are {known} and a result"
            raise error("bad-node", f"{message}, not {quantity(num_inputs, 'input')}")
        return ir.TypeRelation(RELATIONS.get(name, name), parts, as_attrs(attrs) or None)


class TypeVar(metaclass=NodeClass):
    """A type parameter; one of kind ShapeVar is a variable for sizes."""

    nodes = (ir.TypeVar, DimVar)

    @staticmethod
    def make(name_hint: str, kind: Kind = TypeKind.Type) -> TypeParam:
        """Return a new type parameter."""
        if kind is Kind.SHAPE_VAR:
            return DimVar(name_hint)
        return ir.TypeVar(name_hint, kind)


def ShapeVar(name: str) -> DimVar:
    """Return a new variable for sizes, to stand in shapes and among type parameters."""
    return DimVar(name)


class GlobalTypeVar(metaclass=NodeClass):
    """The name of a data type; calling it with arguments makes a type."""

    nodes = (ir.GlobalTypeVar,)

    @staticmethod
    def make(name_hint: str, kind: Kind = TypeKind.AdtHandle) -> ir.GlobalTypeVar:
        """Return the name of a data type, which is of kind AdtHandle whatever `kind` says."""
        return ir.GlobalTypeVar(name_hint)


class TypeCall(metaclass=NodeClass):
    """A data type applied to arguments."""

    nodes = (ir.TypeCall,)

    @staticmethod
    def make(func: ir.GlobalTypeVar, args: Sequence[ir.Type]) -> ir.TypeCall:
        """Return `func[args]`."""
        return ir.TypeCall(func, as_types(args, "a type call"))


class RefType(metaclass=NodeClass):
    """The type of references."""

    nodes = (ir.RefType,)

    @staticmethod
    def make(value: ir.Type) -> ir.RefType:
        """Return the type of references to values of a type."""
        return ir.RefType(as_type(value, "a reference type"))


class IncompleteType(metaclass=NodeClass):
    """A type still to be inferred."""

    nodes = (ir.IncompleteType,)

    @staticmethod
    def make(kind: Kind = TypeKind.Type) -> ir.IncompleteType:
        """Return a new hole."""
        return ir.IncompleteType(kind)


class Any(metaclass=NodeClass):
    """The dim `?`: a size that only a run knows."""

    nodes = (AnyDim,)

    @staticmethod
    def make(span: AnyValue = None) -> AnyDim:
        """Return `?`."""
        return ANY


def scalar_type(dtype: str) -> ir.TensorType:
    """Return the type of rank-0 tensors."""
    return ir.TensorType((), as_dtype(dtype))


def is_dynamic(tensor_type: ir.TensorType) -> bool:
    """Tell whether a dim of the type is `?` or symbolic."""
    return any(not isinstance(dim, int) for dim in tensor_type.shape)


__all__ = [
    "Any",
    "FuncType",
    "GlobalTypeVar",
    "IncompleteType",
    "RefType",
    "ShapeVar",
    "Span",
    "TensorType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeConstraint",
    "TypeKind",
    "TypeRelation",
    "TypeVar",
    "is_dynamic",
    "scalar_type",
]
