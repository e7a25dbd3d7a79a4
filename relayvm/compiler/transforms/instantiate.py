"""Instantiation: functions and data types without type parameters of kind Type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from relayvm.base.diagnostics import RelayError, error
from relayvm.base.dims import Dim, symbol
from relayvm.base.settings import flag
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.compiler.transforms.generic_values import GenericTypes, with_named_instances
from relayvm.compiler.transforms.instances import (
    DEEPEST_NESTING,
    MOST_INSTANCES,
    MOST_PARTS,
    Args,
    ClosedTypes,
    ErasedTypes,
    Extent,
    Instances,
    Limits,
    NotClosed,
    TooDeep,
    TooLarge,
    WithoutEnd,
    function_args,
    join_instances,
    mangled,
    shape_params_only,
    type_args_only,
    type_params_only,
)
from relayvm.compiler.transforms.to_anf import function_to_anf
from relayvm.ir.expr import (
    Attrs,
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    Var,
)
from relayvm.ir.intrinsics import ARRAY_NAME, is_array
from relayvm.ir.module import Module, TypeData
from relayvm.ir.printer import print_type
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
    ShapeArg,
    TupleType,
    Type,
    TypeCall,
    TypeParam,
    TypeVar,
)
from relayvm.ir.visit import binders, children, post_order, rebuild, substitute_in_type


def instantiate(module: Module) -> Module:
    """Give each use of a polymorphic function or data type an instance: `List[int32]` -> `List`.

    An only instance keeps its name; several get the types appended. Parameters of kind ShapeVar
    stay, and so does `Array`. If the instances do not close within 64 levels of nesting or 1,000 of
    one definition, the module is marked `uniform` and otherwise unchanged. The attribute
    `instances` lists the new names of data types and constructors with what they were. Requires
    TYPED.
    """
    if not _is_polymorphic(module):
        return module
    try:
        if flag("RELAYVM_UNIFORM"):
            raise NotClosed("uniform layouts are asked for")
        return _instantiated(module)
    except NotClosed:
        return replace(module, attrs=Attrs(module.attrs, uniform=1))


def _instantiated(module: Module) -> Module:
    return _Instantiation(_without_local_generics(module)).module()


def _without_local_generics(module: Module) -> Module:
    return module.with_functions(
        {name: _without_local_params(f, module) for name, f in module.functions.items()}
    )


def why_not_instantiated(module: Module) -> RelayError:
    """Return the error that tells why `instantiate` left this module to uniform layouts."""
    try:
        _instantiated(module)
    except (TooLarge, TooDeep) as limit:
        if not _grows_without_end(module):
            if isinstance(limit, TooLarge):
                message = f"a type argument has more than {MOST_PARTS:,} parts"
                return error("too-large-type", message, limit.span)
            message = f"a type argument nests deeper than {DEEPEST_NESTING} levels"
            return error("too-deep", message, limit.span)
        reason, place = _ENDLESS, limit.span
    except WithoutEnd as limit:
        reason, place = _ENDLESS, limit.span
    except NotClosed as limit:
        reason, place = str(limit), None
    else:
        reason, place = "uniform layouts are asked for", None
    return error("polymorphic-entry", f"{reason}: its functions cannot be listed", place)


_ENDLESS = "the types of this program grow without end"


def _grows_without_end(module: Module) -> bool:
    """Tell whether it is not for the size of its types alone that the instances do not close.

    Types share their parts, so that any size costs no more than what is written of it.
    """
    try:
        local = _without_local_generics(module)
        Instances(local, Limits(depth=math.inf, parts=math.inf)).collect()
    except (TooLarge, TooDeep):
        return False
    except NotClosed:
        return True
    return False


def needs_uniform(module: Module) -> bool:
    """Return True if `instantiate` left the module to uniform layouts."""
    return bool(module.attrs.get("uniform"))


def _is_polymorphic(module: Module) -> bool:
    for data in module.types.values():
        if type_params_only(data.type_params) and not is_array(data):
            return True
    return any(
        isinstance(node, Function) and bool(type_params_only(node.type_params))
        for function in module.functions.values()
        for node in post_order(function)
    )


# -- Local functions ----------------------------------------------------------------------------


def _without_local_params(function: Function, module: Module) -> Function:
    """Copy each polymorphic local function for the types of its uses; raises NotClosed."""
    named = with_named_instances(function, module)
    takes_values = named is not function
    function = _without_other_names(named)
    while True:
        binding = _last_polymorphic_let(function)
        if binding is None:
            break
        function = _specialised(function, binding)
    for node in post_order(function.body):
        if isinstance(node, Function) and type_params_only(node.type_params):
            raise NotClosed("a polymorphic function is passed on as one")
    _check_types(function)
    return function_to_anf(function) if takes_values else function


def _check_types(function: Function) -> None:
    """Raise NotClosed if a value is left that is used at several types."""
    generic = GenericTypes()
    held = [var.checked_type for var in binders(function)]
    for node in post_order(function.body):
        held += [node.checked_type, *(var.checked_type for var in binders(node))]
        if any(map(generic, held)):
            raise NotClosed("a polymorphic function is passed on as one")
        held = []


def _without_other_names(function: Function) -> Function:
    """Call polymorphic globals and constructors by their names where a let gives them another, and
    without their general types, of which there is no instance; raises NotClosed for other uses.
    """
    named: dict[int, Expr] = {}
    for node in post_order(function.body):
        if isinstance(node, Let):
            value = named.get(id(node.value), node.value)
            if isinstance(value, (GlobalVar, Constructor)) and _is_general(node.var):
                named[id(node.var)] = value

    def step(before: Expr, after: Expr) -> Expr:
        if isinstance(before, Let) and id(before.var) in named:
            assert isinstance(after, Let)
            return after.body
        if isinstance(after, Call) and isinstance(before, Call):
            callee = named.get(id(before.op), before.op)
            if isinstance(callee, (GlobalVar, Constructor)) and _is_general(callee):
                return replace(after, op=replace(callee, checked_type=None))
        return after

    result = rebuild(function, step)
    assert isinstance(result, Function)
    for node in post_order(result.body):
        is_name = isinstance(node, (GlobalVar, Constructor))
        if id(node) in named or (is_name and _is_general(node)):
            raise NotClosed("a polymorphic function is passed on as one")
    return result


def _is_general(expr: Expr) -> bool:
    kind = expr.checked_type
    return isinstance(kind, FuncType) and bool(type_params_only(kind.type_params))


def _last_polymorphic_let(function: Function) -> Let | None:
    """Return a let of a polymorphic function that no other one uses or is around.

    Its uses are at types without parameters of local functions; those of the functions that it
    uses in its turn are, once it is copied for these types.
    """
    inner: set[int] = set()
    lets: list[Let] = []
    for node in post_order(function.body):
        value = node.value if isinstance(node, Let) else None
        if isinstance(value, Function) and type_params_only(value.type_params):
            assert isinstance(node, Let)
            lets.append(node)
            inner.update(id(n) for n in post_order(value) if isinstance(n, Let))
    # The lets of the body of a let come before it.
    return next((node for node in lets if id(node) not in inner), None)


def _specialised(function: Function, binding: Let) -> Function:
    value = binding.value
    assert isinstance(value, Function)
    params = type_params_only(value.type_params)
    own = tuple(params)
    versions: dict[Args, Var] = {}
    extent = Extent()

    def version(user: Expr, position: int) -> Var | None:
        """Return the variable of the version that a use needs; None for the recursive use."""
        use = user.var if isinstance(user, Let) else binding.var
        args = function_args(value, user, use, position == 0, TypeMap())
        if args == own:
            return None
        if args not in versions:
            if len(versions) >= MOST_INSTANCES:
                raise WithoutEnd(binding.var.name, user.span)
            extent.check(args, span=user.span)
            versions[args] = replace(binding.var)
        return versions[args]

    inside = {id(node) for node in post_order(value)}
    chosen: dict[tuple[int, int], Var] = {}
    for node in post_order(function.body):
        for position, part in enumerate(children(node)):
            if part is binding.var:
                if position != 0 or not isinstance(node, (Call, Let)):
                    raise NotClosed("a polymorphic function is passed on as one")
                var = version(node, position)
                if (var is None) != (id(node) in inside):
                    raise NotClosed("a type argument is not determined")
                if var is not None:
                    chosen[id(node), position] = var

    def step(before: Expr, after: Expr) -> Expr:
        if isinstance(after, Call) and (id(before), 0) in chosen:
            shapes = tuple(a for a in after.type_args if isinstance(a, ShapeArg))
            var = chosen[id(before), 0]
            after = replace(after, op=copies[id(var)][0], type_args=shapes)
        if isinstance(after, Let) and (id(before), 0) in chosen:
            after = replace(after, value=copies[id(chosen[id(before), 0])][0])
        if before is binding:
            assert isinstance(after, Let)
            body = after.body
            for var, copy in reversed(list(copies.values())):
                body = Let(var, copy, body, span=after.span, checked_type=after.checked_type)
            return body
        return after

    copies: dict[int, tuple[Var, Function]] = {}
    for args, var in versions.items():
        copies[id(var)] = _version(binding.var, value, TypeMap(dict(zip(params, args))))
    result = rebuild(function, step)
    assert isinstance(result, Function)
    return result


def _version(var: Var, value: Function, types: TypeMap) -> tuple[Var, Function]:
    """Return a copy of a local function for some types, and the variable that names it."""
    mono = replace(
        var,
        type_annotation=types.optional(_mono(_with_params_of(value, var.type_annotation))),
        checked_type=types.optional(_mono(_with_params_of(value, var.checked_type))),
    )

    def drop_args(_before: Expr, after: Expr) -> Expr:
        if isinstance(after, Call) and after.op is mono:
            return replace(after, type_args=tuple(a for a in after.type_args if _is_shape(a)))
        return after

    plain = replace(
        value,
        type_params=shape_params_only(value.type_params),
        type_constraints=(),
        checked_type=_mono(value.checked_type),
    )
    copy = rebuild(Copier(types, {id(var): mono}).copy(plain), drop_args)
    assert isinstance(copy, Function)
    return mono, copy


def _with_params_of(value: Function, type_: Type | None) -> Type | None:
    """Return the type of a variable with the type parameters of the function that it is bound to;
    an annotation has its own.
    """
    if not isinstance(type_, FuncType):
        return type_
    params = dict(zip(type_.type_params, value.type_params))
    own: dict[TypeParam, Type | Dim] = {
        old: new if isinstance(new, TypeVar) else symbol(new) for old, new in params.items()
    }
    inner = substitute_in_type(replace(type_, type_params=()), own)
    assert isinstance(inner, FuncType)
    return replace(inner, type_params=value.type_params)


def _mono(type_: Type | None) -> Type | None:
    if isinstance(type_, FuncType):
        kept = tuple(p for p in type_.type_params if not isinstance(p, TypeVar))
        return replace(type_, type_params=kept, type_constraints=())
    return type_


# -- Globals and data types ---------------------------------------------------------------------


class _Instantiation:
    def __init__(self, module: Module) -> None:
        self.old = module
        instances = Instances(module)
        instances.collect()
        self.functions = list(instances.functions)
        self.joined, self.widened = join_instances(instances.data)
        self.erase = ErasedTypes()
        self.data_names = _names([(name, args) for (name, _), args in self.joined.items()])
        self.function_names = _names(self.functions)
        self.renamed = _DataNames(self)
        self.constructors: dict[tuple[str, int], Constructor] = {}
        self.types = self.make_types()

    def data_name(self, call: TypeCall) -> str:
        """Return the name of the instance of an applied data type."""
        name = call.func.name
        args = tuple(self.erase(a) for a in type_args_only(call.args))
        return self.data_names[name, self.joined[name, args]]

    def make_types(self) -> dict[str, TypeData]:
        """Return all instances of data types; a constructor keeps its name if its type does.

        No constructor has the new name of a type: what names were is told for both at once.
        """
        taken = {c.name for data in self.old.types.values() for c in data.constructors}
        taken.update(self.data_names.values())
        types: dict[str, TypeData] = {}
        for old_name, data in self.old.types.items():
            if is_array(data):
                types[old_name] = data
            for (name, _), args in self.joined.items():
                if name == old_name:
                    new_name = self.data_names[name, args]
                    types[new_name] = self.make_type(data, args, new_name, taken)
        return types

    def make_type(self, data: TypeData, args: Args, name: str, taken: set[str]) -> TypeData:
        header = GlobalTypeVar(name)
        types = _InstanceTypes(self, dict(zip(type_params_only(data.type_params), args)))
        made = []
        for old in data.constructors:
            own = old.name
            if name != data.header.name:
                own = _unused(old.name + name.removeprefix(data.header.name), taken)
                taken.add(own)
            inputs = tuple(types(t) for t in old.inputs)
            new = Constructor(own, inputs, header, old.index, span=old.span)
            self.constructors[name, old.index] = new
            made.append(new)
        shapes = shape_params_only(data.type_params)
        return TypeData(header, shapes, tuple(made), data.extern, span=data.span)

    def module(self) -> Module:
        functions = {self.function_names[key]: self.make_function(*key) for key in self.functions}
        names = (*self.function_names.items(), *self.data_names.items())
        library = frozenset(new for (old, _), new in names if old in self.old.library)
        library |= self.old.library & {ARRAY_NAME}
        attrs = Attrs(self.old.attrs, instances=self.described())
        new = Module(functions, self.types, library, attrs)
        # Widened dims change the types of what is taken out of data.
        return infer_types(new) if self.widened else new

    def described(self) -> tuple[tuple[str, str], ...]:
        """Return pairs of new and old names, of data types with arguments and of constructors."""
        pairs = []
        for (name, args), new in self.data_names.items():
            if args:
                pairs.append((new, f"{name}[{', '.join(print_type(a) for a in args)}]"))
            for old in self.old.types[name].constructors:
                own = self.constructors[new, old.index].name
                if own != old.name:
                    pairs.append((own, old.name))
        return tuple(pairs)

    def make_function(self, name: str, args: Args) -> Function:
        function = self.old.functions[name]
        types = _InstanceTypes(self, dict(zip(type_params_only(function.type_params), args)))
        mono = replace(
            function,
            type_params=shape_params_only(function.type_params),
            type_constraints=(),
            checked_type=_mono(function.checked_type),
        )
        result = _InstanceCopier(self, types).copy(mono)
        assert isinstance(result, Function)
        return result

    def function_type(self, name: str, args: Args) -> Type | None:
        """Return the type of an instance of a function."""
        function = self.old.functions[name]
        types = _InstanceTypes(self, dict(zip(type_params_only(function.type_params), args)))
        return types.optional(_mono(function.checked_type))


class _DataNames(TypeMap):
    """Maps applied data types to their instances."""

    def __init__(self, owner: _Instantiation) -> None:
        super().__init__()
        self.owner = owner

    def data(self, type_: GlobalTypeVar | TypeCall, args: Args) -> Type:
        """Return the instance; `args` are instances already, those of `type_` are not."""
        if not isinstance(type_, TypeCall):
            return type_
        if is_array(self.owner.old.types.get(type_.func.name)):
            return replace(type_, args=args)
        shapes = tuple(a for a in args if isinstance(a, ShapeArg))
        return TypeCall(GlobalTypeVar(self.owner.data_name(type_)), shapes, span=type_.span)


class _InstanceTypes(TypeMap):
    """Binds the type variables of one instance, then names the instances of data types."""

    def __init__(self, owner: _Instantiation, types: Mapping[TypeVar, Type]) -> None:
        super().__init__(types)
        self.owner = owner
        self.bound = TypeMap()
        self.bound.types, self.bound.dims = self.types, self.dims

    def __call__(self, type_: Type) -> Type:
        """Return the image of a type."""
        return self.owner.renamed(self.bound(type_))


class _InstanceCopier(Copier):
    """Copies a function as one instance."""

    def __init__(self, owner: _Instantiation, types: _InstanceTypes) -> None:
        super().__init__(types)
        self.owner = owner
        self.closed = ClosedTypes(types.types)

    def leaf(self, node: Expr) -> Expr:
        if isinstance(node, Constructor) and isinstance(node.checked_type, FuncType):
            made = self.types(node.checked_type)
            assert isinstance(made, FuncType)
            return replace(self.instance(made.ret_type, node), checked_type=made)
        return node if isinstance(node, GlobalVar) else super().leaf(node)

    def instance(self, type_: Type | None, constructor: Constructor) -> Constructor:
        """Return the constructor of an instance of a data type."""
        assert isinstance(type_, TypeCall)
        return self.owner.constructors[type_.func.name, constructor.index]

    def _node(self, node: Expr, done: Mapping[int, Expr]) -> Expr:
        globals_ = {
            id(part): self.global_use(node, part, position == 0)
            for position, part in enumerate(children(node))
            if isinstance(part, GlobalVar)
        }
        known: Mapping[int, Expr] = _Overlay(globals_, done) if globals_ else done
        new = super()._node(node, known)
        if isinstance(new, Call):
            if isinstance(new.op, Constructor):
                new = replace(new, op=self.instance(new.checked_type, new.op))
            return replace(new, type_args=tuple(a for a in new.type_args if _is_shape(a)))
        if isinstance(new, Match):
            subject = new.data.checked_type
            clauses = tuple(
                replace(c, lhs=trampoline(self.typed(c.lhs, subject))) for c in new.clauses
            )
            return replace(new, clauses=clauses)
        return new

    def global_use(self, user: Expr, use: GlobalVar, first: bool) -> Expr:
        """Return the instance of a global function that one use of it needs."""
        used = self.owner.old.functions[use.name]
        is_callee = first and isinstance(user, Call)
        args = function_args(used, user, use, is_callee, self.closed)
        name = self.owner.function_names[use.name, args]
        type_ = self.owner.function_type(use.name, args) if is_callee else None
        return replace(use, name=name, checked_type=type_ or self.types.optional(use.checked_type))

    def typed(self, pattern: Pattern, type_: Type | None) -> Recursive[Pattern]:
        """Return a pattern with the constructors of the instance that it matches."""
        if isinstance(pattern, PatternTuple):
            assert isinstance(type_, TupleType)
            parts = yield self._typed_parts(pattern.patterns, type_.fields)
            return replace(pattern, patterns=parts)
        if isinstance(pattern, PatternConstructor):
            own = self.instance(type_, pattern.constructor)
            parts = yield self._typed_parts(pattern.patterns, own.inputs)
            return replace(pattern, constructor=own, patterns=parts)
        return pattern

    def _typed_parts(
        self, patterns: tuple[Pattern, ...], types: tuple[Type, ...]
    ) -> Recursive[tuple[Pattern, ...]]:
        parts: list[Pattern] = []
        for pattern, type_ in zip(patterns, types):
            parts.append((yield self.typed(pattern, type_)))
        return tuple(parts)


class _Overlay(dict[int, Expr]):
    """A few entries in front of a mapping that is too large to copy."""

    def __init__(self, own: Mapping[int, Expr], rest: Mapping[int, Expr]) -> None:
        super().__init__(own)
        self.rest = rest

    def __missing__(self, key: int) -> Expr:
        return self.rest[key]


def _is_shape(arg: Type) -> bool:
    return isinstance(arg, ShapeArg)


def _unused(name: str, taken: set[str]) -> str:
    candidate, number = name, 1
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def _names(keys: list[tuple[str, Args]]) -> dict[tuple[str, Args], str]:
    """Return a name for each instance: its own where it is the only one, else with its types."""
    counts: dict[str, int] = {}
    for name, _ in keys:
        counts[name] = counts.get(name, 0) + 1
    taken = {name for name, _ in keys}
    names: dict[tuple[str, Args], str] = {}
    for name, args in keys:
        if counts[name] == 1 or not args:
            names[name, args] = name
            continue
        suffix = "_".join(mangled(a) for a in args)[:60]
        names[name, args] = _unused(f"{name}_{suffix}", taken)
        taken.add(names[name, args])
    return names
