"""What types become under differentiation: each float tensor is paired with a reference that
gathers its gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from relayvm.base.dims import ANY, AnyDim
from relayvm.ir.expr import Constructor
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import (
    UNIT,
    FuncType,
    GlobalTypeVar,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
)
from relayvm.ir.visit import node_types, post_order, rewrite_type, type_children, type_walk

BACKWARD = FuncType((), UNIT)
TAPE = RefType(BACKWARD)


def is_float(type_: Type | None) -> bool:
    """Return True for the tensors that have gradients."""
    return isinstance(type_, TensorType) and type_.dtype.is_float


def has_float(type_: Type) -> bool:
    """Return True if a tensor with a gradient stands in a type of tensors and tuples."""
    return any(is_float(part) for part in type_walk(type_))


class AdjointTypes:
    """Maps types: `Tensor[s, float32]` to `(Tensor[s, float32], ref(Tensor[s, float32]))`, and a
    function's to one that takes the tape as well.

    A data type whose own fields change becomes a new one, in `added`; `List[A]` stays, as only its
    argument changes. In a program with sizes `?` the references hold tensors of any size: what
    differs in size only must have one type where it joins, and references are invariant.
    """

    def __init__(self, module: Module, suffix: str = "_adjoint") -> None:
        self.module = module
        self.is_loose = any(_has_unknown_size(t) for t in _types_of(module))
        self.renamed = self._changed_types(suffix)
        self.constructors: dict[tuple[str, int], Constructor] = {}
        self.added: dict[str, TypeData] = {}
        for name, new in self.renamed.items():
            self.added[new] = self._definition(module.types[name], suffix)

    def of(self, type_: Type) -> Type:
        """Return what a type becomes."""
        return rewrite_type(type_, self._step)

    def optional(self, type_: Type | None) -> Type | None:
        """Return what a type becomes, None for None."""
        return None if type_ is None else self.of(type_)

    def gathered(self, tensor: TensorType) -> TensorType:
        """Return the type of what the reference beside a tensor holds."""
        if not self.is_loose:
            return TensorType(tensor.shape, tensor.dtype)
        return TensorType((ANY,) * tensor.rank, tensor.dtype)

    def constructor(self, old: Constructor) -> Constructor:
        """Return the constructor in the place of one."""
        return self.constructors.get((old.belong_to.name, old.index), old)

    def _step(self, type_: Type) -> Type:
        match type_:
            case TensorType() if type_.dtype.is_float:
                return TupleType((type_, RefType(self.gathered(type_))))
            case FuncType():
                return replace(type_, arg_types=(*type_.arg_types, TAPE))
            case GlobalTypeVar() if type_.name in self.renamed:
                return GlobalTypeVar(self.renamed[type_.name])
            case TypeCall() if type_.func.name in self.renamed:
                return replace(type_, func=GlobalTypeVar(self.renamed[type_.func.name]))
        return type_

    def _changed_types(self, suffix: str) -> dict[str, str]:
        """Return new names of the data types with fields that change whatever their arguments."""
        types = self.module.types
        changed: set[str] = set()
        while True:
            more = {
                name
                for name, data in types.items()
                if name not in changed
                and any(_changes(t, changed) for c in data.constructors for t in c.inputs)
            }
            if not more:
                return {name: _fresh(name + suffix, types) for name in types if name in changed}
            changed |= more

    def _definition(self, data: TypeData, suffix: str) -> TypeData:
        header = GlobalTypeVar(self.renamed[data.header.name])
        constructors = []
        for old in data.constructors:
            inputs = tuple(map(self.of, old.inputs))
            new = Constructor(old.name + suffix, inputs, header, old.index, span=old.span)
            self.constructors[data.header.name, old.index] = new
            constructors.append(new)
        return TypeData(header, data.type_params, tuple(constructors), span=data.span)


def _changes(type_: Type, changed: set[str]) -> bool:
    for part in type_walk(type_):
        if is_float(part) or isinstance(part, FuncType):
            return True
        if isinstance(part, GlobalTypeVar) and part.name in changed:
            return True
        if isinstance(part, TypeCall) and part.func.name in changed:
            return True
    return False


def _fresh(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "_"
    return name


def _types_of(module: Module) -> Iterator[Type]:
    for data in module.types.values():
        for constructor in data.constructors:
            yield from constructor.inputs
    for function in module.functions.values():
        for node in post_order(function):
            if node.checked_type is not None:
                yield node.checked_type
            yield from node_types(node)


def _has_unknown_size(type_: Type) -> bool:
    if not type_children(type_):
        return _is_unknown(type_)
    return any(map(_is_unknown, type_walk(type_)))


def _is_unknown(type_: Type) -> bool:
    return isinstance(type_, TensorType) and any(isinstance(d, AnyDim) for d in type_.shape)
