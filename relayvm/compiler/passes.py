"""The table of passes, in the order in which they run, and what each requires and ensures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.language_passes import LANGUAGE_PASSES
from relayvm.compiler.operator_passes import OPERATOR_PASSES
from relayvm.compiler.pipeline import Pass, Property, run_pipeline
from relayvm.compiler.steps import Step
from relayvm.compiler.transforms.canonicalize_qnn import canonicalize_qnn
from relayvm.compiler.transforms.compile_matches import compile_matches
from relayvm.compiler.transforms.constant_parameters import constant_parameters
from relayvm.compiler.transforms.dynamic_to_static import dynamic_to_static
from relayvm.compiler.transforms.eliminate_common_subexpressions import (
    eliminate_common_subexpressions,
)
from relayvm.compiler.transforms.eliminate_dead_code import (
    eliminate_dead_code,
    remove_unused_functions,
)
from relayvm.compiler.transforms.fold_constants import fold_constants
from relayvm.compiler.transforms.fuse import fuse
from relayvm.compiler.transforms.hoist_loop_contractions import hoist_loop_contractions
from relayvm.compiler.transforms.inline import inline
from relayvm.compiler.transforms.instantiate import instantiate
from relayvm.compiler.transforms.join_in_branches import join_in_branches
from relayvm.compiler.transforms.lay_out_weights import lay_out_weights
from relayvm.compiler.transforms.lift_closures import lift_closures
from relayvm.compiler.transforms.name_sizes import name_sizes
from relayvm.compiler.transforms.primitives import open_primitives
from relayvm.compiler.transforms.simplify_inference import simplify_inference
from relayvm.compiler.transforms.split_weights import split_weights
from relayvm.compiler.transforms.to_anf import to_anf
from relayvm.ir.module import Module

_TYPED = frozenset({Property.TYPED})
_ANF = frozenset({Property.ANF})
_SHAPE_OF_TERMS = frozenset({Property.ANF, Property.FUSED})

PASSES: dict[str, Pass] = {
    row.name: row
    for row in (
        Pass(
            "infer_types",
            infer_types,
            "give every expression its type, or report why it has none",
            ensures=_TYPED,
            judging=True,
            again=partial(infer_types, late=True),
        ),
        Pass(
            "open_primitives",
            open_primitives,
            "let the program's own primitive functions be ordinary ones, to be fused anew",
        ),
        Pass(
            "inline",
            inline,
            "put small, marked or once-called functions in the place of their calls",
            requires=_TYPED,
            breaks=_TYPED | _SHAPE_OF_TERMS,
            opt_level=1,
            options=(("marked_only", False),),
        ),
        Pass(
            "simplify_inference",
            simplify_inference,
            "write layers as what they do in inference",
            requires=_TYPED,
            breaks=_TYPED | _SHAPE_OF_TERMS,
            opt_level=1,
            options=(("every_norm", False),),
        ),
        Pass(
            "constant_parameters",
            constant_parameters,
            "turn parameters that never change into constants",
            requires=_TYPED,
            breaks=_TYPED,
            opt_level=1,
        ),
        Pass(
            "name_sizes",
            name_sizes,
            "name sizes that parameters leave open",
            requires=_TYPED,
            breaks=_SHAPE_OF_TERMS,
            opt_level=1,
        ),
        Pass(
            "dynamic_to_static",
            dynamic_to_static,
            "write what constants and sizes decide as attributes",
            requires=_TYPED,
            breaks=_SHAPE_OF_TERMS | _TYPED,
            opt_level=1,
        ),
        Pass(
            "qnn_canonicalize",
            canonicalize_qnn,
            "write quantized operators as operators on integers",
            requires=_TYPED,
            breaks=_TYPED | _SHAPE_OF_TERMS,
            opt_level=1,
        ),
        Pass(
            "fold_constants",
            fold_constants,
            "evaluate what depends on constants alone",
            requires=_TYPED,
            breaks=_TYPED | _SHAPE_OF_TERMS,
            opt_level=2,
        ),
        Pass(
            "lay_out_weights",
            lay_out_weights,
            "give constant weights the layout that kernels read fastest",
            requires=_TYPED,
            breaks=_SHAPE_OF_TERMS,
            opt_level=3,
            options=(("dots", None),),
        ),
        Pass(
            "eliminate_common_subexpressions",
            eliminate_common_subexpressions,
            "share equal pure calls",
            requires=_TYPED,
            breaks=_ANF,
            opt_level=2,
        ),
        Pass(
            "eliminate_dead_code",
            eliminate_dead_code,
            "drop what is computed for nothing",
            breaks=_ANF,
            opt_level=1,
            options=(("inline_once", False), ("ignore_impurity", False)),
        ),
        Pass(
            "remove_unused_functions",
            remove_unused_functions,
            "drop functions that no entry reaches",
        ),
        Pass(
            "instantiate",
            instantiate,
            "give each use of a polymorphic definition an instance of it",
            requires=_TYPED,
            ensures=_TYPED | {Property.MONOMORPHIC},
            judging=True,
        ),
        Pass(
            "to_anf",
            to_anf,
            "name every operand",
            requires=_TYPED,
            ensures=_ANF,
        ),
        Pass(
            "compile_matches",
            compile_matches,
            "split matches into tests of one constructor at a time",
            requires=_TYPED | _ANF,
            ensures=frozenset({Property.MATCHES_COMPILED}),
            judging=True,
        ),
        Pass(
            "hoist_loop_contractions",
            hoist_loop_contractions,
            "compute what a loop multiplies in each step by the same weight before its steps",
            requires=_TYPED | _ANF,
            opt_level=3,
        ),
        Pass(
            "join_in_branches",
            join_in_branches,
            "join what branches give inside of them, where it is computed",
            requires=_TYPED | _ANF,
            opt_level=3,
        ),
        Pass(
            "fuse",
            fuse,
            "group operator calls into kernels",
            requires=_TYPED | _ANF,
            ensures=frozenset({Property.FUSED}),
        ),
        Pass(
            "split_weights",
            split_weights,
            "give rows of constant weights that kernels read once whole vectors",
            requires=_TYPED,
            opt_level=3,
        ),
        Pass(
            "lift_closures",
            lift_closures,
            "make local functions global ones that take what they capture",
            requires=_TYPED | _ANF,
            ensures=frozenset({Property.CLOSURES_LIFTED}),
        ),
        *LANGUAGE_PASSES,
        *OPERATOR_PASSES,
    )
}


def pipeline_names(opt_level: int) -> list[str]:
    """Return the passes that compilation runs at an optimisation level, in order."""
    return [row.name for row in PASSES.values() if row.in_pipeline and row.opt_level <= opt_level]


def run_passes(
    module: Module,
    names: Sequence[Step] | None = None,
    opt_level: int = 3,
    verify: bool | None = None,
) -> Module:
    """Return the module after the named passes; by default all that run at `opt_level`, in order.

    A step is a name, `"name[option=value]"`, or a pair of a name and its options.
    `verify=True`, or RELAYVM_VERIFY=1, checks the module after every pass. Raises what
    `run_pipeline` raises.
    """
    if names is None:
        names = pipeline_names(opt_level)
    return run_pipeline(module, PASSES, names, verify)
