"""Types of Relay. Equality is structural; type variables are equal only if they are the same
object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Union

from relayvm.base.dims import Dim, DimVar
from relayvm.base.dtypes import DType
from relayvm.base.source import Span


class Kind(Enum):
    """The kind of a type: what it may stand for."""

    TYPE = "Type"
    SHAPE_VAR = "ShapeVar"
    BASE_TYPE = "BaseType"
    CONSTRAINT = "Constraint"
    ADT_HANDLE = "AdtHandle"
    TYPE_DATA = "TypeData"


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """Base of all types. `span` takes no part in equality."""

    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """A tensor with dims from the outermost axis inward; rank 0 is a scalar."""

    shape: tuple[Dim, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """The type of tuples; no fields is the unit type `()`."""

    fields: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class FuncType(Type):
    """The type of functions. A `DimVar` among the type parameters is one of kind ShapeVar; each
    use solves the constraints for its type arguments.
    """

    arg_types: tuple[Type, ...]
    ret_type: Type
    type_params: tuple[TypeParam, ...] = ()
    type_constraints: tuple[TypeRelation, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeRelation(Type):
    """A constraint on type parameters, `add(A, B, C)`: the last of `args` is the type of what the
    operator `name` gives for operands of the others. `attrs` are attributes of the operator.
    """

    name: str
    args: tuple[Type, ...]
    attrs: Mapping[str, object] | None = None

    @property
    def num_inputs(self) -> int:
        """The number of operands."""
        return len(self.args) - 1


@dataclass(frozen=True, slots=True)
class RefType(Type):
    """The type of references to a value."""

    value: Type


@dataclass(frozen=True, slots=True, eq=False)
class TypeVar(Type):
    """A type parameter."""

    name: str
    kind: Kind = Kind.TYPE


@dataclass(frozen=True, slots=True)
class GlobalTypeVar(Type):
    """The name of a data type in a module."""

    name: str


@dataclass(frozen=True, slots=True)
class TypeCall(Type):
    """A data type applied to arguments: `List[A]`. An argument for a ShapeVar parameter is a
    `ShapeArg`.
    """

    func: GlobalTypeVar
    args: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class ShapeArg(Type):
    """A dim in the place of a type argument."""

    dim: Dim


@dataclass(frozen=True, slots=True, eq=False)
class IncompleteType(Type):
    """A type still to be inferred; written `_`."""

    kind: Kind = Kind.TYPE


TypeParam = Union[TypeVar, DimVar]

UNIT = TupleType(())


def scalar_type(dtype: DType) -> TensorType:
    """Return the rank-0 tensor type."""
    return TensorType((), dtype)
