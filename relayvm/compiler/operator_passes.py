"""Rows of the passes that rewrite operator calls; they run only by name."""

from __future__ import annotations

from relayvm.compiler.pipeline import Pass, Property
from relayvm.compiler.transforms.simplify_expr import simplify_expr

_TYPED = frozenset({Property.TYPED})
_SHAPE_OF_TERMS = frozenset({Property.ANF, Property.FUSED})

OPERATOR_PASSES = (
    Pass(
        "simplify_expr",
        simplify_expr,
        "replace expressions by simpler ones",
        requires=_TYPED,
        breaks=_SHAPE_OF_TERMS,
        options=(("exact", False),),
        in_pipeline=False,
        rounds=True,
    ),
)
