"""What generic code takes out of data at a size that only a run knows may have another size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from relayvm.base.dims import ANY
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.ir.expr import Call, Expr, Let, Match, Var
from relayvm.ir.types import TensorType, TupleType, Type, TypeVar
from relayvm.ir.visit import binders, post_order, with_type_children


class HeldTypes(TypeMap):
    """Maps types as another map does, but for sizes of a run in what type parameters stand for:
    they are `?`, except inside of data, functions and references, where nothing is compared.
    """

    def __init__(self, plain: TypeMap) -> None:
        super().__init__()
        self.types, self.dims = plain.types, plain.dims
        self._plain = plain
        self._opened = _Opened()

    def _scope(self, type_: Type) -> Type | None:
        return None if isinstance(type_, TupleType) else self._plain(type_)

    def _leaf(self, type_: Type) -> Type:
        image = self._plain(type_)
        return self._opened(image) if isinstance(type_, TypeVar) else image

    def _image(self, type_: Type, parts: tuple[Type, ...]) -> Type:
        return with_type_children(type_, parts)


class _Opened(TypeMap):
    """Maps sizes that only a run knows to `?` in tensors and tuples of them."""

    def _scope(self, type_: Type) -> Type | None:
        return None if isinstance(type_, TupleType) else type_

    def _leaf(self, type_: Type) -> Type:
        if not isinstance(type_, TensorType):
            return type_
        shape = tuple(d if isinstance(d, int) else ANY for d in type_.shape)
        return type_ if shape == type_.shape else replace(type_, shape=shape)

    def _image(self, type_: Type, parts: tuple[Type, ...]) -> Type:
        return with_type_children(type_, parts)


class InstanceCopier(Copier):
    """Copies a generic function for one use. Data of type A may hold tensors of another size than A
    has here, which nothing compared: what a pattern takes out of it goes to a function value as one
    of any size, `f(%x)` -> `let %v: Tensor[(?), float32] = %x; f(%v)`, so that what that function
    declares is compared.
    """

    def __init__(self, types: TypeMap) -> None:
        super().__init__(types)
        self._held = HeldTypes(types)
        self._patterns: set[int] = set()

    def copy(self, root: Expr) -> Expr:
        """Return the copy."""
        for node in post_order(root):
            if isinstance(node, Match):
                self._patterns.update(map(id, binders(node)))
        return super().copy(root)

    def _node(self, node: Expr, done: Mapping[int, Expr]) -> Expr:
        new = super()._node(node, done)
        if not isinstance(node, Call) or not isinstance(node.op, Var) or not isinstance(new, Call):
            return new
        lets: list[tuple[Var, Expr]] = []
        args: list[Expr] = []
        for old, arg in zip(node.args, new.args):
            kind = old.checked_type
            if id(old) in self._patterns and kind is not None:
                held = self._held(kind)
                if held != arg.checked_type:
                    lets.append((Var("v", held, span=arg.span, checked_type=held), arg))
                    arg = lets[-1][0]
            args.append(arg)
        result: Expr = replace(new, args=tuple(args)) if lets else new
        for var, value in reversed(lets):
            result = Let(var, value, result, span=new.span, checked_type=new.checked_type)
        return result
