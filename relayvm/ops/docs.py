"""Writes the reference of operators, `docs/reference/operators.md`, from the table.

Run as `python -m relayvm.ops.docs [--check] [PATH]`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relayvm.base.dtypes import BY_NAME
from relayvm.ir.expr import AttributeSchema
from relayvm.ops import OPS
from relayvm.ops.operator import Operator

DEFAULT_PATH = Path(__file__).parents[2] / "docs" / "reference" / "operators.md"

_HEAD = """\
# Operators

Written by `python -m relayvm.ops.docs` from the operator table; do not edit.

In an example `%x = float32 [...]` gives the operand, the line after the last `>>>` is the result.
Elements of operands that are called `lhs` and `rhs` are broadcast against each other as in numpy.
Float results are within `ulp` units in the last place, beside the rounding of sums.
"""


@dataclass(frozen=True, slots=True)
class Example:
    """The example of a docstring: operands by name, the expression, and the result."""

    operands: Mapping[str, np.ndarray]
    expression: str
    result: object


def read_example(op: Operator) -> Example:
    """Return the example in the docstring of an operator."""
    lines = [line.strip() for line in op.doc.splitlines()]
    prompts = [i for i, line in enumerate(lines) if line.startswith(">>> ")]
    operands: dict[str, np.ndarray] = {}
    for i in prompts[:-1]:
        name, _, value = lines[i].removeprefix(">>> ").partition(" = ")
        dtype, _, elements = value.partition(" ")
        operands[name.removeprefix("%")] = np.array(_literal(elements), BY_NAME[dtype].numpy)
    expression = lines[prompts[-1]].removeprefix(">>> ")
    return Example(operands, expression, _literal(" ".join(lines[prompts[-1] + 1 :])))


def _literal(text: str) -> object:
    return eval(text, {"__builtins__": {}}, {"nan": np.nan, "inf": np.inf})


def reference() -> str:
    """Return the text of the reference."""
    rows = "\n".join(_summary(op) for op in OPS.values())
    table = f"| operator | fusion | gradient | ulp |\n|---|---|---|---|\n{rows}\n"
    return "\n".join([_HEAD, table, *(_section(op) for op in OPS.values())])


def _summary(op: Operator) -> str:
    anchor = op.name.replace(".", "").replace(" ", "-")
    gradient = f"none: {op.no_gradient}" if op.no_gradient else "yes"
    return f"| [`{op.name}`](#{anchor}) | {op.fusion.value} | {gradient} | {op.ulp:g} |"


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
