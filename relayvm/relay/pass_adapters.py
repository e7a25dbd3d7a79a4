"""Passes whose parameters in TVM differ from those of ours, and those that are functions there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.compiler import autodiff
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.compiler.steps import OptionValue, Step
from relayvm.compiler.transforms import cps
from relayvm.compiler.transforms import eliminate_common_subexpressions as sharing
from relayvm.compiler.transforms import legalize as legal
from relayvm.compiler.transforms import to_mixed_precision as mixed
from relayvm.compiler.transforms.to_mixed_precision import Category, Choice
from relayvm.ir.expr import Call, Expr, Function, Op
from relayvm.ir.module import Module
from relayvm.ir.visit import global_vars
from relayvm.relay.binders import with_one_binder_each
from relayvm.relay.module import IRModule, wrap
from relayvm.relay.namespace.transform import Pass, PassContext, Sequential, module_pass
from relayvm.relay.node import as_dtype
from relayvm.relay.op_registry import functions_under, get_attr
from relayvm.relay.own_gradients import OwnGradients

MAIN = "main"


def remove_unused_functions(module: Module, *, entry_functions: Iterable[str] | None) -> Module:
    """Return the module without the functions that no entry reaches; by default that is `main`."""
    waiting = list(dict.fromkeys(["main"] if entry_functions is None else entry_functions))
    for name in waiting:
        if name not in module.functions:
            raise error("unknown-function", f"the module has no function `@{name}`")
    reached = set(waiting)
    while waiting:
        for name in global_vars(module.functions[waiting.pop()]):
            if name in module.functions and name not in reached:
                reached.add(name)
                waiting.append(name)
    return module.with_functions({n: f for n, f in module.functions.items() if n in reached})


def eliminate_common_subexpressions(
    module: Module, *, fskip: Callable[[Expr], bool] | None
) -> Module:
    """Return the module with equal pure calls shared; those for which `fskip` is true stay."""
    skip = None if fskip is None else (lambda node: bool(fskip(node)))
    return sharing.eliminate_common_subexpressions(module, skip)


def inline(module: Module) -> Module:
    """Return the module with functions that are marked `Inline` in the place of their calls."""
    return run_passes(module, [("inline", {"marked_only": True})])


def fuse_ops(module: Module, *, fuse_opt_level: int) -> Module:
    """Return the module with operator calls grouped, as far as the context says."""
    context = PassContext.current()
    level = context.opt_level if fuse_opt_level < 0 else fuse_opt_level
    options: dict[str, int] = {"fuse_opt_level": level}
    if "relay.FuseOps.max_depth" in context.config:
        options["max_depth"] = context.config["relay.FuseOps.max_depth"]
    return run_passes(module, [("fuse_ops", options)])


def combine_parallel_dense(module: Module, *, min_num_branches: int, to_batch: bool) -> Module:
    """Return the module with dense layers of one tensor computed as one product."""
    options = {"min_num_branches": min_num_branches, "to_batch_matmul": to_batch}
    return run_passes(module, [("combine_parallel_dense", options)])


def to_mixed_precision(
    module: Module, *, mixed_precision_type: str, missing_op_mode: int
) -> Module:
    """Return the module with operators in a narrow dtype, by their categories and by the functions
    that the program registered as `FTVMMixedPrecisionConversionType`.
    """
    key = "relay.ToMixedPrecision.keep_orig_output_dtype"
    keep = bool(PassContext.current().config.get(key, False))

    def choose(call: Call) -> Choice | None:
        assert isinstance(call.op, Op)
        function = get_attr(call.op, "FTVMMixedPrecisionConversionType")
        if function is None:
            return None
        category, accumulation, result = function(call, mixed_precision_type)
        return Category(int(category)), as_dtype(str(accumulation)), as_dtype(str(result))

    return mixed.to_mixed_precision(module, mixed_precision_type, missing_op_mode, keep, choose)


def fake_quantization_to_integer(
    module: Module, *, hard_fail: bool, use_qat: bool, optional_qnn_ops: Sequence[str] | None
) -> Module:
    """Return the module with what lies between `dequantize` and `quantize` on integers."""
    options: dict[str, OptionValue] = {"hard_fail": hard_fail, "use_qat": use_qat}
    options["optional_qnn_ops"] = tuple(optional_qnn_ops or ())
    return run_passes(module, [("fake_quantization_to_integer", options)])


def legalize(module: Module, *, legalize_map_attr_name: str) -> Module:
    """Return the module with calls in the forms that registered functions give them."""
    hooks = functions_under(legalize_map_attr_name)
    after = legal.legalize(module, hooks)
    if after is module:
        return module
    functions = {name: with_one_binder_each(f) for name, f in after.functions.items()}
    return infer_types(after.with_functions(functions))  # type: ignore[arg-type]


def plan_devices(module: Module, *, config: Any) -> Module:
    """Return the module without annotations of devices, which must name one."""
    return run_passes(module, ["plan_devices"])


# --- passes that are functions over one expression in TVM ------------------------------------


def to_cps(func: Function, mod: IRModule | None = None) -> Function:
    """Return the form of a function that takes a continuation.

    The module gets such forms of the functions that it calls.
    """
    after = _as_main(func, mod, ["to_cps"])
    return _taken(after, f"{MAIN}_cps", mod)


def un_cps(func: Function) -> Function:
    """Return the plain form of a function that takes a continuation, without types.

    Raises RelayError `wrong-argument` if it takes none.
    """
    if not cps.is_cps(func):
        raise error("wrong-argument", "the function takes no continuation")
    return cps.function_un_cps(func)


def Defunctionalization(func: Function, mod: IRModule) -> Function:
    """Return a function without function values; the module gets what it needs for that."""
    return _taken(_as_main(func, mod, ["defunctionalize"]), MAIN, mod)


def gradient(expr: Function, mod: IRModule | None = None, mode: str = "higher_order") -> Function:
    """Return the function that gives the result of `expr` and the gradients of its parameters.

    `"higher_order"` follows the whole language and records the way back in references; the module
    gets the functions and data types that it needs. `"first_order"` is for straight-line code.
    Operators have the gradients that `register_gradient` gave them, else those of the table.
    """
    module = Module() if mod is None else mod.module
    own = OwnGradients()
    expr, given = own.into(expr, module)
    if mode == "first_order":
        derived: Function = own.out_of(autodiff.first_order_gradient(expr, given), module)[0]
        return derived
    if mode != "higher_order":
        raise error("bad-option", f"`mode` is `higher_order` or `first_order`, not `{mode}`")
    function: Function
    function, after = own.out_of(*autodiff.gradient(expr, given))
    if after.functions.keys() - module.functions.keys() and mod is None:
        names = ", ".join(f"`@{name}`" for name in after.functions)
        raise error("bad-option", f"the gradient needs {names}: hand it the module as `mod`")
    if mod is not None:
        mod.update(wrap(after))
    return function


def FirstOrderGradient() -> Pass:
    """Give each function of a module its result and the gradients of its parameters: straight-line
    code only.
    """

    def derive(mod: IRModule, context: PassContext) -> IRModule:
        result = mod.clone()
        for variable, function in mod.functions_items():
            result[variable] = gradient(function, mod, "first_order")
        return wrap(infer_types(result.module), mod)

    made: Pass = module_pass(derive, opt_level=0, name="FirstOrderGradient")
    return made


def BatchingOps() -> Pass:
    """Join operators on the same operand: convolutions, dense layers and batched products."""
    from relayvm.relay import transform

    names = ("CombineParallelConv2D", "CombineParallelDense", "CombineParallelBatchMatmul")
    return Sequential([getattr(transform, name)() for name in names])


def _as_main(func: Function, mod: IRModule | None, steps: Sequence[Step]) -> Module:
    """Return the module after passes in which the function is `main`."""
    whole = mod.clone() if mod is not None else IRModule()
    whole[MAIN] = func
    return infer_types(run_passes(infer_types(whole.module), steps))


def _taken(module: Module, name: str, mod: IRModule | None) -> Function:
    """Return a function of a module, and put the others into the user's module."""
    if name not in module.functions:
        raise error("unknown-function", f"the result has no function `@{name}`")
    if mod is not None:
        rest = {n: f for n, f in module.functions.items() if n != MAIN}
        mod.update(wrap(replace(module, functions=rest)))
    return wrap(module)[name]  # type: ignore[no-any-return]
