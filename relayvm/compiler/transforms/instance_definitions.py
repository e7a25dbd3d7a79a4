"""The definitions that instances of functions and data types are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from relayvm.base.dims import DimVar, symbol
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.transforms.argument_checks import with_checked_arguments
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.compiler.transforms.instance_shapes import DataShapes, Shapes
from relayvm.compiler.transforms.instances import (
    Args,
    Instances,
    instance_sizes,
    mangled,
    monomorphic,
    shape_params_only,
    type_params_only,
)
from relayvm.compiler.transforms.to_anf import function_to_anf
from relayvm.ir.adt import definition_of, field_types
from relayvm.ir.expr import (
    Attrs,
    AttrValue,
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
        self.data = DataShapes(module, instances.data)
        keys = [(shapes.name, shapes.args) for shapes in self.data.shapes]
        self.data_names = dict(zip(self.data.shapes, _names(keys)))
        self.function_names = dict(zip(self.functions, _names(self.functions)))
        self.renamed = _DataNames(self)
        self.constructors: dict[tuple[str, int], Constructor] = {}
        self.types = self.make_types()

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
            for shapes, new_name in self.data_names.items():
                if shapes.name == old_name:
                    types[new_name] = self.make_type(data, shapes, new_name, taken)
        return types

    def make_type(self, data: TypeData, shapes: Shapes, name: str, taken: set[str]) -> TypeData:
        header, args = GlobalTypeVar(name), self.data.field_args(shapes)
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
        params = (*shape_params_only(data.type_params), *shapes.params.values())
        return TypeData(header, params, tuple(made), data.extern, span=data.span)

    def module(self) -> Module:
        functions = {self.function_names[key]: self.make_function(*key) for key in self.functions}
        named = [(old, new) for (old, _), new in self.function_names.items()]
        named += [(shapes.name, new) for shapes, new in self.data_names.items()]
        library = frozenset(new for old, new in named if old in self.old.library)
        library |= self.old.library & {ARRAY_NAME}
        attrs = Attrs(
            self.old.attrs,
            instances=self._named_before("instances") + self.described_types(),
            constructors=self._named_before("constructors") + self.described_constructors(),
        )
        new = Module(functions, self.types, library, attrs)
        # Widened dims change the types of what is taken out of data.
        return infer_types(new, late=True) if self.data.are_widened else new

    def _named_before(self, attribute: str) -> tuple[AttrValue, ...]:
        before = self.old.attrs.get(attribute)
        return before if isinstance(before, tuple) else ()

    def described_types(self) -> tuple[AttrValue, ...]:
        """Return pairs of new and old names of data types with arguments.

        `R[n]` of `R[Tensor[(n), float32]]` has the old name `R[Tensor[(_0_), float32]]`.
        """
        pairs = []
        for shapes, new in self.data_names.items():
            if shapes.args:
                args = ", ".join(print_type(a) for a in self.data.described_args(shapes))
                pairs.append((new, f"{shapes.name}[{args}]"))
        return tuple(pairs)

    def described_constructors(self) -> tuple[AttrValue, ...]:
        """Return pairs of new and old names of constructors."""
        renamed = (
            (self.constructors[new, old.index].name, old.name)
            for shapes, new in self.data_names.items()
            for old in self.old.types[shapes.name].constructors
        )
        return tuple(pair for pair in renamed if pair[0] != pair[1])

    def make_function(self, name: str, args: Args) -> Function:
        """Return an instance of a function."""
        function = self.old.functions[name]
        sizes = {v: DimVar(v.name) for v in instance_sizes(args)}
        own = TypeMap(dims={old: symbol(new) for old, new in sizes.items()})
        types = self.types_for(function, tuple(own(a) for a in args))
        mono = replace(
            function,
            type_params=shape_params_only(function.type_params),
            type_constraints=(),
            checked_type=monomorphic(function.checked_type),
        )
        copier = self.copier(types)
        result = copier.copy(mono)
        assert isinstance(result, Function)
        if copier.has_checks:
            result = function_to_anf(result)
        assert isinstance(result.checked_type, FuncType)
        params = (*result.type_params, *sizes.values())
        kind = replace(result.checked_type, type_params=params)
        return replace(result, type_params=params, checked_type=kind)

    def function_type(self, name: str, args: Args) -> Type | None:
        """Return the type of an instance of a function."""
        function = self.old.functions[name]
        kind = self.types_for(function, args).optional(monomorphic(function.checked_type))
        sizes = instance_sizes(args)
        if not sizes or not isinstance(kind, FuncType):
            return kind
        return replace(kind, type_params=(*kind.type_params, *sizes))

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
        shapes, sizes = self.owner.data.of(type_)
        given = (*(a for a in args if isinstance(a, ShapeArg)), *sizes)
        header = GlobalTypeVar(self.owner.data_names[shapes])
        return TypeCall(header, given, span=type_.span)


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


class TypedCopier(Copier, ABC):
    """Copies with the constructors that the types of values have after a map of types."""

    @abstractmethod
    def instance(self, type_: Type | None, constructor: Constructor) -> Constructor:
        """Return the constructor of an instance of a data type."""

    @abstractmethod
    def definition(self, name: str) -> TypeData:
        """Return the definition of an instance of a data type."""

    @abstractmethod
    def type_args_left(self, old: Expr, call: Call) -> Args:
        """Return the type arguments of a call that has been copied."""

    def leaf(self, node: Expr) -> Expr:
        """Return the constructor of the type that values have; other leaves with their types."""
        if isinstance(node, Constructor) and isinstance(node.checked_type, FuncType):
            made = self.types(node.checked_type)
            assert isinstance(made, FuncType)
            return replace(self.instance(made.ret_type, node), checked_type=made)
        return super().leaf(node)

    def _node(self, node: Expr, done: Mapping[int, Expr]) -> Expr:
        new = super()._node(node, done)
        if isinstance(new, Call):
            type_args = self.type_args_left(node, new)
            return replace(new, op=self._constructor(new), type_args=type_args)
        if isinstance(new, Match):
            subject = new.data.checked_type
            clauses = tuple(replace(c, lhs=self.typed_pattern(c.lhs, subject)) for c in new.clauses)
            return replace(new, clauses=clauses)
        return new

    def _constructor(self, call: Call) -> Expr:
        if not isinstance(call.op, Constructor):
            return call.op
        return self.instance(call.checked_type, call.op)

    def typed_pattern(self, pattern: Pattern, type_: Type | None) -> Pattern:
        """Return a pattern with the constructors of the instance that it matches."""
        return trampoline(self._typed(pattern, type_))

    def _typed(self, pattern: Pattern, type_: Type | None) -> Recursive[Pattern]:
        if isinstance(pattern, PatternTuple):
            assert isinstance(type_, TupleType)
            parts = yield self._typed_parts(pattern.patterns, type_.fields)
            return replace(pattern, patterns=parts)
        if isinstance(pattern, PatternConstructor):
            own = self.instance(type_, pattern.constructor)
            assert isinstance(type_, TypeCall)
            params = self.definition(type_.func.name).type_params
            bound = TypeMap()
            bound.bind(params, type_.args)
            inputs = tuple(bound(t) for t in own.inputs) if params else own.inputs
            parts = yield self._typed_parts(pattern.patterns, inputs)
            return replace(pattern, constructor=own, patterns=parts)
        return pattern

    def _typed_parts(
        self, patterns: tuple[Pattern, ...], types: tuple[Type, ...]
    ) -> Recursive[tuple[Pattern, ...]]:
        parts: list[Pattern] = []
        for pattern, type_ in zip(patterns, types):
            parts.append((yield self._typed(pattern, type_)))
        return tuple(parts)


class InstanceCopier(TypedCopier):
    """Copies a function as one instance."""

    def __init__(self, owner: Instantiation, types: InstanceTypes) -> None:
        super().__init__(types)
        self.owner = owner
        self.own = dict(types.types)
        self.closed = owner.instances.closing(self.own)
        self.has_checks = False

    def leaf(self, node: Expr) -> Expr:
        return node if isinstance(node, GlobalVar) else super().leaf(node)

    def definition(self, name: str) -> TypeData:
        return self.owner.types[name]

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
        if not isinstance(new, Call) or not isinstance(node, Call):
            return new
        # An instance has `?` for sizes in which others differ, and for those of the caller.
        made = with_checked_arguments(new, [self.types(t) for t in self.declared(node)])
        self.has_checks = self.has_checks or made is not new
        return made

    def declared(self, call: Call) -> Sequence[Type]:
        """Return the types of fields that a call of a constructor declares, if they may be joined
        to others.
        """
        module = self.owner.old
        if isinstance(call.op, Constructor) and call.checked_type is not None:
            definition, _ = definition_of(module, call.checked_type)
            if type_params_only(definition.type_params):
                return field_types(module, call.checked_type, call.op)
        return ()

    def type_args_left(self, old: Expr, call: Call) -> Args:
        """Return the sizes that a call gives: of the definition, and of the instance."""
        kept = tuple(a for a in call.type_args if is_shape(a))
        if isinstance(call.op, Constructor) and isinstance(call.checked_type, TypeCall):
            given = call.checked_type.args
            return given if len(given) > len(kept) else kept
        assert isinstance(old, Call)
        if not isinstance(old.op, GlobalVar):
            return kept
        _, sizes = self.owner.instances.function_use(old.op.name, old, old.op, True, self.own)
        used = self.owner.old.functions[old.op.name]
        if len(kept) < len(shape_params_only(used.type_params)):
            return ()
        return (*kept, *map(self.types, sizes))

    def global_use(self, user: Expr, use: GlobalVar, first: bool) -> Expr:
        """Return the instance of a global function that one use of it needs."""
        is_callee = first and isinstance(user, Call)
        args, _ = self.owner.instances.function_use(use.name, user, use, is_callee, self.own)
        name = self.owner.function_names[use.name, args]
        type_ = self.owner.function_type(use.name, args) if is_callee else None
        return replace(use, name=name, checked_type=type_ or self.types.optional(use.checked_type))


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


def _names(keys: list[tuple[str, Args]]) -> list[str]:
    """Return a name for each instance: its own where it is the only one, else with its types."""
    counts: dict[str, int] = {}
    for name, _ in keys:
        counts[name] = counts.get(name, 0) + 1
    taken = {name for name, _ in keys}
    names: list[str] = []
    for name, args in keys:
        own = name
        if counts[name] > 1 and args:
            suffix = "_".join(mangled(a) for a in args)[:60]
            own = _unused(f"{name}_{suffix}", taken)
            taken.add(own)
        names.append(own)
    return names
