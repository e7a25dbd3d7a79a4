"""Rows of the passes that run only by name: forms of the language and transformations of it."""

from __future__ import annotations

from relayvm.compiler.pipeline import Pass, Property
from relayvm.compiler.transforms.canonicalize_qnn import legalize_qnn
from relayvm.compiler.transforms.cps import to_cps, un_cps
from relayvm.compiler.transforms.defunctionalize import defunctionalize
from relayvm.compiler.transforms.eta_expand import eta_expand
from relayvm.compiler.transforms.fuse_ops import fuse_ops
from relayvm.compiler.transforms.lambda_lift import lambda_lift
from relayvm.compiler.transforms.partial_evaluate import partial_evaluate
from relayvm.compiler.transforms.primitives import defuse_ops, inline_primitives
from relayvm.compiler.transforms.to_basic_block_normal_form import to_basic_block_normal_form
from relayvm.compiler.transforms.to_graph_normal_form import to_graph_normal_form

_TYPED = frozenset({Property.TYPED})
_ANF = frozenset({Property.ANF})
_SHAPE_OF_TERMS = frozenset({Property.ANF, Property.FUSED})

LANGUAGE_PASSES = (
    Pass(
        "to_cps",
        to_cps,
        "let functions hand their results to continuations",
        requires=_TYPED | _ANF,
        breaks=_TYPED | _SHAPE_OF_TERMS,
        in_pipeline=False,
    ),
    Pass(
        "un_cps",
        un_cps,
        "give functions with a continuation their plain form again",
        requires=_TYPED,
        breaks=_TYPED | _SHAPE_OF_TERMS,
        in_pipeline=False,
    ),
    Pass(
        "to_basic_block_normal_form",
        to_basic_block_normal_form,
        "name what several scopes share in the scope around them",
        breaks=_SHAPE_OF_TERMS,
        in_pipeline=False,
    ),
    Pass(
        "to_graph_normal_form",
        to_graph_normal_form,
        "drop lets where nobody can tell",
        requires=_TYPED,
        breaks=_SHAPE_OF_TERMS,
        in_pipeline=False,
    ),
    Pass(
        "eta_expand",
        eta_expand,
        "wrap constructors and globals that are used as values in functions",
        requires=_TYPED,
        breaks=_TYPED | _SHAPE_OF_TERMS,
        options=(("expand_constructor", True), ("expand_global_var", False)),
        in_pipeline=False,
    ),
    Pass(
        "lambda_lift",
        lambda_lift,
        "make local functions global ones",
        requires=_TYPED | _ANF,
        breaks=_TYPED | _SHAPE_OF_TERMS,
        in_pipeline=False,
    ),
    Pass(
        "defunctionalize",
        defunctionalize,
        "turn function values into data and their calls into calls of `apply` functions",
        requires=_TYPED | _ANF | {Property.MONOMORPHIC},
        breaks=_TYPED | _SHAPE_OF_TERMS,
        in_pipeline=False,
        judging=True,
    ),
    Pass(
        "partial_evaluate",
        partial_evaluate,
        "run what is known of a program and leave the rest",
        requires=_TYPED | _ANF,
        breaks=_TYPED | _SHAPE_OF_TERMS,
        in_pipeline=False,
    ),
    Pass(
        "inline_primitives",
        inline_primitives,
        "put primitive functions in the place of their names",
        requires=_TYPED,
        breaks=_SHAPE_OF_TERMS,
        in_pipeline=False,
    ),
    Pass(
        "fuse_ops",
        fuse_ops,
        "group operator calls of graphs into primitive functions by dominance",
        requires=_TYPED,
        breaks=_SHAPE_OF_TERMS,
        options=(("fuse_opt_level", 1), ("max_depth", 256), ("max_function_args", 0)),
        in_pipeline=False,
    ),
    Pass(
        "defuse_ops",
        defuse_ops,
        "put the bodies of primitive functions in the place of their calls",
        requires=_TYPED,
        breaks=_SHAPE_OF_TERMS,
        in_pipeline=False,
    ),
    Pass(
        "qnn_legalize",
        legalize_qnn,
        "look functions of quantized numbers up in tables",
        requires=_TYPED,
        breaks=_TYPED | _SHAPE_OF_TERMS,
        in_pipeline=False,
    ),
)
