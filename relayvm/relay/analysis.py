"""`relay.analysis`: TVM's names for questions about programs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from relayvm.base.diagnostics import DiagnosticSink
from relayvm.base.dims import DimVar
from relayvm.compiler.analysis import extraction, operator_counts, variables
from relayvm.compiler.analysis.call_graph import CallGraph as _Graph
from relayvm.compiler.analysis.features import Feature, detect_features
from relayvm.compiler.inference.match_coverage import unmatched_cases as _unmatched
from relayvm.compiler.kinds import check_type
from relayvm.compiler.passes import run_passes
from relayvm.compiler.transforms.to_basic_block_normal_form import is_basic_block_normal_form
from relayvm.ir.expr import Constant, Expr, Function, GlobalVar, Match, Pattern, Var
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import GlobalTypeVar, IncompleteType, Kind, Type, TypeParam, TypeVar
from relayvm.ir.visit import post_order
from relayvm.relay.lazy import absent
from relayvm.relay.module import IRModule, unwrap, wrap

__all__ = [
    "CallGraph",
    "Feature",
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "bound_type_vars",
    "bound_vars",
    "check_basic_block_normal_form",
    "check_constant",
    "check_kind",
    "count_layers",
    "detect_feature",
    "extract_fused_functions",
    "extract_intermdeiate_expr",
    "free_type_vars",
    "free_vars",
    "get_total_mac_number",
    "list_fake_quantized_op_freqs",
    "list_op_freqs",
    "post_order_visit",
    "search_fc_transpose",
    "unmatched_cases",
    "well_formed",
]


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], Any]) -> None:
    """Call `fvisit` on each node once, operands first, binders before what they bind in."""
    for node in list(post_order(expr)):
        fvisit(node)


def well_formed(expr: Expr) -> bool:
    """Return True if each variable is bound once and used in its scope."""
    return variables.is_well_formed(expr)


def check_kind(t: Type | TypeData, mod: IRModule | None = None) -> Kind:
    """Return the kind of a type; raises RelayError where kinds inside of it do not fit."""
    module = Module() if mod is None else unwrap(mod)
    sink = DiagnosticSink()
    kind = Kind.TYPE
    match t:
        case TypeVar() | IncompleteType():
            return t.kind
        case GlobalTypeVar():
            return Kind.ADT_HANDLE
        case DimVar():
            return Kind.SHAPE_VAR
        case TypeData():
            kind = Kind.TYPE_DATA
            for constructor in t.constructors:
                for field in constructor.inputs:
                    check_type(field, module, sink)
        case _:
            check_type(t, module, sink)
    sink.raise_if_any()
    return kind


def check_constant(expr: Expr) -> bool:
    """Return True if the expression is a constant or a tuple of constants."""
    return isinstance(expr, Constant) or operator_counts.is_constant(expr)


def check_basic_block_normal_form(expr: Expr) -> bool:
    """Return True if no node is used in several scopes."""
    return is_basic_block_normal_form(expr)


def free_vars(expr: Expr) -> list[Var]:
    """Return the variables that are used and not bound."""
    return list(variables.free_vars(expr))


def bound_vars(expr: Expr) -> list[Var]:
    """Return the variables that are bound."""
    return list(variables.bound_vars(expr))


def all_vars(expr: Expr) -> list[Var]:
    """Return all variables."""
    return list(variables.all_vars(expr))


def free_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeParam]:
    """Return the type variables that occur and are not introduced."""
    return list(variables.free_type_vars(expr))


def bound_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeParam]:
    """Return the type variables that are introduced."""
    return list(variables.bound_type_vars(expr))


def all_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeParam]:
    """Return all type variables."""
    return list(variables.all_type_vars(expr))


def all_dtypes(expr: Expr) -> set[str]:
    """Return the names of all dtypes in an expression."""
    return {dtype.name for dtype in variables.all_dtypes(expr)}


def get_total_mac_number(expr: Expr) -> int:
    """Return the multiply-accumulates of the matrix products and convolutions of a typed
    expression.
    """
    return operator_counts.multiply_accumulates(expr)


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Pattern]:
    """Return patterns for what no clause of a match fits."""
    return _unmatched(match, Module() if mod is None else unwrap(mod))


def detect_feature(a: Expr | IRModule | None, b: Expr | IRModule | None = None) -> set[Feature]:
    """Return the features of an expression, a module, or both."""
    found: set[Feature] = set()
    for item in (a, b):
        if item is not None:
            found |= detect_features(unwrap(item) if isinstance(item, IRModule) else item)
    return found


def extract_fused_functions(mod: IRModule) -> dict[int, Function]:
    """Return the primitive functions that fusion makes of a module, by structural hash."""
    return extraction.primitive_functions(run_passes(unwrap(mod), ["fuse_ops"]))


def extract_intermdeiate_expr(mod: IRModule, expr_id: int) -> IRModule:
    """Return the module whose `main` computes call number `expr_id` of this one's."""
    part = extraction.intermediate(unwrap(mod), expr_id)
    return wrap(run_passes(part, ["infer_types"]))


def list_op_freqs(mod: IRModule) -> dict[str, int]:
    """Return how many calls there are of each operator."""
    return operator_counts.operator_frequencies(unwrap(mod))


def list_fake_quantized_op_freqs(mod: IRModule) -> dict[str, int]:
    """Return how many calls of each operator lie between `qnn.dequantize` and `qnn.quantize`."""
    return operator_counts.fake_quantized_frequencies(unwrap(mod))


def search_fc_transpose(expr: Expr) -> list[str]:
    """Return the names of the variables `w` of `nn.dense(x, transpose(w, [1, 0]))`."""
    return operator_counts.transposed_weights(expr)


def count_layers(expr: Expr | IRModule, valid_ops: Collection[str]) -> int:
    """Return the most calls of some operators on one way through `main` or an expression."""
    root = expr["main"] if isinstance(expr, IRModule) else expr
    return operator_counts.layer_count(root, valid_ops)


class CallGraph:
    """Which global function mentions which."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self._graph = _Graph.of(unwrap(module))

    def ref_count(self, var: str | GlobalVar) -> int:
        """Return how many functions mention one."""
        return len(self._graph.callers[self._name(var)])

    def global_call_count(self, var: str | GlobalVar) -> int:
        """Return how many functions one mentions."""
        return len(self._graph.callees[self._name(var)])

    def is_recursive(self, var: str | GlobalVar) -> bool:
        """Return True if a function can reach itself."""
        return self._name(var) in self._graph.recursive

    def print_var(self, var: str | GlobalVar) -> str:
        """Return one function with what it mentions, as text."""
        name = self._name(var)
        lines = [f"`@{name}`, #refs = {self.ref_count(name)}"]
        lines += [f"  `@{callee}`" for callee in self._graph.callees[name]]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return "".join(self.print_var(name) for name in reversed(self._graph.order))

    def _name(self, var: str | GlobalVar) -> str:
        if not isinstance(var, (str, GlobalVar)):
            raise TypeError("var should be either a string or GlobalVar")
        name = var if isinstance(var, str) else var.name
        if name not in self._graph.callees:
            raise ValueError(f"the module has no function `@{name}`")
        return name


__getattr__ = absent("relayvm.relay.analysis")
