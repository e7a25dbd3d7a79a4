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


_TRANSFORMS = "relayvm.compiler.transforms"

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
        "eliminate_common_subexpressions",
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
        "relayvm.relay.pass_adapters:remove_unused_functions",
        "Drop functions that no entry reaches.",
        opt_level=1,
        parameters="entry_functions=None",
    ),
    PassRow("Inline", "inline", "Put functions in the place of their calls.", opt_level=1),
    PassRow(
        "ToANormalForm",
        "to_anf",
        "Name every operand with a let.",
        opt_level=1,
        is_function_pass=True,
    ),
    PassRow(
        "FuseOps",
        "fuse",
        "Group operator calls into primitive functions.",
        opt_level=0,
        parameters="fuse_opt_level=-1",
        is_function_pass=True,
    ),
    PassRow(
        "LambdaLift",
        "lift_closures",
        "Make local functions global ones.",
        opt_level=1,
    ),
)
