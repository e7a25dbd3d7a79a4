"""One example a function of `relay.nn`, `image`, `vision`, `random`, `annotation` and `qnn`."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm import relay
from tests.relay.op_cases import CUBE, IMAGE, WAVE, A, B, Case, P

NN_CASES: list[Case] = []
# Functions whose result depends on more than is worth writing down: only its type is expected.
SHAPE = "shape"


def case(name: str, build: Any, *inputs: Any, want: Any) -> None:
    NN_CASES.append(Case(name, build, inputs, want))


def nn(name: str, *inputs: Any, want: Any, **attrs: Any) -> None:
    """Add a case whose operands are all variables."""
    case(f"nn.{name}", lambda *xs: getattr(relay.nn, name)(*xs, **attrs), *inputs, want=want)


ONES1, ONES2, ONES3 = (np.ones((1, 2, *(1,) * n), np.float32) for n in (1, 2, 3))
TWICE = np.full((2, 3, 1), 2, np.float32)

for _axes, _image in ((1, WAVE), (2, IMAGE), (3, CUBE)):
    _kernel = np.ones((1, 2, *(1,) * _axes), np.float32)
    nn(f"conv{_axes}d", _image, _kernel, want=_image.sum(1, keepdims=True))
    _kernel = np.ones((2, 1, *(1,) * _axes), np.float32)
    nn(f"conv{_axes}d_transpose", _image, _kernel, want=_image.sum(1, keepdims=True))
    for _kind, _reduce in (("max", np.max), ("avg", np.mean)):
        _over = tuple(range(2, 2 + _axes))
        _size = min(_image.shape[2:])
        _whole = _reduce(_image, axis=_over, keepdims=True)
        nn(f"{_kind}_pool{_axes}d", _image, want=_whole, pool_size=_size)
        nn(f"adaptive_{_kind}_pool{_axes}d", _image, want=_whole, output_size=1)
        nn(f"global_{_kind}_pool{_axes}d", _image, want=_whole)

BITS = (np.arange(64).reshape(2, 32) % 3 == 0).astype(np.uint32)
nn("bitpack", BITS, want=np.packbits(BITS.astype(bool), axis=1).view(">u4")[..., None])
nn("bitserial_dense", BITS, BITS, want=(BITS @ (2 * BITS.astype(np.int16) - 1).T))
nn(
    "bitserial_conv2d",
    (IMAGE > 2).astype(np.uint32),
    np.ones((1, 2, 1, 1), np.uint32),
    want=(IMAGE > 2).sum(1, keepdims=True, dtype=np.int16),
    kernel_size=(1, 1),
    channels=1,
)
GRAD = np.ones((1, 2, 1, 1), np.float32)
LAST = np.zeros_like(IMAGE)
LAST[..., -1, -1] = 1
nn("max_pool2d_grad", GRAD, IMAGE, want=LAST, pool_size=(4, 4))
nn("avg_pool2d_grad", GRAD, IMAGE, want=np.full_like(IMAGE, 1 / 16), pool_size=(4, 4))
nn(
    "conv2d_backward_weight",
    np.ones((1, 1, 4, 4), np.float32),
    IMAGE,
    want=IMAGE.sum((2, 3), keepdims=True),
    kernel_size=(1, 1),
    channels=1,
)
nn(
    "deformable_conv2d",
    IMAGE,
    np.zeros((1, 2, 4, 4), np.float32),
    np.ones((1, 2, 1, 1), np.float32),
    want=IMAGE.sum(1, keepdims=True),
    kernel_size=(1, 1),
    channels=1,
)
case(
    "nn.correlation",
    lambda x, y: relay.nn.correlation(x, y, 1, 0, 1, 1, 0, True, "NCHW"),
    IMAGE,
    IMAGE,
    want=(IMAGE * IMAGE).mean(1, keepdims=True),
)
nn("softmax", B, want=np.exp(B) / np.exp(B).sum(-1, keepdims=True))
nn("fast_softmax", B, want=np.exp(B) / np.exp(B).sum(-1, keepdims=True))
nn("log_softmax", B, want=B - np.log(np.exp(B).sum(-1, keepdims=True)))
nn("relu", A, want=A.clip(0))
nn("leaky_relu", A, want=np.where(A > 0, A, A * np.float32(0.01)))
nn("prelu", A, np.float32([1, 2, 3]), want=np.where(A > 0, A, A * np.float32([1, 2, 3])))
nn("lrn", IMAGE * 0, want=IMAGE * 0)
nn("l2_normalize", B, want=B / np.sqrt((B * B).sum(1, keepdims=True)), eps=1e-9, axis=[1])
nn("dropout", A, want=A)
case("nn.dropout_raw", lambda x: relay.TupleGetItem(relay.nn.dropout_raw(x), 0), A, want=A)
ONE3, ZERO3 = np.ones(3, np.float32), np.zeros(3, np.float32)
case(
    "nn.batch_norm",
    lambda *xs: relay.nn.batch_norm(*xs, epsilon=0.0)[0],
    *(A, ONE3 * 2, ONE3, ZERO3, ONE3),
    want=A * 2 + 1,
)
NORMAL = (B - B.mean(1, keepdims=True)) / B.std(1, keepdims=True)
nn("layer_norm", B, ONE3, ZERO3, want=NORMAL, epsilon=0.0)
nn(
    "instance_norm",
    B[:, None],
    *(np.float32([k]) for k in (1, 0)),
    want=NORMAL[:, None],
    epsilon=0.0,
)
nn("group_norm", B[:, :, None], ONE3, ZERO3, want=NORMAL[:, :, None], num_groups=1, epsilon=0.0)
nn("cross_entropy", P, P, want=-(P * np.log(P)).sum() / 2)
nn("cross_entropy_with_logits", P, P, want=-(P * P).sum() / 2)
nn("nll_loss", B, np.array([2, 0], np.int32), ONE3, want=np.float32(-(3 + 4) / 2))
nn("batch_flatten", IMAGE, want=IMAGE.reshape(1, -1))
nn("bias_add", A, B[0], want=A + B[0])
nn("dense", A, B, want=A @ B.T)
nn("matmul", A, B.T, want=A @ B.T)
nn("batch_matmul", A[None], B[None], want=(A @ B.T)[None])
nn("contrib_dense_pack", A, np.ascontiguousarray(B.T[None]), want=A @ B.T, weight_layout="NC2n")
SPARSE = (np.float32([4, 8]), np.array([0, 2], np.int32), np.array([0, 1, 2], np.int32))
DENSE = np.float32([[4, 0, 0], [0, 0, 8]])
case("nn.sparse_dense", lambda x, *m: relay.nn.sparse_dense(x, m), A, *SPARSE, want=A @ DENSE.T)
case("nn.sparse_add", lambda x, *m: relay.nn.sparse_add(x, m), A, *SPARSE, want=A + DENSE)
SQUARE = (np.float32([4, 8]), np.array([1, 1], np.int32), np.array([0, 1, 2], np.int32))
case(
    "nn.sparse_transpose",
    lambda *m: relay.nn.sparse_transpose(m),
    *SQUARE,
    want=([4, 8], [0, 1], [0, 0, 2]),
)
nn("upsampling", IMAGE, want=IMAGE.repeat(2, 2).repeat(2, 3), scale_h=2, scale_w=2)
nn(
    "upsampling3d",
    CUBE,
    want=CUBE.repeat(2, 2),
    scale_d=2,
    coordinate_transformation_mode="asymmetric",
)
nn("pad", A, want=np.pad(A, ((0, 0), (1, 2))), pad_width=((0, 0), (1, 2)), pad_value=0.0)
nn("pad", A, want=np.pad(A, ((0, 0), (1, 2))), pad_width=((0, 0), (1, 2)))
nn("mirror_pad", A, want=np.pad(A, ((0, 0), (1, 1)), "symmetric"), pad_width=((0, 0), (1, 1)))
nn("dilate", A[:1], want=[[A[0, 0], 0, A[0, 1], 0, A[0, 2]]], strides=[1, 2])
nn("fifo_buffer", B[:, :1], A, want=np.hstack([A[:, 1:], B[:, :1]]), axis=1)
nn(
    "depth_to_space",
    np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1),
    want=[[[[0, 1], [2, 3]]]],
    block_size=2,
)
nn(
    "space_to_depth",
    np.float32([[[[0, 1], [2, 3]]]]),
    want=np.float32([0, 1, 2, 3]).reshape(1, 4, 1, 1),
    block_size=2,
)
nn(
    "space_to_batch_nd",
    np.float32([[[[0], [1]], [[2], [3]]]]),
    want=np.float32([0, 1, 2, 3]).reshape(4, 1, 1, 1),
    block_shape=[2, 2],
    paddings=[[0, 0], [0, 0]],
)
nn(
    "batch_to_space_nd",
    np.float32([0, 1, 2, 3]).reshape(4, 1, 1, 1),
    want=[[[[0], [1]], [[2], [3]]]],
    block_shape=[2, 2],
    crops=[[0, 0], [0, 0]],
)

# -- Images, detection, random numbers, marks -----------------------------------------------------

SAME = {"coordinate_transformation_mode": "asymmetric", "method": "nearest_neighbor"}
case("image.resize1d", lambda x: relay.image.resize1d(x, 8, **SAME), WAVE, want=WAVE.repeat(2, 2))
case(
    "image.resize2d",
    lambda x: relay.image.resize2d(x, (8, 4), **SAME),
    IMAGE,
    want=IMAGE.repeat(2, 2),
)
case(
    "image.resize3d",
    lambda x: relay.image.resize3d(x, (4, 2, 2), **SAME),
    CUBE,
    want=CUBE.repeat(2, 2),
)
BOX = np.float32([[0, 0, 1, 1]])
ZERO = np.zeros(1, np.int32)
case(
    "image.crop_and_resize",
    lambda x, b, i: relay.image.crop_and_resize(x, b, i, (4, 4), "NCHW"),
    IMAGE,
    BOX,
    ZERO,
    want=IMAGE,
)
case(
    "image.dilation2d",
    relay.image.dilation2d,
    IMAGE,
    np.zeros((2, 1, 1), np.float32),
    want=IMAGE,
)
UNIT = np.float32([[[1, 0, 0], [0, 1, 0]]])
case("image.affine_grid", lambda x: relay.image.affine_grid(x, (2, 2)), UNIT, want=SHAPE)
GRID = np.stack(np.meshgrid(*[np.linspace(-1, 1, 4, dtype=np.float32)] * 2))[None]
case("image.grid_sample", relay.image.grid_sample, IMAGE, GRID, want=IMAGE)

case("vision.multibox_prior", relay.vision.multibox_prior, IMAGE, want=SHAPE)
case(
    "vision.multibox_transform_loc",
    relay.vision.multibox_transform_loc,
    np.float32([[[0.2], [0.8]]]),
    np.zeros((1, 4), np.float32),
    BOX[None],
    want=SHAPE,
)
BOXES = np.float32([[[0, 0.9, 0, 0, 1, 1], [0, 0.1, 2, 2, 3, 3]]])
case(
    "vision.get_valid_counts",
    lambda x: relay.vision.get_valid_counts(x, 0.5)[0],
    BOXES,
    want=[1],
)
case(
    "vision.non_max_suppression",
    lambda x, n, i: relay.vision.non_max_suppression(x, n, i, return_indices=False),
    BOXES,
    np.array([2], np.int32),
    np.array([[0, 1]], np.int32),
    want=BOXES,
)
case(
    "vision.all_class_non_max_suppression",
    lambda b, s: relay.vision.all_class_non_max_suppression(b, s)[1],
    BOXES[:, :, 2:],
    BOXES[:, None, :, 1],
    want=SHAPE,
)
case(
    "vision.regular_non_max_suppression",
    lambda b, s: relay.vision.regular_non_max_suppression(b, s, 2, 2, 1, 0.5, 0.5),
    BOXES[:, :, 2:],
    BOXES[:, :, 1:2],
    want=SHAPE,
)
ROI = np.float32([[0, 0, 0, 3, 3]])
case(
    "vision.roi_align",
    lambda x, r: relay.vision.roi_align(x, r, (1, 1), 1.0),
    IMAGE,
    ROI,
    want=SHAPE,
)
case(
    "vision.roi_pool",
    lambda x, r: relay.vision.roi_pool(x, r, (1, 1), 1.0),
    IMAGE,
    ROI,
    want=IMAGE.max((2, 3), keepdims=True),
)
case(
    "vision.proposal",
    lambda c, b, i: relay.vision.proposal(c, b, i, [8.0], [1.0], 16, 0.7, 6, 3, 1, False),
    np.full((1, 2, 1, 1), 0.5, np.float32),
    np.zeros((1, 4, 1, 1), np.float32),
    np.float32([[16, 16, 1]]),
    want=SHAPE,
)
case(
    "vision.yolo_reorg",
    lambda x: relay.vision.yolo_reorg(x, 2),
    IMAGE.reshape(1, 8, 2, 2),
    want=SHAPE,
)


def seeded(name: str, **attrs: Any) -> Any:
    return lambda: getattr(relay.random, name)(relay.random.threefry_key(1), **attrs)


case("random.threefry_key", seeded("threefry_split"), want=SHAPE)
case("random.threefry_split", seeded("threefry_split"), want=SHAPE)
case("random.threefry_generate", seeded("threefry_generate", shape=(3,)), want=SHAPE)
case("random.uniform", seeded("uniform", shape=(3,)), want=SHAPE)
case("random.normal", seeded("normal", shape=(3,)), want=SHAPE)
case(
    "random.multinomial",
    lambda p: relay.random.multinomial(relay.random.threefry_key(1), p, 2),
    P[0],
    want=SHAPE,
)
for _name in ("stop_fusion", "checkpoint"):
    case(f"annotation.{_name}", getattr(relay.annotation, _name), A, want=A)
case("annotation.on_device", lambda x: relay.annotation.on_device(x, "cpu"), A, want=A)
case("annotation.cast_hint", lambda x: relay.annotation.cast_hint(x, "int8"), A, want=A)

# -- Quantized ------------------------------------------------------------------------------------

Q = np.array([[-4, 0, 8], [16, 2, -2]], np.int8)
HALF, QUARTER, NONE = relay.const(0.5), relay.const(0.25), relay.const(0)
REAL = Q * np.float32(0.5)


def qnn(name: str, build: Any, *inputs: Any, want: Any) -> None:
    case(f"qnn.op.{name}", build, *inputs, want=want)


qnn("quantize", lambda x: relay.qnn.op.quantize(x, HALF, NONE), REAL, want=Q)
qnn("dequantize", lambda x: relay.qnn.op.dequantize(x, HALF, NONE), Q, want=REAL)
qnn("requantize", lambda x: relay.qnn.op.requantize(x, HALF, NONE, QUARTER, NONE), Q, want=Q * 2)
qnn(
    "simulated_quantize",
    lambda x: relay.qnn.op.simulated_quantize(x, HALF, NONE),
    REAL,
    want=Q.astype(np.float32),
)
qnn(
    "simulated_dequantize",
    lambda x: relay.qnn.op.simulated_dequantize(x, HALF, NONE),
    Q.astype(np.float32),
    want=REAL,
)
qnn(
    "concatenate",
    lambda x, y: relay.qnn.op.concatenate((x, y), (HALF, HALF), (NONE, NONE), HALF, NONE, 0),
    Q,
    Q,
    want=np.vstack([Q, Q]),
)
SMALL = np.array([[1, 2, 3], [4, 5, 6]], np.int8)
SCALES = (NONE, NONE, HALF, HALF)
qnn(
    "dense",
    lambda x, w: relay.qnn.op.dense(x, w, *SCALES, units=2),
    SMALL,
    SMALL,
    want=SMALL.astype(np.int32) @ SMALL.T,
)
qnn(
    "contrib_dense_pack",
    lambda x, w: relay.qnn.op.contrib_dense_pack(x, w, *SCALES, "NC2n", 2),
    SMALL,
    np.ascontiguousarray(SMALL.T[None]),
    want=SHAPE,
)
qnn(
    "batch_matmul",
    lambda x, y: relay.qnn.op.batch_matmul(x, y, *SCALES),
    SMALL[None],
    SMALL[None],
    want=(SMALL.astype(np.int32) @ SMALL.T)[None],
)
QIMAGE = IMAGE.astype(np.int8)
qnn(
    "conv2d",
    lambda x, w: relay.qnn.op.conv2d(x, w, *SCALES, (1, 1), 1),
    QIMAGE,
    np.ones((1, 2, 1, 1), np.int8),
    want=QIMAGE.sum(1, keepdims=True, dtype=np.int32),
)
qnn(
    "conv2d_transpose",
    lambda x, w: relay.qnn.op.conv2d_transpose(x, w, *SCALES, kernel_size=(1, 1), channels=1),
    QIMAGE,
    np.ones((2, 1, 1, 1), np.int8),
    want=QIMAGE.sum(1, keepdims=True, dtype=np.int32),
)
for _name in ("add", "subtract", "mul"):
    qnn(
        _name,
        lambda x, y, name=_name: getattr(relay.qnn.op, name)(
            x, y, HALF, NONE, HALF, NONE, HALF, NONE
        ),
        SMALL,
        SMALL,
        want=SHAPE,
    )
for _name in ("tanh", "exp", "sqrt", "rsqrt", "erf", "abs", "sigmoid", "hardswish", "log"):
    qnn(
        _name,
        lambda x, name=_name: getattr(relay.qnn.op, name)(x, HALF, NONE, HALF, NONE),
        SMALL,
        want=SHAPE,
    )
qnn(
    "leaky_relu",
    lambda x: relay.qnn.op.leaky_relu(x, 0.1, HALF, NONE, HALF, NONE),
    SMALL,
    want=SMALL,
)
qnn("softmax", lambda x: relay.qnn.op.softmax(x, HALF, NONE, HALF, NONE), SMALL, want=SHAPE)
qnn(
    "avg_pool2d",
    lambda x: relay.qnn.op.avg_pool2d(
        x, HALF, NONE, HALF, NONE, (1, 1), (1, 1), (0, 0), (1, 1), layout="NCHW"
    ),
    QIMAGE,
    want=QIMAGE,
)
