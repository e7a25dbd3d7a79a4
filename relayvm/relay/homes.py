"""Where each name of `relay` lives. Operators are found in `relay.op` and stand in no row."""

from __future__ import annotations

_MODULES: dict[str, str] = {
    "expr": (
        "Expr RelayExpr Constant Tuple Var GlobalVar Function Call Let If TupleGetItem RefCreate "
        "RefRead RefWrite TupleWrapper var const bind"
    ),
    "ty": (
        "Type TensorType TupleType FuncType TypeVar ShapeVar GlobalTypeVar TypeCall RefType "
        "IncompleteType TypeKind TypeConstraint TypeRelation Any scalar_type"
    ),
    "adt": (
        "Pattern PatternWildcard PatternVar PatternConstructor PatternTuple Constructor TypeData "
        "Clause Match"
    ),
    "base": "Span SourceName Id",
    "text": "astext pretty_print",
    "parser": "parse parse_expr fromtext",
    "expr_functor": "ExprFunctor ExprVisitor ExprMutator",
    "type_functor": "TypeFunctor TypeVisitor TypeMutator",
    "scope_builder": "ScopeBuilder",
    "loops": "while_loop",
    "param_dict": (
        "save_param_dict load_param_dict save_param_dict_to_file load_param_dict_from_file"
    ),
    "prelude": "Prelude",
    "build_module": "build create_executor optimize bind_params_by_name build_config",
    "analysis": "Feature",
}

# Modules of the package that go by another path in TVM.
_ALIASES = {
    "Op": "relayvm.relay.namespace.ir:Op",
    "nn": "relayvm.relay.op.nn:",
    "image": "relayvm.relay.op.image:",
    "vision": "relayvm.relay.op.vision:",
    "annotation": "relayvm.relay.op.annotation:",
    "random": "relayvm.relay.op.random:",
    "memory": "relayvm.relay.op.memory:",
}

HOMES: dict[str, str] = {
    name: f"relayvm.relay.{module}" for module, names in _MODULES.items() for name in names.split()
} | _ALIASES
