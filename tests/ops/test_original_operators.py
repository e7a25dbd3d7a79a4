"""Names, operands, attributes and defaults of the original's operators, and what is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from relayvm.ops import OPS
from relayvm.ops.coverage import coverage
from relayvm.ops.left_out import LEFT_OUT
from relayvm.ops.operator import Operator

LIST = Path(__file__).with_name("original_operators.txt")
REQUIRED = object()

# Where the order or a name is that of the original's calls, which differ from its own description.
OTHER_OPERANDS = {
    *(n for n in OPS if n.startswith("qnn.")),
    *("dyn.strided_slice", "nn.avg_pool2d_grad", "nn.max_pool2d_grad", "nn.dilate", "nn.pad"),
}
# Defaults that mean what the original makes of its own, or without which nothing can be computed.
OTHER_DEFAULTS = {
    "dyn.topk": {"dtype"},
    "gather": {"axis"},
    "image.crop_and_resize": {"crop_size"},
    "image.resize1d": {"size"},
    "image.resize2d": {"size"},
    "image.resize3d": {"size"},
    "qnn.batch_matmul": {"out_dtype"},
    "qnn.contrib_dense_pack": {"out_dtype"},
    "qnn.conv2d": {"out_dtype"},
    "qnn.conv2d_transpose": {"out_dtype"},
    "qnn.dense": {"out_dtype"},
    "qnn.requantize": {"out_dtype"},
    "random.normal": {"out_dtype"},
    "random.uniform": {"out_dtype"},
    "reverse": {"axis"},
    "stft": {"n_fft", "hop_length", "win_length"},
    "topk": {"dtype"},
}


@dataclass(frozen=True)
class Original:
    """One line of the list; an attribute without a default is REQUIRED."""

    name: str
    operands: tuple[str, ...]
    attributes: dict[str, Any]


def originals() -> Iterator[Original]:
    for line in LIST.read_text(encoding="utf-8").splitlines():
        head, _, rest = line.partition(")")
        name, _, operands = head.partition("(")
        parts = [field.partition("=") for field in rest.split()]
        attributes = {key: read(value) if equals else REQUIRED for key, equals, value in parts}
        yield Original(name, tuple(filter(None, operands.split(", "))), attributes)


def read(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return tuple(value) if isinstance(value, list) else value


def same(ours: Any, theirs: Any) -> bool:
    if ours in ("None", (), "") or theirs in ((), ""):
        return theirs in ("None", (), "", None)
    return str(ours) == theirs if isinstance(theirs, str) else bool(ours == theirs)


ORIGINALS = {row.name: row for row in originals()}


def test_every_name_of_the_original_is_an_operator_or_left_out_for_a_reason() -> None:
    assert len(ORIGINALS) == 304
    assert set(ORIGINALS) - set(OPS) == set(LEFT_OUT)
    assert all(reason for reason in LEFT_OUT.values())


@pytest.mark.parametrize("name", sorted(set(ORIGINALS) & set(OPS)))
def test_operands_attributes_and_defaults_are_those_of_the_original(name: str) -> None:
    op, row = OPS[name], ORIGINALS[name]
    operands = tuple(o.name for o in op.operands)
    if name in OTHER_OPERANDS:
        assert len(operands) in (len(row.operands), len(row.operands) - 1)
    else:
        assert operands == row.operands
    ours = {a.name: a for a in op.attributes}
    for attribute, default in row.attributes.items():
        if attribute in op.ignored:
            continue
        mine = ours[attribute]
        if default is REQUIRED or attribute in OTHER_DEFAULTS.get(name, ()):
            continue
        assert not mine.required
        assert same(mine.default, default), attribute


def _cells(op: Operator) -> tuple[str, ...]:
    cells = coverage(op, OPS)
    return (cells.dtypes, cells.dynamic, cells.empty, cells.rank_0)


@pytest.mark.parametrize("name", sorted(OPS))
def test_no_cell_of_the_reference_is_empty(name: str) -> None:
    assert all(_cells(OPS[name]))


def test_every_operator_takes_sizes_that_are_not_known() -> None:
    assert [n for n in OPS if not _cells(OPS[n])[1].startswith("yes")] == []
