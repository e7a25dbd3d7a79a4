"""The definitions that instances of functions and data types are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.compiler.transforms.instances import (
    Args,
    ErasedTypes,
    Instances,
    function_args,
    join_instances,
    mangled,
    monomorphic,
    shape_params_only,
    type_args_only,
    type_params_only,
)
from relayvm.ir.expr import (
    Attrs,
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
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
    TypeVar,
)
from relayvm.ir.visit import children


class Instantiation:
    """The instances of functions and data types of a module, by what they were."""

    def __init__(self, module: Module, instances: Instances) -> None:
        self.old = module
        self.instances = instances
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
        types = InstanceTypes(self, dict(zip(type_params_only(data.type_params), args)))
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
        before = self.old.attrs.get("instances")
        pairs = (*(before if isinstance(before, tuple) else ()), *self.described())
        attrs = Attrs(self.old.attrs, instances=pairs)
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
        """Return an instance of a function."""
        function = self.old.functions[name]
        types = self.types_for(function, args)
        mono = replace(
            function,
            type_params=shape_params_only(function.type_params),
            type_constraints=(),
            checked_type=monomorphic(function.checked_type),
        )
        result = self.copier(types).copy(mono)
        assert isinstance(result, Function)
        return result

    def function_type(self, name: str, args: Args) -> Type | None:
        """Return the type of an instance of a function."""
        function = self.old.functions[name]
        return self.types_for(function, args).optional(monomorphic(function.checked_type))

    def types_for(self, function: Function, args: Args) -> InstanceTypes:
        """Return the map of the types in a function to those of an instance."""
        return InstanceTypes(self, dict(zip(type_params_only(function.type_params), args)))

    def copier(self, types: InstanceTypes) -> InstanceCopier:
        """Return what copies the body of an instance."""
        return InstanceCopier(self, types)

    def is_made(self, name: str) -> bool:
        """Return True for a data type that is no instance of one of the program."""
        return False

    def binding(self) -> TypeMap:
        """Return a map for the type variables of an instance."""
        return TypeMap()


class _DataNames(TypeMap):
    """Maps applied data types to their instances."""

    def __init__(self, owner: Instantiation) -> None:
        super().__init__()
        self.owner = owner

    def data(self, type_: GlobalTypeVar | TypeCall, args: Args) -> Type:
        """Return the instance; `args` are instances already, those of `type_` are not."""
        if not isinstance(type_, TypeCall) or self.owner.is_made(type_.func.name):
            return type_
        if is_array(self.owner.old.types.get(type_.func.name)):
            return replace(type_, args=args)
        shapes = tuple(a for a in args if isinstance(a, ShapeArg))
        return TypeCall(GlobalTypeVar(self.owner.data_name(type_)), shapes, span=type_.span)


class InstanceTypes(TypeMap):
    """Binds the type variables of one instance, then names the instances of data types."""

    def __init__(self, owner: Instantiation, types: Mapping[TypeVar, Type]) -> None:
        super().__init__(types)
        self.owner = owner
        self.bound = owner.binding()
        self.bound.types, self.bound.dims = self.types, self.dims

    def __call__(self, type_: Type) -> Type:
        """Return the image of a type."""
        return self.owner.renamed(self.bound(type_))


class InstanceCopier(Copier):
    """Copies a function as one instance."""

    def __init__(self, owner: Instantiation, types: InstanceTypes) -> None:
        super().__init__(types)
        self.owner = owner
        self.closed = owner.instances.closing(types.types)

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
            return replace(new, type_args=tuple(a for a in new.type_args if is_shape(a)))
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


def is_shape(arg: Type) -> bool:
    """Return True for the argument of a parameter of kind ShapeVar."""
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
