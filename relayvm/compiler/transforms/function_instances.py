"""Instances of functions alone: data types keep their type parameters."""

from __future__ import annotations

from relayvm.compiler.transforms.instance_definitions import (
    InstanceCopier,
    InstanceTypes,
    Instantiation,
)
from relayvm.compiler.transforms.instances import Args, Instances
from relayvm.compiler.transforms.instantiate import without_local_params
from relayvm.ir.expr import Call, Constructor, Expr, GlobalVar, Pattern
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import Type


def instantiate_functions(module: Module) -> Module:
    """Give each use of a polymorphic function an instance; raises NotClosed.

    `def @f[A, B](%a: A) -> B where negative(A, B)`, used for `Tensor[(3), float32]` ->
    `def @f(%a: Tensor[(3), float32]) -> Tensor[(3), float32]`. Functions that no monomorphic one
    reaches are left out. Requires TYPED.
    """
    local = module.with_functions(
        {name: without_local_params(f, module) for name, f in module.functions.items()}
    )
    functions = _FunctionInstances(local, _Functions(local)).module().functions
    return module.with_functions(functions)


class _Functions(Instances):
    """The instances of functions; those of data types are not asked for."""

    def need_data(self, name: str, args: Args) -> None:
        return


class _FunctionInstances(Instantiation):
    def make_types(self) -> dict[str, TypeData]:
        return dict(self.old.types)

    def is_made(self, name: str) -> bool:
        return True

    def copier(self, types: InstanceTypes) -> InstanceCopier:
        return _FunctionCopier(self, types)


class _FunctionCopier(InstanceCopier):
    def instance(self, type_: Type | None, constructor: Constructor) -> Constructor:
        return constructor

    def type_args_left(self, old: Expr, call: Call) -> Args:
        is_global = isinstance(call.op, GlobalVar)
        return super().type_args_left(old, call) if is_global else call.type_args

    def typed_pattern(self, pattern: Pattern, type_: Type | None) -> Pattern:
        return pattern
