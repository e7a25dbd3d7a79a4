"""Copies of expressions with fresh binders, and maps of the types in them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace

from relayvm.base.dims import AnyDim, Dim, DimVar, dim_substitute, symbol
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Var,
)
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
    ShapeArg,
    TensorType,
    Type,
    TypeCall,
    TypeParam,
    TypeRelation,
    TypeVar,
)
from relayvm.ir.visit import (
    TypeVariables,
    bound_vars,
    post_order,
    type_children,
    variables_of,
    with_own_params,
    with_parts,
    with_type_children,
)


class TypeMap:
    """A mapping of types: variables to types or dims, and what `data` makes of data types."""

    def __init__(
        self,
        types: Mapping[TypeVar, Type] | None = None,
        dims: Mapping[DimVar, Dim] | None = None,
    ) -> None:
        self.types = dict(types or {})
        self.dims = dict(dims or {})
        # Images found before, with the types themselves: ids of dead ones would come again.
        self._done: dict[int, tuple[Type, Type]] = {}
        self._known = (0, 0)
        self._variables = TypeVariables()

    def bind(self, params: tuple[TypeParam, ...], args: tuple[Type, ...]) -> None:
        """Map the type parameters to the arguments of a use."""
        self._done.clear()
        for param, arg in zip(params, args):
            if isinstance(param, DimVar):
                assert isinstance(arg, ShapeArg)
                self.dims[param] = arg.dim
            else:
                self.types[param] = arg

    def dim(self, dim: Dim) -> Dim:
        """Return the image of a dim."""
        return dim_substitute(dim, self.dims) if self.dims else dim

    def data(self, type_: GlobalTypeVar | TypeCall, args: tuple[Type, ...]) -> Type:
        """Return the image of a data type whose arguments have been mapped to `args`."""
        return replace(type_, args=args) if isinstance(type_, TypeCall) else type_

    def relation(self, relation: TypeRelation) -> TypeRelation:
        """Return the image of a constraint."""
        return replace(relation, args=tuple(self(a) for a in relation.args))

    def __call__(self, type_: Type) -> Type:
        """Return the image of a type. What it found is remembered, so that types which grow from
        node to node cost no more each time.
        """
        known = len(self.types), len(self.dims)
        if known != self._known:
            self._known = known
            self._done.clear()
        done = self._done
        opened: set[int] = set()
        waiting = [type_]
        while waiting:
            part = waiting.pop()
            if id(part) in done:
                continue
            below = type_children(part)
            if not below:
                done[id(part)] = (part, self._leaf(part))
            elif id(part) not in opened and (own := self._scope(part)) is not None:
                done[id(part)] = (part, own)
            elif id(part) in opened:
                inner = tuple([done[id(p)][1] for p in below])
                done[id(part)] = (part, self._image(part, inner))
            else:
                opened.add(id(part))
                waiting.append(part)
                waiting.extend(reversed(below))
        return done[id(type_)][1]

    def _scope(self, type_: Type) -> Type | None:
        """Return the image of a polymorphic function type whose parameters are not those that the
        map knows, or may not be in the images of what stands inside; None for other types.
        """
        if not isinstance(type_, FuncType) or not type_.type_params:
            return None
        if not self.types and not self.dims:
            return None
        renamed = [types_of_param(p, self) for p in type_.type_params]
        put: set[TypeParam] = set()
        for param in self._variables(type_):
            image = self.dims.get(param) if isinstance(param, DimVar) else self.types.get(param)
            if image is not None:
                put.update(variables_of(image, self._variables))
        if None not in renamed and len(set(renamed)) == len(renamed) and put.isdisjoint(renamed):
            return None
        inside = copy(self)
        inside._done = {}
        inside.types = {p: t for p, t in self.types.items() if p not in type_.type_params}
        inside.dims = {p: d for p, d in self.dims.items() if p not in type_.type_params}
        return inside(type_ if put.isdisjoint(type_.type_params) else with_own_params(type_))

    def function(self, type_: FuncType) -> Type:
        """Return the image of a function type whose parts have been mapped."""
        return type_

    def _leaf(self, type_: Type) -> Type:
        match type_:
            case TensorType():
                shape = tuple(self.dim(d) for d in type_.shape)
                return type_ if shape == type_.shape else replace(type_, shape=shape)
            case TypeVar():
                return self.types.get(type_, type_)
            case ShapeArg():
                return replace(type_, dim=self.dim(type_.dim))
            case GlobalTypeVar() | TypeCall():
                return self.data(type_, ())
        return type_

    def _image(self, type_: Type, parts: tuple[Type, ...]) -> Type:
        if isinstance(type_, TypeCall):
            return self.data(type_, parts)
        new = with_type_children(type_, parts)
        if not isinstance(new, FuncType):
            return new
        if new.type_params:
            images = (types_of_param(p, self) for p in new.type_params)
            new = replace(new, type_params=tuple(p for p in images if p is not None))
        return self.function(new)

    def optional(self, type_: Type | None) -> Type | None:
        """Return the image of a type that may be missing."""
        return None if type_ is None else self(type_)


class Copier:
    """Copies an expression: binders become fresh variables, types are mapped.

    Subclasses override `leaf` to replace globals and constructors.
    """

    def __init__(self, types: TypeMap, variables: Mapping[int, Expr] | None = None) -> None:
        self.types = types
        self.variables: dict[int, Expr] = dict(variables or {})

    def copy(self, root: Expr) -> Expr:
        """Return the copy; variables that are free in `root` and not given stay themselves."""
        for node in post_order(root):
            if isinstance(node, Function):
                self._refresh_type_params(node)
        for var in bound_vars(root):
            if id(var) not in self.variables:
                self.variables[id(var)] = self._fresh(var)
        done: dict[int, Expr] = {}
        for node in post_order(root):
            done[id(node)] = self._node(node, done)
        return done[id(root)]

    def leaf(self, node: Expr) -> Expr:
        """Return what stands for a global, constructor, operator or constant."""
        if node.checked_type is None or isinstance(node, (Op, Constant)):
            return node
        return replace(node, checked_type=self.types(node.checked_type))

    def constructor(self, constructor: Constructor, pattern: PatternConstructor) -> Constructor:
        """Return what stands for the constructor of a pattern."""
        return constructor

    def _node(self, node: Expr, done: Mapping[int, Expr]) -> Expr:
        if isinstance(node, Var):
            return self.variables.get(id(node), node)
        if isinstance(node, (GlobalVar, Constructor, Op, Constant)):
            return self.leaf(node)
        new = with_parts(node, done)
        types = self.types
        match new:
            case Function():
                params = tuple(self._binder(p) for p in new.params)
                kept = tuple(types_of_param(p, types) for p in new.type_params)
                type_params = tuple(p for p in kept if p is not None)
                new = replace(
                    new,
                    params=params,
                    ret_type=types.optional(new.ret_type),
                    type_params=type_params,
                    type_constraints=tuple(types.relation(r) for r in new.type_constraints),
                )
            case Let():
                new = replace(new, var=self._binder(new.var))
            case Match():
                clauses = tuple(
                    replace(c, lhs=trampoline(self._pattern(c.lhs))) for c in new.clauses
                )
                new = replace(new, clauses=clauses)
            case Call():
                type_args = tuple(types(t) for t in new.type_args)
                attrs = new.attrs
                if types.dims and any(_has_dim(v) for v in attrs.values()):
                    mapped = {k: self._attr(v) for k, v in attrs.items()}
                    attrs = type(attrs)(mapped)
                new = replace(new, type_args=type_args, attrs=attrs)
        typed = replace(new, checked_type=types.optional(new.checked_type))
        return self._with_its_type(node, typed)

    def _with_its_type(self, node: Expr, new: Expr) -> Expr:
        """Return `let %v: A = op(..); %v` where an operator gives a type parameter A that has `?`
        here: the rule may know more, but what the function promises is A.
        """
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            return new
        promised = new.checked_type
        if not isinstance(node.checked_type, TypeVar) or not isinstance(promised, TensorType):
            return new
        if not any(isinstance(dim, AnyDim) for dim in promised.shape):
            return new
        result = Var("result", promised, checked_type=promised)
        return Let(result, new, result, span=node.span, checked_type=promised)

    def _attr(self, value: object) -> object:
        if isinstance(value, tuple):
            return tuple(self._attr(v) for v in value)
        return self.types.dim(value) if _has_dim(value) else value  # type: ignore[arg-type]

    def _binder(self, var: Var) -> Var:
        new = self.variables[id(var)]
        assert isinstance(new, Var)
        return new

    def _fresh(self, var: Var) -> Var:
        return replace(
            var,
            type_annotation=self.types.optional(var.type_annotation),
            checked_type=self.types.optional(var.checked_type),
        )

    def _pattern(self, pattern: Pattern) -> Recursive[Pattern]:
        if isinstance(pattern, PatternVar):
            return replace(pattern, var=self._binder(pattern.var))
        if not isinstance(pattern, (PatternConstructor, PatternTuple)):
            return pattern
        parts: list[Pattern] = []
        for part in pattern.patterns:
            parts.append((yield self._pattern(part)))
        if isinstance(pattern, PatternTuple):
            return replace(pattern, patterns=tuple(parts))
        constructor = self.constructor(pattern.constructor, pattern)
        return replace(pattern, constructor=constructor, patterns=tuple(parts))

    def _refresh_type_params(self, function: Function) -> None:
        for param in function.type_params:
            if isinstance(param, DimVar):
                if param not in self.types.dims:
                    self.types.dims[param] = symbol(DimVar(param.name))
            elif param not in self.types.types:
                self.types.types[param] = TypeVar(param.name, param.kind)


def types_of_param(param: TypeParam, types: TypeMap) -> TypeParam | None:
    """Return the fresh variable that stands for a type parameter; None if it is bound to a type."""
    if isinstance(param, DimVar):
        dim = types.dims.get(param, symbol(param))
        return getattr(dim, "variable", None)
    image = types.types.get(param, param)
    return image if isinstance(image, TypeVar) else None


def _has_dim(value: object) -> bool:
    if isinstance(value, tuple):
        return any(_has_dim(v) for v in value)
    return hasattr(value, "terms")
