"""Writes the reference of operators, `docs/reference/operators.md`, from the table.

Run as `python -m relayvm.ops.docs [--check] [PATH]`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from relayvm.ir.expr import AttributeSchema
from relayvm.ops import OPS
from relayvm.ops.coverage import coverage
from relayvm.ops.left_out import LEFT_OUT
from relayvm.ops.operator import Operator

DEFAULT_PATH = Path(__file__).parents[2] / "docs" / "reference" / "operators.md"

_HEAD = """\
# Operators

Written by `python -m relayvm.ops.docs` from the operator table; do not edit.

In an example `%x = float32 [...]` gives the operand, the line after the last `>>>` is the result.
Elements of operands that are called `lhs` and `rhs` are broadcast against each other as in numpy.
Float results are within `ulp` units in the last place, beside the rounding of sums.

The table tells of each operator whether it has a meaning in numpy and a computation of kernels,
its gradient, the dtypes of its operands (one for all, or one after the other), and whether it
takes tensors of unknown or symbolic sizes, empty tensors and tensors of rank 0. Where it does not,
the cell is what a program that tries is told.
"""

_LEFT_OUT = """\
## Left out

These names of the original are no operators here.
"""

_COLUMNS = (
    "operator", "fusion", "numpy", "compute", "gradient", "dtypes", "dynamic", "empty", "rank 0",
    "ulp",
)  # fmt: skip


def reference() -> str:
    """Return the text of the reference."""
    head = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n"
    table = head + "\n".join(_summary(op) for op in OPS.values()) + "\n"
    left_out = "\n".join(f"- `{name}`: {reason}" for name, reason in LEFT_OUT.items())
    sections = [_section(op) for op in OPS.values()]
    return "\n".join([_HEAD, table, _LEFT_OUT, left_out + "\n", *sections])


def _summary(op: Operator) -> str:
    anchor = op.name.replace(".", "").replace(" ", "-")
    covered = coverage(op, OPS)
    cells = (
        f"[`{op.name}`](#{anchor})",
        op.fusion.value,
        *("yes" if facet in op.facets else "no" for facet in ("numpy", "compute")),
        f"none: {op.no_gradient}" if op.no_gradient else "yes",
        covered.dtypes,
        covered.dynamic,
        covered.empty,
        covered.rank_0,
        f"{op.ulp:g}",
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _section(op: Operator) -> str:
    text, _, example = op.doc.partition("\n>>> ")
    parts = [f"## {op.name}\n", f"`{_signature(op)}`\n", text.rstrip() + "\n"]
    for operand in op.constrained_operands:
        dtypes = operand.constraint.dtypes
        kinds = "" if len(dtypes) > 4 else f" ({', '.join(d.name for d in dtypes)})"
        parts.append(f"- `{operand.name}`: {operand.constraint.text}{kinds}")
    if op.facets.get("infer_operands"):
        parts.append("- types of operands after the first may be left out: they follow from it")
    parts.append(f"\n```\n>>> {example.rstrip()}\n```\n")
    return "\n".join(parts)


def _signature(op: Operator) -> str:
    names = [o.name for o in op.operands] + [_attribute(a) for a in op.attributes]
    return f"{op.name}({', '.join(names)})"


def _attribute(row: AttributeSchema) -> str:
    return f"{row.name}: {row.kind}" + ("" if row.required else f" = {row.default!r}")


def main(arguments: list[str]) -> int:
    """Write the reference, or with `--check` return 1 if the file differs."""
    paths = [a for a in arguments if not a.startswith("--")]
    path = Path(paths[0]) if paths else DEFAULT_PATH
    text = reference()
    if "--check" in arguments:
        fresh = path.exists() and path.read_text(encoding="utf-8") == text
        if not fresh:
            print(f"{path} is stale: run `python -m relayvm.ops.docs`", file=sys.stderr)
        return 0 if fresh else 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
