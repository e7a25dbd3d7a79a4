"""The passes of `relay.transform`: TVM's name, what runs, from which level, and its parameters.

Adding a pass is adding a row.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PassRow:
    """One pass.

    `runs` is a row of the compiler's table of passes, or `"package.module:function"`, called with
    the module and the parameters. `parameters` is their Python signature without the parentheses.
    `is_function_pass` only says what `isinstance` answers. `wants_types` infers types first; after
    it they are inferred anyway.
    """

    name: str
    runs: str
    doc: str
    opt_level: int = 0
    parameters: str = ""
    is_function_pass: bool = False
    wants_types: bool = True


_ADAPTERS = "relayvm.relay.pass_adapters"
_ARGUMENTS = "relayvm.relay.argument_passes"
_EXPR_PASSES = "relayvm.relay.expr_passes"

ROWS: tuple[PassRow, ...] = (
    PassRow("InferType", "infer_types", "Give every expression its type."),
    PassRow(
        "FoldConstant",
        "fold_constants",
        "Evaluate what depends on constants alone.",
        opt_level=2,
        parameters="fold_qnn=False",
        is_function_pass=True,
    ),
    PassRow(
        "EliminateCommonSubexpr",
        f"{_ADAPTERS}:eliminate_common_subexpressions",
        "Share equal pure calls; those for which `fskip` is true stay.",
        opt_level=3,
        parameters="fskip=None",
        is_function_pass=True,
    ),
    PassRow(
        "DeadCodeElimination",
        "eliminate_dead_code",
        "Drop what is computed for nothing.",
        opt_level=1,
        parameters="inline_once=False, ignore_impurity=False",
        is_function_pass=True,
    ),
    PassRow(
        "RemoveUnusedFunctions",
        f"{_ADAPTERS}:remove_unused_functions",
        "Drop functions that no entry reaches; by default that is `main`.",
        opt_level=1,
        parameters="entry_functions=None",
    ),
    PassRow(
        "Inline",
        f"{_ADAPTERS}:inline",
        "Put functions marked `Inline` in the place of their calls.",
        opt_level=1,
    ),
    PassRow(
        "SplitArgs",
        f"{_ARGUMENTS}:split_args",
        "Join tensors in parts, so that no operator takes more than so many.",
        opt_level=1,
        parameters="max_function_args",
    ),
    PassRow(
        "SimplifyFCTranspose",
        f"{_ARGUMENTS}:simplify_fc_transpose",
        "Take weights of these names the way that dense layers want them.",
        parameters="target_weight_name",
        is_function_pass=True,
    ),
    PassRow(
        "InlinePrimitives",
        "inline_primitives",
        "Put primitive functions in the place of their names.",
        opt_level=1,
    ),
    PassRow(
        "ToANormalForm",
        "to_anf",
        "Name every operand with a let.",
        opt_level=1,
    ),
    PassRow(
        "ToBasicBlockNormalForm",
        "to_basic_block_normal_form",
        "Name what several scopes share in the scope around them.",
        opt_level=1,
    ),
    PassRow(
        "ToGraphNormalForm",
        "to_graph_normal_form",
        "Drop lets where nobody can tell.",
        opt_level=1,
        is_function_pass=True,
    ),
    PassRow(
        "EtaExpand",
        "eta_expand",
        "Wrap constructors and globals that are used as values in functions.",
        opt_level=1,
        parameters="expand_constructor=False, expand_global_var=False",
    ),
    PassRow(
        "FuseOps",
        f"{_ADAPTERS}:fuse_ops",
        "Group operator calls into primitive functions; -1 is the level of the context.",
        opt_level=0,
        parameters="fuse_opt_level=-1",
        is_function_pass=True,
    ),
    PassRow(
        "DefuseOps",
        "defuse_ops",
        "Put the bodies of primitive functions in the place of their calls.",
        opt_level=3,
        is_function_pass=True,
    ),
    PassRow(
        "PartialEvaluate",
        "partial_evaluate",
        "Run what is known of a program and leave the rest.",
        opt_level=1,
    ),
    PassRow(
        "SimplifyInference",
        "simplify_inference",
        "Put what batch norms and dropouts do in inference in their place.",
        opt_level=0,
        is_function_pass=True,
    ),
    PassRow(
        "AnnotateSpans",
        f"{_EXPR_PASSES}:annotate_spans",
        "Give every node a span in the text of the program.",
        wants_types=False,
    ),
    PassRow(
        "PlanDevices",
        f"{_ADAPTERS}:plan_devices",
        "Drop annotations of devices; they must name one.",
        parameters="config",
    ),
    PassRow(
        "ChangeBatch",
        f"{_EXPR_PASSES}:change_batch",
        "Give parameters another size of the batch.",
        opt_level=1,
        parameters="data, batch_size=16",
        is_function_pass=True,
        wants_types=False,
    ),
    PassRow("LambdaLift", "lambda_lift", "Make local functions global ones.", opt_level=1),
    PassRow(
        "SimplifyExpr",
        "simplify_expr",
        "Replace expressions by simpler ones.",
        is_function_pass=True,
    ),
    PassRow(
        "CanonicalizeOps",
        "canonicalize_ops",
        "Write biases as sums.",
        opt_level=3,
        is_function_pass=True,
    ),
    PassRow(
        "CanonicalizeCast",
        "canonicalize_cast",
        "Give each user of a widening cast one of its own.",
        opt_level=3,
        is_function_pass=True,
    ),
    PassRow(
        "DivToMul",
        "div_to_mul",
        "Multiply by reciprocals of constants.",
        opt_level=0,
        is_function_pass=True,
    ),
    PassRow(
        "FastMath",
        "fast_math",
        "Approximate exponential functions.",
        opt_level=4,
        is_function_pass=True,
    ),
    PassRow(
        "FoldExplicitPadding",
        "fold_explicit_padding",
        "Let convolutions and poolings pad by themselves.",
        opt_level=0,
        is_function_pass=True,
    ),
    PassRow(
        "FlattenAtrousConv",
        "flatten_atrous_conv",
        "Write convolutions of interleaved blocks as dilated ones.",
        opt_level=0,
        is_function_pass=True,
    ),
    PassRow(
        "DynamicToStatic",
        "dynamic_to_static",
        "Write what constants decide as attributes.",
        opt_level=2,
        is_function_pass=True,
    ),
    PassRow(
        "CombineParallelConv2D",
        "combine_parallel_conv2d",
        "Compute convolutions of one tensor as one.",
        opt_level=4,
        parameters="min_num_branches=3",
        is_function_pass=True,
    ),
    PassRow(
        "CombineParallelDense",
        f"{_ADAPTERS}:combine_parallel_dense",
        "Compute dense layers of one tensor as one.",
        opt_level=4,
        parameters="min_num_branches=3, to_batch=True",
        is_function_pass=True,
    ),
    PassRow(
        "CombineParallelBatchMatmul",
        "combine_parallel_batch_matmul",
        "Compute products of one batch of matrices as one.",
        opt_level=4,
        parameters="min_num_branches=3",
        is_function_pass=True,
    ),
    PassRow(
        "BackwardFoldScaleAxis",
        "backward_fold_scale_axis",
        "Multiply factors into the weights before them.",
        opt_level=3,
        is_function_pass=True,
    ),
    PassRow(
        "ForwardFoldScaleAxis",
        "forward_fold_scale_axis",
        "Multiply factors into the weights behind them.",
        opt_level=3,
        is_function_pass=True,
    ),
    PassRow(
        "FoldScaleAxis",
        "fold_scale_axis",
        "Multiply factors into weights, and evaluate these.",
        opt_level=3,
        is_function_pass=True,
    ),
    PassRow(
        "ToMixedPrecision",
        f"{_ADAPTERS}:to_mixed_precision",
        "Compute in half precision where that is good enough.",
        parameters='mixed_precision_type="float16", missing_op_mode=1',
        is_function_pass=True,
    ),
    PassRow(
        "FakeQuantizationToInteger",
        f"{_ADAPTERS}:fake_quantization_to_integer",
        "Compute on integers what lies between dequantize and quantize.",
        parameters="hard_fail=False, use_qat=False, optional_qnn_ops=None",
        is_function_pass=True,
    ),
    PassRow(
        "Legalize",
        f"{_ADAPTERS}:legalize",
        "Put what registered functions give in the place of calls.",
        opt_level=1,
        parameters='legalize_map_attr_name="FTVMLegalize"',
        is_function_pass=True,
    ),
    PassRow(
        "LazyGradientInit",
        "lazy_gradient_init",
        "Drop sums with zeros and products with ones.",
        opt_level=2,
        is_function_pass=True,
    ),
)
