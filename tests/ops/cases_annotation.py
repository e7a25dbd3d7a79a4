"""Inputs of annotations: operators that return their operand."""

from __future__ import annotations

from operator_case import Case

_SHAPES = ((), (7,), (2, 3), (0, 3))
ANNOTATION_CASES = {
    name: [Case((shape,), attrs) for shape in _SHAPES]
    for name, attrs in (
        ("annotation.stop_fusion", {}),
        ("annotation.checkpoint", {}),
        ("annotation.cast_hint", {"dtype": "int8"}),
        ("on_device", {"device": "cpu"}),
        ("device_copy", {"src_device": "cpu", "dst_device": "cpu"}),
    )
}
