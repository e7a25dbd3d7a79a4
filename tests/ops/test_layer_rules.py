"""What the rules of layers refuse, and which operand types they infer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm.base.dims import ANY, Dim, DimVar, symbol
from relayvm.base.dtypes import FLOAT32, INT32, dtype_of
from relayvm.base.shapes import ShapeError, shape_context
from relayvm.ir.types import TensorType
from relayvm.ops import OPS

N = symbol(DimVar("n"))


def tensor(*shape: Dim) -> TensorType:
    return TensorType(shape, FLOAT32)


IMAGE, WEIGHT = tensor(1, 4, 8, 8), tensor(6, 4, 3, 3)
VECTOR = tensor(4)

REFUSED: list[tuple[str, list[TensorType], dict[str, Any], str]] = [
    ("nn.conv2d", [IMAGE, WEIGHT], {"groups": 0}, "`groups` of `nn.conv2d` must be at least 1"),
    ("nn.conv2d", [IMAGE, WEIGHT], {"groups": 3}, "channels of `data` of `nn.conv2d`.*: 4 and 12"),
    ("nn.conv2d", [IMAGE, WEIGHT], {"strides": (0, 1)}, "`strides` of `nn.conv2d` must be"),
    ("nn.conv2d", [IMAGE, WEIGHT], {"dilation": (1, 1, 1)}, "`dilation` of `nn.conv2d`"),
    ("nn.conv2d", [IMAGE, WEIGHT], {"padding": (1, 1, 1)}, "must have 1 or 2 or 4 entries"),
    ("nn.conv2d", [IMAGE, WEIGHT], {"padding": (-1,)}, "`padding`.* must be at least 0"),
    ("nn.conv2d", [IMAGE, WEIGHT], {"channels": 7}, "output channels.*differ: 6 and 7"),
    ("nn.conv2d", [IMAGE, WEIGHT], {"kernel_size": (3, 5)}, "taps.*differ: 3 and 5"),
    ("nn.conv2d", [IMAGE, WEIGHT], {"kernel_size": (3,)}, "`kernel_size`.* must have 2 entries"),
    ("nn.conv1d", [tensor(1, 4, 8), tensor(6, 4, 3)], {"kernel_size": (3, 3)}, "have 1 entry, got"),
    ("nn.conv1d", [tensor(1, 4, 8), tensor(6, 4, 3)], {"strides": (1, 1)}, "be 1 number of at"),
    ("nn.conv2d", [IMAGE, WEIGHT], {"data_layout": "NCWW"}, "`data_layout` of `nn.conv2d`"),
    ("nn.conv2d", [IMAGE, WEIGHT], {"kernel_layout": "OIHW4o"}, "`kernel_layout` of `nn.conv2d`"),
    ("nn.conv2d", [IMAGE, tensor(6, 4, 10, 1)], {}, "result of `nn.conv2d` would have the size -1"),
    ("nn.conv2d", [tensor(4, 8, 8), WEIGHT], {}, "`data` of `nn.conv2d` must have rank 4, got 3"),
    (
        "nn.conv2d_transpose",
        [IMAGE, tensor(4, 6, 3, 3)],
        {"output_padding": (2, 2)},
        "`output_padding`.*below the stride",
    ),
    ("nn.conv2d_transpose", [IMAGE, tensor(5, 6, 3, 3)], {}, "channels of `data`.*: 4 and 5"),
    ("nn.conv2d_backward_weight", [IMAGE, IMAGE], {}, "needs `kernel_size`"),
    ("nn.max_pool2d", [IMAGE], {"pool_size": (0, 1)}, "`pool_size` of `nn.max_pool2d`"),
    ("nn.max_pool2d", [IMAGE], {"pool_size": (10, 9)}, "result of `nn.max_pool2d` would have"),
    ("nn.avg_pool2d", [IMAGE], {"pool_size": 2, "layout": "NCW"}, "`layout` of `nn.avg_pool2d`"),
    ("nn.avg_pool2d", [IMAGE], {"pool_size": 2, "out_layout": "NHWC"}, "`out_layout`"),
    ("nn.adaptive_avg_pool2d", [IMAGE], {"output_size": (1, 2, 3)}, "must have 0, 1 or 2 entries"),
    (
        "nn.batch_norm",
        [IMAGE, VECTOR, VECTOR, VECTOR, tensor(5)],
        {},
        "and `moving_var`.*: 4 and 5",
    ),
    ("nn.instance_norm", [IMAGE, VECTOR, VECTOR], {"axis": 0}, "must not be the axis of the batch"),
    ("nn.group_norm", [IMAGE, VECTOR, VECTOR], {"num_groups": 3}, "modulo `num_groups`"),
    ("nn.group_norm", [IMAGE, VECTOR, VECTOR], {}, "`num_groups`.* must be at least 1, got 0"),
    ("nn.lrn", [IMAGE], {"size": 4}, "`size` of `nn.lrn` must be odd"),
    ("nn.dropout", [IMAGE], {"rate": 1.5}, "`rate` of `nn.dropout` must be 0 to 1"),
    ("nn.pad", [VECTOR, tensor()], {"pad_width": ((1, -1),)}, "`pad_width` of `nn.pad`"),
    ("nn.pad", [VECTOR, tensor()], {"pad_width": ((4, 0),), "pad_mode": "reflect"}, "size -1"),
    ("nn.pad", [VECTOR, tensor()], {"pad_width": ((1, 0),), "pad_mode": "wrap"}, "`pad_mode`"),
    ("nn.pad", [VECTOR, tensor()], {"pad_width": (1, 0)}, "must be a list of pairs of integers"),
    ("nn.dilate", [VECTOR], {"strides": (0,)}, "`strides` of `nn.dilate`"),
    ("nn.depth_to_space", [IMAGE], {"block_size": 3}, "channels of `nn.depth_to_space` modulo 9"),
    ("nn.space_to_depth", [IMAGE], {"block_size": 2, "mode": "RCD"}, "`mode`"),
    ("nn.upsampling", [IMAGE], {"scale_h": -1.0}, "`scale_h` of `nn.upsampling`"),
    ("nn.upsampling", [IMAGE], {"method": "lanczos"}, "`method` of `nn.upsampling`"),
    ("nn.cross_entropy", [tensor(2, 3), tensor(2, 4)], {}, "axis 1 of `x` and `y`.*: 3 and 4"),
    ("nn.correlation", [IMAGE, IMAGE], {"kernel_size": 2}, "`kernel_size`.* must be odd"),
    ("nn.fifo_buffer", [tensor(5), VECTOR], {}, "axis 0 of `buffer`"),
]


@pytest.mark.parametrize(("name", "types", "attrs", "message"), REFUSED)
def test_a_rule_names_the_operator_and_what_is_wrong(
    name: str, types: list[TensorType], attrs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        OPS[name].result_type(types, attrs)


INFERRED: list[tuple[str, TensorType, int, dict[str, Any], list[TensorType]]] = [
    ("nn.conv2d", IMAGE, 2, {"channels": 6, "kernel_size": (3, 5)}, [tensor(6, 4, 3, 5)]),
    (
        "nn.conv2d",
        tensor(1, 8, 8, 4),
        2,
        {
            "channels": 8,
            "kernel_size": (3, 3),
            "groups": 4,
            "data_layout": "NHWC",
            "kernel_layout": "HWIO",
        },
        [tensor(3, 3, 1, 8)],
    ),
    ("nn.conv1d", tensor(N, 4, 8), 2, {"channels": N, "kernel_size": 2}, [tensor(N, 4, 2)]),
    (
        "nn.conv2d_transpose",
        IMAGE,
        2,
        {"channels": 6, "kernel_size": (3, 3), "groups": 2},
        [tensor(4, 3, 3, 3)],
    ),
    ("nn.batch_norm", IMAGE, 5, {}, [VECTOR] * 4),
    ("nn.instance_norm", IMAGE, 3, {"axis": -1}, [tensor(8)] * 2),
    ("nn.group_norm", IMAGE, 3, {"num_groups": 2}, [VECTOR] * 2),
    ("nn.prelu", IMAGE, 2, {}, [VECTOR]),
    ("nn.pad", IMAGE, 2, {"pad_width": ((0, 0),) * 4}, [tensor()]),
    (
        "nn.deformable_conv2d",
        IMAGE,
        3,
        {"channels": 2, "kernel_size": (3, 3), "padding": (1, 1)},
        [tensor(1, 18, 8, 8), tensor(2, 4, 3, 3)],
    ),
]


@pytest.mark.parametrize(("name", "data", "count", "attrs", "expected"), INFERRED)
def test_the_types_of_parameters_follow_from_the_data(
    name: str, data: TensorType, count: int, attrs: dict[str, Any], expected: list[TensorType]
) -> None:
    types = OPS[name].complete_types([data, *(None,) * (count - 1)], attrs)
    assert list(types) == [data, *expected]


def test_sizes_that_only_a_run_tells_leave_a_check() -> None:
    with shape_context() as context:
        result = OPS["nn.conv2d"].result_type([tensor(N, 4, N, ANY), WEIGHT], {"strides": (2, 2)})
    assert isinstance(result, TensorType)
    assert str(result.shape[2]) == "((n - 1) // 2)"
    assert result.shape[3] is ANY
    assert any("result of `nn.conv2d`" in check.what for check in context.checks)


def test_a_window_that_does_not_fit_at_run_time_traps() -> None:
    text = "def @main(%x: Tensor[(1, 1, ?), float32]) { nn.max_pool1d(%x, pool_size=[3]) }"
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    assert machine.run(np.zeros((1, 1, 2), np.float32)).shape == (1, 1, 0)
    with pytest.raises(relayvm.Trap, match="max_pool1d"):
        machine.run(np.zeros((1, 1, 1), np.float32))


def test_a_target_that_is_no_class_traps() -> None:
    types = "%p: Tensor[(2, 3), float32], %t: Tensor[(2), int32], %w: Tensor[(3), float32]"
    text = f"def @main({types}) {{ nn.nll_loss(%p, %t, %w) }}"
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    predictions, weights = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    legal = np.array([2, -100], np.int32)
    assert machine.run(predictions, legal, weights) == -1
    with pytest.raises(relayvm.Trap, match="3"):
        machine.run(predictions, np.array([0, 3], np.int32), weights)


def test_mixed_dtypes_of_data_and_weight_give_that_of_the_data_or_the_one_asked_for() -> None:
    image, weight = TensorType(IMAGE.shape, INT32), WEIGHT
    result = OPS["nn.conv2d"].result_type([image, weight], {})
    assert isinstance(result, TensorType) and result.dtype is INT32
    result = OPS["nn.conv2d"].result_type([image, weight], {"out_dtype": "float32"})
    assert isinstance(result, TensorType) and result.dtype is FLOAT32


@pytest.mark.parametrize("name", ["nn.dense", "nn.contrib_dense_pack"])
def test_products_take_integers_of_different_dtypes_and_floats_of_one(name: str) -> None:
    weight = (3, 8) if name == "nn.dense" else (1, 8, 3)
    data, bytes_ = TensorType((5, 8), dtype_of("uint8")), TensorType(weight, dtype_of("int8"))
    result = OPS[name].result_type([data, bytes_], {"out_dtype": "int32"})
    assert result == TensorType((5, 3), INT32)
    with pytest.raises(ShapeError, match="dtypes of"):
        OPS[name].result_type([TensorType((5, 8), FLOAT32), bytes_], {})


def test_packs_hold_all_units_and_all_of_k_and_are_of_integers() -> None:
    pack, data = OPS["nn.contrib_dense_pack"], TensorType((5, 10), INT32)
    blocks = TensorType((2, 3, 16, 4), INT32)
    assert pack.result_type([data, blocks], {"units": 20}) == TensorType((5, 20), INT32)
    assert pack.result_type([data, blocks], {}) == TensorType((5, 32), INT32)
    for shape, units in (((5, 13), 20), ((5, 8), 20), ((5, 10), 16), ((5, 10), 33)):
        with pytest.raises(ShapeError):
            pack.result_type([TensorType(shape, INT32), blocks], {"units": units})
    floats = [TensorType((5, 10), FLOAT32), TensorType((2, 3, 16, 4), FLOAT32)]
    with pytest.raises(ShapeError, match="only integers"):
        pack.result_type(floats, {"units": 20})
