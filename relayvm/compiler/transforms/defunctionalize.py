"""Defunctionalisation: function values become data, and calls of them calls of `apply` functions.

J. C. Reynolds, "Definitional interpreters for higher-order programming languages". Function types
that differ in sizes only share one data type where a value of one may be one of the other: then
sizes are compared where they are known. Where all agree in them they are kept, since inside data
types nothing can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from relayvm.base.diagnostics import RelayError, error
from relayvm.base.dims import ANY, Dim
from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.analysis.sizes import size_suppliers
from relayvm.compiler.transforms.argument_checks import with_checked_places
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.compiler.transforms.cps_types import data_with_functions, holds_functions
from relayvm.compiler.transforms.eta_expand import expanded
from relayvm.compiler.transforms.function_flows import FunctionFlows
from relayvm.compiler.transforms.generic_places import GenericTypes
from relayvm.compiler.transforms.generics_as_data import (
    apply_function,
    fresh,
    never,
    with_generics_as_data,
)
from relayvm.compiler.transforms.instances import types_at
from relayvm.compiler.transforms.instantiate import needs_uniform
from relayvm.compiler.transforms.lift_closures import Lifter
from relayvm.compiler.transforms.size_casts import SizeCasts, is_strict
from relayvm.compiler.transforms.sized_data import with_sized_data
from relayvm.compiler.transforms.sized_instances import with_sized_instances
from relayvm.compiler.transforms.strict_places import joined_sizes
from relayvm.compiler.transforms.to_anf import function_to_anf
from relayvm.ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Op,
    PatternConstructor,
    Var,
)
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import FuncType, GlobalTypeVar, RefType, TupleType, Type, TypeCall
from relayvm.ir.visit import (
    children,
    free_type_vars,
    global_vars,
    node_types,
    post_order,
    substitute,
    type_children,
)


def defunctionalize(module: Module) -> Module:
    """Return the program without function values.

    `let %g = fn (%y) { add(%x, %y) }; %g(%z)` -> `let %g = Fn_f_g(%x); @apply_Fn(%g, %z)` with
    `type Fn { Fn_f_g(int32) }`, `def @apply_Fn(%f: Fn, %y) { match (%f) { Fn_f_g(%x) => @f_g(%x,
    %y) } }`. Functions may be passed, returned, and held by tuples, references and data types.
    Polymorphic functions that are values at no type in particular become data before: see
    `with_generics_as_data`. Requires TYPED, MONOMORPHIC and ANF. Raises RelayError
    `higher-order-entry` if what the host calls takes or returns functions, `polymorphic-entry`
    where instances have no end, as in polymorphic recursion, or references are of several sizes.
    """
    _check_entries(module)
    if not _has_function_values(module):
        return module
    if needs_uniform(module) or _has_polymorphic_types(module):
        module = with_generics_as_data(module)
    try:
        return _Defunctionalizer(module).run()
    except RelayError as refused:
        return _at_sizes(module, refused)


def _at_sizes(module: Module, refused: RelayError) -> Module:
    """Return the program where references of several sizes are in functions that a function of all
    sizes takes or makes: each size has functions and data of its own. Raises the error if that is
    not enough.
    """
    for is_open in (False, True):
        sized = with_sized_instances(module, is_open=is_open)
        if sized is not None:
            sized = with_sized_data(sized)
        if sized is None:
            break
        try:
            return _Defunctionalizer(sized).run()
        except RelayError:
            continue
    raise refused


def _check_entries(module: Module) -> None:
    data = data_with_functions(module)
    chosen = module.attrs.get("entries")
    for name in chosen if isinstance(chosen, tuple) else ("main",):
        function = module.functions.get(str(name))
        if function is None:
            continue
        kind = function.checked_type
        assert isinstance(kind, FuncType)
        for type_ in (*kind.arg_types, kind.ret_type):
            if holds_functions(type_, data):
                message = f"`@{name}` takes or returns functions, which only the host could make"
                raise error("higher-order-entry", message, function.span)


def _has_function_values(module: Module) -> bool:
    if data_with_functions(module):
        return True
    seen: set[int] = set()
    for function in module.functions.values():
        for node in post_order(function):
            if any(holds_functions(t, (), seen) for t in node_types(node)):
                return True
            called = node.op if isinstance(node, Call) else None
            for part in children(node):
                value = isinstance(part, (GlobalVar, Constructor)) and part is not called
                local = isinstance(part, Function) and not is_primitive(part)
                if value or local:
                    return True
    return False


def _has_polymorphic_types(module: Module) -> bool:
    """Tell whether values of a polymorphic type are spoken of, even if the program makes none: as
    by a data type that nothing uses, which `instantiate` leaves as it is.
    """
    is_generic = GenericTypes()
    fields = (t for d in module.types.values() for c in d.constructors for t in c.inputs)
    nodes = (node for function in module.functions.values() for node in post_order(function))
    return any(map(is_generic, chain(fields, chain.from_iterable(map(types_at, nodes)))))


@dataclass(slots=True)
class _FunctionData:
    """The data type of all function values of one type, and what each of its constructors calls.

    `kind` has the sizes on which all of them agree.
    """

    header: GlobalTypeVar
    kind: FuncType
    apply: str
    constructors: list[Constructor] = field(default_factory=list)
    callees: list[str] = field(default_factory=list)

    @property
    def type(self) -> TypeCall:
        """The type of these function values."""
        return TypeCall(self.header, ())


class _WithoutSymbols(TypeMap):
    """Symbols are parameters of functions: a data type cannot name them."""

    def dim(self, dim: Dim) -> Dim:
        return dim if isinstance(dim, int) else ANY


class _Types(TypeMap):
    """Maps function types to data types, made as they are met."""

    def __init__(self, names: set[str], flows: FunctionFlows) -> None:
        super().__init__()
        self.names = names
        self.flows = flows
        self.functions: dict[Type, _FunctionData] = {}
        self.by_name: dict[str, _FunctionData] = {}
        self.close = _WithoutSymbols()

    def _image(self, type_: Type, parts: tuple[Type, ...]) -> Type:
        image = super()._image(type_, parts)
        if not isinstance(type_, FuncType) or not isinstance(image, FuncType):
            return image
        key, kind = self.flows.of(type_), _mapped(self.close, image)
        found = self.functions.get(key)
        if found is None:
            name = self.fresh(f"Fn{len(self.functions)}")
            found = _FunctionData(GlobalTypeVar(name), kind, self.fresh(f"apply_{name}"))
            self.functions[key] = self.by_name[name] = found
        else:
            joined = joined_sizes(found.kind, kind)
            assert isinstance(joined, FuncType)
            found.kind = joined
        return found.type

    def fresh(self, name: str) -> str:
        return fresh(name, self.names)


def _mapped(change: TypeMap, type_: FuncType) -> FuncType:
    return FuncType(tuple(change(a) for a in type_.arg_types), change(type_.ret_type))


class _Defunctionalizer:
    def __init__(self, module: Module) -> None:
        self.module = module
        names = {*module.functions, *module.types}
        names |= {c.name for d in module.types.values() for c in d.constructors}
        self.types = _Types(names, FunctionFlows(module))
        self.data: dict[str, TypeData] = {}

    def run(self) -> Module:
        for name, old in self.module.types.items():
            constructors = tuple(
                replace(c, inputs=tuple(self.types(t) for t in c.inputs)) for c in old.constructors
            )
            self.data[name] = replace(old, constructors=constructors)
        casts = SizeCasts(replace(self.module, types=self.data), self.types.names)
        lifter = _DataLifter(self.types, casts)
        # All types are known before values of them are called.
        functions = {name: self._copy(f) for name, f in self.module.functions.items()}
        for name, copy in functions.items():
            functions[name] = copy if is_primitive(copy) else lifter.run(name, copy)
        functions.update(lifter.lifted)
        functions.update(casts.finished())
        made = self._used(functions)
        for data in made:
            functions[data.apply] = _apply_function(data)
        functions = {n: replace(f, checked_type=None) for n, f in functions.items()}
        types = {**self.data, **{d.header.name: _definition(d) for d in made}}
        return replace(self.module, functions=functions, types=types)

    def _copy(self, function: Function) -> Function:
        plain = function
        if not is_primitive(function):
            checked = with_checked_places(function)
            plain = function_to_anf(expanded(checked, (Constructor, GlobalVar), self.module))
        copy = _DataCopier(self.types, self.data).copy(plain)
        assert isinstance(copy, Function)
        return copy

    def _used(self, functions: dict[str, Function]) -> list[_FunctionData]:
        """Return the data types of functions that the program mentions, in order of first use."""
        kinds = [t for d in self.data.values() for c in d.constructors for t in c.inputs]
        kinds += [t for f in functions.values() for n in post_order(f) for t in node_types(n)]
        calls = {name for f in functions.values() for name in global_vars(f)}
        found: dict[str, _FunctionData] = {
            n: d for n, d in self.types.by_name.items() if d.constructors or d.apply in calls
        }
        kinds += [t for d in found.values() for t in _parts(d)]
        seen: set[int] = set()
        while kinds:
            kind = kinds.pop()
            if isinstance(kind, (TupleType, RefType)) and id(kind) not in seen:
                seen.add(id(kind))
                kinds += type_children(kind)
            elif isinstance(kind, TypeCall):
                data = self.types.by_name.get(kind.func.name)
                if data is not None and kind.func.name not in found:
                    found[kind.func.name] = data
                    kinds += _parts(data)
        return [data for name, data in self.types.by_name.items() if name in found]


class _DataCopier(Copier):
    """Copies with the new types; constructors are those of the new definitions."""

    def __init__(self, types: TypeMap, data: dict[str, TypeData]) -> None:
        mapped = types
        super().__init__(mapped)
        self.definitions = data

    def leaf(self, node: Expr) -> Expr:
        """Return the constructor of the new definition; other leaves without function types."""
        if isinstance(node, Constructor):
            return self._new(node)
        return replace(node, checked_type=None) if isinstance(node, GlobalVar) else node

    def constructor(self, constructor: Constructor, pattern: PatternConstructor) -> Constructor:
        """Return the constructor of the new definition."""
        return self._new(constructor)

    def _new(self, constructor: Constructor) -> Constructor:
        return self.definitions[constructor.belong_to.name].constructors[constructor.index]


class _DataLifter(Lifter):
    """Lifts local functions; their values are data, their calls go through `apply`."""

    def __init__(self, types: _Types, casts: SizeCasts) -> None:
        super().__init__(types.names)
        self.types = types
        self.casts = casts
        self.place: Span | None = None

    def run(self, name: str, function: Function) -> Function:
        self.place = function.span
        return super().run(name, function)

    def value(self, expr: Expr, name: Var | None) -> Recursive[Expr]:
        if not isinstance(expr, Call) or isinstance(expr.op, (Op, Constructor, GlobalVar)):
            plain: Expr = yield super().value(expr, name)
            return plain
        if is_primitive(expr.op):
            return expr
        callee = expr.op
        if isinstance(callee, Function):
            callee = yield self.lift(callee, None)
        return self.applied(expr, callee)

    def applied(self, call: Call, callee: Expr) -> Expr:
        """Return the call through `apply`, its result of the type that was known for it."""
        head = call.op.checked_type
        assert isinstance(head, TypeCall)
        data = self.types.by_name[head.func.name]
        given = self._given(call.args, data.kind.arg_types, call.span)
        result = Call(GlobalVar(data.apply), (callee, *given), span=call.span)
        actual, wanted = data.kind.ret_type, call.checked_type
        if wanted is None or wanted == actual:
            return result
        if is_strict(actual, wanted):
            span = call.span or self.place
            held = Var("result", actual, span=span, checked_type=actual)
            return Let(held, result, self.casts.run(held, actual, wanted), span=span)
        known = Var("result", wanted, span=call.span)
        return Let(known, result, known, span=call.span)

    def _given(
        self, args: Sequence[Expr], kinds: Sequence[Type], span: Span | None
    ) -> tuple[Expr, ...]:
        """Return arguments of the types that `apply` or a constructor has: symbols are `?` there.

        A place at which nothing is known of a type is that of another function.
        """
        found: list[Expr] = []
        for arg, kind in zip(args, kinds):
            own = arg.checked_type
            if own is None or free_type_vars(kind) or not is_strict(own, kind):
                found.append(arg)
                continue
            found.append(self.casts.run(arg, own, kind, arg.span or span or self.place))
        return tuple(found)

    def _taken(self, function: Function, data: _FunctionData) -> Function:
        """Return a function that takes what `apply` has: sizes of its own are compared inside."""
        params, body = [], function.body
        for param, actual in zip(function.params, data.kind.arg_types):
            wanted = _type(param)
            if free_type_vars(wanted) or not is_strict(actual, wanted):
                params.append(param)
                continue
            span = param.span or self.place
            given = Var(param.name, actual, span=span, checked_type=actual)
            params.append(given)
            body = Let(param, self.casts.run(given, actual, wanted), body, span=body.span)
        return replace(function, params=tuple(params), body=body)

    def lift(self, function: Function, name: Var | None) -> Recursive[Expr]:
        function = yield self.inside(function)
        captures = [v for v in self.captures_of(function) if v is not name]
        recursive = len(captures) < len(self.captures_of(function))
        captures += size_suppliers(function, captures, self.params)
        head = function.checked_type
        assert isinstance(head, TypeCall)
        data = self.types.by_name[head.func.name]
        stem = self.fresh_name(name)
        constructor = Constructor(
            self.types.fresh(f"{data.header.name}_{stem}"),
            tuple(self.types.close(_type(v)) for v in captures),
            data.header,
            len(data.constructors),
        )
        data.constructors.append(constructor)
        data.callees.append(stem)
        fresh = {v: Var(v.name, _type(v), span=v.span, checked_type=_type(v)) for v in captures}
        function = self._taken(function, data)
        body = substitute(function.body, dict(fresh))
        if recursive:
            assert name is not None
            own = Var(name.name, head, span=name.span, checked_type=head)
            made = Call(constructor, tuple(fresh.values()), span=function.span)
            body = Let(own, made, substitute(body, {name: own}), span=function.span)
        lifted = replace(
            function, params=(*fresh.values(), *function.params), body=body, type_params=()
        )
        self.lifted[stem] = replace(lifted, type_params=tuple(free_type_vars(lifted)))
        given = self._given(captures, constructor.inputs, function.span)
        return Call(constructor, given, span=function.span, checked_type=head)


def _parts(data: _FunctionData) -> list[Type]:
    fields = [t for c in data.constructors for t in c.inputs]
    return [*fields, *data.kind.arg_types, data.kind.ret_type]


def _type(var: Var) -> Type:
    kind = var.checked_type or var.type_annotation
    assert kind is not None
    return kind


def _definition(data: _FunctionData) -> TypeData:
    constructors = tuple(data.constructors) or (never(data.header),)
    return TypeData(data.header, (), constructors)


def _apply_function(data: _FunctionData) -> Function:
    cases = list(zip(data.constructors, data.callees))
    return apply_function(data.apply, data.type, data.kind.arg_types, data.kind.ret_type, cases)
