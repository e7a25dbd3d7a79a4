"""Functors over types: one method a kind of type, to be redefined by users."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from relayvm.base.diagnostics import Diagnostic
from relayvm.base.dims import DimVar
from relayvm.ir import types as ir
from relayvm.ir.module import TypeData
from relayvm.ir.visit import TypeWords
from relayvm.relay.expr_functor import MissingMethod

_METHODS: dict[type, str] = {
    ir.TypeVar: "visit_type_var",
    DimVar: "visit_type_var",
    ir.IncompleteType: "visit_incomplete_type",
    ir.TensorType: "visit_tensor_type",
    ir.FuncType: "visit_func_type",
    ir.TupleType: "visit_tuple_type",
    ir.RefType: "visit_ref_type",
    ir.GlobalTypeVar: "visit_global_type_var",
    ir.TypeCall: "visit_type_call",
    ir.TypeRelation: "visit_type_relation",
    TypeData: "visit_type_data",
}


# A larger type, written out, shares its parts: each of these is visited once, wherever it stands.
MOST_WORDS = 1 << 16

# What a functor knows while it visits a type that is not that large.
_PLAIN: dict[int, tuple[Any, Any]] = {}


class TypeFunctor:
    """Calls the method for the class of a type.

    Parts are visited wherever they stand, but for types of more than 65,536 words: there each
    object is visited once.
    """

    _known: dict[int, tuple[Any, Any]] | None = None

    def visit(self, typ: Any) -> Any:
        """Return what the method for this type gives."""
        known = self._known
        if known is None:
            self._known = {} if _is_large(typ) else _PLAIN
            try:
                return self._visit(typ)
            finally:
                self._known = None
        if known is _PLAIN:
            return self._visit(typ)
        if id(typ) not in known:
            known[id(typ)] = (typ, self._visit(typ))
        return known[id(typ)][1]

    def _visit(self, typ: Any) -> Any:
        name = _METHODS.get(type(typ))
        method = getattr(self, name, None) if name else None
        if method is None:
            kind, own = type(typ).__name__, type(self).__name__
            message = f"functor `{own}` has no method for `{kind}`"
            raise MissingMethod(Diagnostic("bad-node", message))
        return method(typ)


def _is_large(item: Any) -> bool:
    parts: tuple[ir.Type, ...] = (item,) if isinstance(item, ir.Type) else ()
    if isinstance(item, TypeData):
        parts = tuple(t for constructor in item.constructors for t in constructor.inputs)
    words = TypeWords()
    return sum(map(words, parts)) > MOST_WORDS


class TypeVisitor(TypeFunctor):
    """Visits every part of a type; results are None."""

    def visit_type_var(self, tv: Any) -> Any:
        """Do nothing."""

    def visit_incomplete_type(self, it: ir.IncompleteType) -> Any:
        """Do nothing."""

    def visit_tensor_type(self, tt: ir.TensorType) -> Any:
        """Do nothing."""

    def visit_func_type(self, ft: ir.FuncType) -> Any:
        """Visit the types of arguments and result, type parameters and constraints."""
        for part in (*ft.arg_types, ft.ret_type, *ft.type_params, *ft.type_constraints):
            self.visit(part)

    def visit_tuple_type(self, tt: ir.TupleType) -> Any:
        """Visit the fields."""
        for field in tt.fields:
            self.visit(field)

    def visit_type_relation(self, tr: ir.TypeRelation) -> Any:
        """Visit the arguments."""
        for arg in tr.args:
            self.visit(arg)

    def visit_ref_type(self, rt: ir.RefType) -> Any:
        """Visit the type of the value."""
        self.visit(rt.value)

    def visit_global_type_var(self, gtv: ir.GlobalTypeVar) -> Any:
        """Do nothing."""

    def visit_type_call(self, tc: ir.TypeCall) -> Any:
        """Visit the name and the arguments."""
        self.visit(tc.func)
        for arg in tc.args:
            if not isinstance(arg, ir.ShapeArg):
                self.visit(arg)

    def visit_type_data(self, td: TypeData) -> Any:
        """Visit the name, the parameters and the fields of the constructors."""
        self.visit(td.header)
        for param in td.type_params:
            self.visit(param)
        for constructor in td.constructors:
            for field in constructor.inputs:
                self.visit(field)


class TypeMutator(TypeFunctor):
    """Rebuilds a type from what it makes of the parts."""

    def visit_type_var(self, tv: Any) -> Any:
        """Return the variable."""
        return tv

    def visit_incomplete_type(self, it: ir.IncompleteType) -> Any:
        """Return the hole."""
        return it

    def visit_tensor_type(self, tt: ir.TensorType) -> Any:
        """Return the type."""
        return tt

    def visit_func_type(self, ft: ir.FuncType) -> Any:
        """Rebuild a function type."""
        args = tuple([self.visit(arg) for arg in ft.arg_types])
        ret = self.visit(ft.ret_type)
        params = tuple([self.visit(param) for param in ft.type_params])
        constraints = tuple([self.visit(c) for c in ft.type_constraints])
        return ir.FuncType(args, ret, params, constraints, span=ft.span)

    def visit_tuple_type(self, tt: ir.TupleType) -> Any:
        """Rebuild a tuple type."""
        return replace(tt, fields=tuple([self.visit(field) for field in tt.fields]))

    def visit_type_relation(self, tr: ir.TypeRelation) -> Any:
        """Rebuild a relation."""
        return replace(tr, args=tuple([self.visit(arg) for arg in tr.args]))

    def visit_ref_type(self, rt: ir.RefType) -> Any:
        """Rebuild a reference type."""
        return replace(rt, value=self.visit(rt.value))

    def visit_global_type_var(self, gtv: ir.GlobalTypeVar) -> Any:
        """Return the name."""
        return gtv

    def visit_type_call(self, tc: ir.TypeCall) -> Any:
        """Rebuild an applied data type."""
        args = tuple(arg if isinstance(arg, ir.ShapeArg) else self.visit(arg) for arg in tc.args)
        return replace(tc, func=self.visit(tc.func), args=args)

    def visit_type_data(self, td: TypeData) -> Any:
        """Return the definition: its constructors are known to the programs that use them."""
        return td
