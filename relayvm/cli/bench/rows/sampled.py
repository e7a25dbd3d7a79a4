"""Vision, signals, random and quantized numbers, for `bench operators`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from relayvm.cli.bench.rows.row import IMAGE, SQUARE, VOLUME, Operand, Row, shaped

_BYTES = ("int8:100", ("side", "side"))
_PLANES = ("int8:100", (1, 64, "image", 32))
_FLAT = "0.05f, 3, 0.04f, -5, 0.1f, 2"


def _places(rng: np.random.Generator, known: dict[str, int]) -> np.ndarray:
    return rng.uniform(-1, 1, (1, 2, known["image"], 32)).astype(np.float32)


def _volume_places(rng: np.random.Generator, known: dict[str, int]) -> np.ndarray:
    return rng.uniform(-1, 1, (1, 3, known["image"], 4, 8)).astype(np.float32)


def boxes(rng: np.random.Generator, number: int, side: float = 1000) -> np.ndarray:
    """Return boxes (left, top, right, bottom) in a square, of 2 to 102 a side."""
    corner = rng.uniform(0, side - 102, (number, 2))
    return np.concatenate((corner, corner + rng.uniform(2, 102, (number, 2))), 1).astype(np.float32)


def _detections(rng: np.random.Generator, known: dict[str, int]) -> np.ndarray:
    """Return 10,000 boxes as (class, score, box)."""
    scores = rng.random((10_000, 1), np.float32)
    return np.concatenate((np.zeros_like(scores), scores, boxes(rng, 10_000)), 1)[None]


def _corners(rng: np.random.Generator, known: dict[str, int]) -> np.ndarray:
    return boxes(rng, 10_000)[None]


def _scores(rng: np.random.Generator, known: dict[str, int]) -> np.ndarray:
    return rng.random((1, 1, 10_000), np.float32)


def _regions(rng: np.random.Generator, known: dict[str, int]) -> np.ndarray:
    """Return regions of the one image."""
    found = boxes(rng, known["image"], 132.0) / 132 * 30
    return np.concatenate((np.zeros((len(found), 1), np.float32), found), 1)


def _key(rng: np.random.Generator, known: dict[str, int]) -> np.ndarray:
    return np.array([0, 0, 0, 0, 0, 0, 0, 0, 1 << 63, 0], np.uint64)


@lru_cache(maxsize=8)
def _session(kind: str, inputs: tuple[tuple[str, str, int], ...], attrs: tuple[Any, ...]) -> Any:
    """Return a session of ONNX Runtime of one operator; inputs are (name, dtype, rank)."""
    import onnxruntime
    from onnx import TensorProto, helper

    def value(name: str, dtype: str, rank: int) -> Any:
        return helper.make_tensor_value_info(name, getattr(TensorProto, dtype), [None] * rank)

    node = helper.make_node(kind, [name for name, _, _ in inputs], ["y"], **dict(attrs))
    result = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], kind, [value(*i) for i in inputs], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _suppressed(corners: Any, scores: Any) -> Any:
    kinds = (
        ("boxes", "FLOAT", 3),
        ("scores", "FLOAT", 3),
        ("most", "INT64", 1),
        ("overlap", "FLOAT", 1),
    )
    given = (corners.numpy(), scores.numpy(), np.array([10_000]), np.array([0.5], np.float32))
    names = [name for name, _, _ in kinds]
    return _session("NonMaxSuppression", kinds, ()).run(None, dict(zip(names, given)))


def _aligned(x: Any, rois: Any) -> Any:
    kinds = (("x", "FLOAT", 4), ("rois", "FLOAT", 2), ("of", "INT64", 1))
    attrs = (
        ("output_height", 7),
        ("output_width", 7),
        ("sampling_ratio", 2),
        # The corners of `vision.roi_align` are at whole elements.
        ("coordinate_transformation_mode", "output_half_pixel"),
    )
    given = (x.numpy(), rois[:, 1:].numpy(), rois[:, 0].numpy().astype(np.int64))
    return _session("RoiAlign", kinds, attrs).run(None, dict(zip(("x", "rois", "of"), given)))


def _sampled(method: str, padding: str = "zeros") -> Row:
    text = f'image.grid_sample(%a, %b, method="{method}", padding_mode="{padding}")'

    def peer(t: Any, x: Any, grid: Any) -> Any:
        places = grid.permute(0, 2, 3, 1)
        return t.nn.functional.grid_sample(x, places, method, padding, align_corners=True)

    return Row("image.grid_sample", text, (IMAGE, _places), peer, f"{method} {padding}"[:16])


def _function(name: str) -> Row:
    text = f"qnn.{name}(%a, 0.02f, 3, 0.01f, -5)"

    def peer(t: Any, x: Any) -> Any:
        found = getattr(t, name)((x.to(t.float32) - 3) * 0.02)
        return ((found * 100).round() - 5).clamp(-128, 127).to(t.int8)

    return Row(f"qnn.{name}", text, (_BYTES,), peer)


def _joined(name: str, peer: str) -> Row:
    def compute(t: Any, x: Any, y: Any) -> Any:
        a, b = (x.to(t.float32) - 3) * 0.05, (y.to(t.float32) + 5) * 0.04
        return ((getattr(t, peer)(a, b) * 10).round() + 2).clamp(-128, 127).to(t.int8)

    return Row(f"qnn.{name}", f"qnn.{name}(%a, %b, {_FLAT})", (_BYTES, _BYTES), compute)


def _transformed(operand: Operand, note: str) -> Row:
    compute = lambda t, x, y: t.fft.fft(t.complex(x, y))  # noqa: E731
    return Row("dft", "dft(%a, %b)", (operand, operand), compute, note)


VISION = (
    _sampled("bilinear"),
    _sampled("bilinear", "border"),
    _sampled("nearest"),
    _sampled("bicubic"),
    Row(
        "image.grid_sample",
        'image.grid_sample(%a, %b, layout="NCDHW")',
        (VOLUME, _volume_places),
        lambda t, x, g: t.nn.functional.grid_sample(
            x, g.permute(0, 2, 3, 4, 1), align_corners=True
        ),
        "volume",
    ),
    Row(
        "image.affine_grid",
        "image.affine_grid(%a, target_shape=[{side}, {side}])",
        (("float32", (1, 2, 3)),),
    ),
    Row(
        "image.crop_and_resize",
        "image.crop_and_resize(%a, %b, %c, crop_size=[8, 8])",
        (IMAGE, lambda r, k: boxes(r, 16, 132.0)[:, [1, 0, 3, 2]] / 132, ("int32:1", (16,))),
    ),
    Row(
        "vision.roi_align",
        "vision.roi_align(%a, %b, pooled_size=[7, 7], spatial_scale=1f, sample_ratio=2)",
        (IMAGE, _regions),
        lambda t, x, rois: _aligned(x, rois),
        "onnxruntime",
        ("torch", "onnx", "onnxruntime"),
    ),
    Row(
        "vision.roi_pool",
        "vision.roi_pool(%a, %b, pooled_size=[7, 7], spatial_scale=1f)",
        (IMAGE, _regions),
    ),
    Row(
        "vision.all_class_non_max_suppression",
        "vision.all_class_non_max_suppression(%a, %b, 10000, 0.5f, -1f)",
        (_corners, _scores),
        lambda t, x, s: _suppressed(x, s),
        "10^4 onnxruntime",
        ("torch", "onnx", "onnxruntime"),
        fixed=True,
    ),
    Row(
        "vision.non_max_suppression",
        "vision.non_max_suppression(%a, %b, %c, -1, 0.5f, id_index=-1, return_indices=False)",
        (
            _detections,
            lambda r, k: np.array([10_000], np.int32),
            lambda r, k: np.arange(10_000, dtype=np.int32)[None],
        ),
        lambda t, x, n, i: _suppressed(x[:, :, 2:].contiguous(), x[:, :, 1][:, None].contiguous()),
        "10^4 onnxruntime",
        ("torch", "onnx", "onnxruntime"),
        fixed=True,
    ),
    Row("vision.get_valid_counts", "vision.get_valid_counts(%a, 0.5f)", (_detections,), fixed=True),
    shaped("vision.yolo_reorg", "stride=2", None, IMAGE),
)
SIGNALS = (
    _transformed(SQUARE, "rows"),
    _transformed(("float32", ("planes", 1024)), "1024"),
    _transformed(("float32", ("planes", 1000)), "1000"),
    Row(
        "stft",
        "stft(%a, %b, n_fft=256, hop_length=64, win_length=256)",
        (("float32", ("all",)), ("float32", (256,))),
        lambda t, x, w: t.view_as_real(
            t.stft(x, 256, 64, 256, w, center=False, return_complex=True)
        ),
    ),
)
NUMBERS = (
    Row(
        "random.threefry_generate",
        "random.threefry_generate(%a, out_shape=[{all}])",
        (_key,),
        lambda t, k: t.empty(1 << 16, dtype=t.int64).random_(),
        fixed=True,
    ),
    Row(
        "random.uniform",
        "random.uniform(%a, 0f, 1f, out_shape=[{all}])",
        (_key,),
        lambda t, k: t.rand(1 << 16),
        fixed=True,
    ),
    Row(
        "random.normal",
        "random.normal(%a, 0f, 1f, out_shape=[{all}])",
        (_key,),
        lambda t, k: t.randn(1 << 16),
        fixed=True,
    ),
    Row(
        "random.multinomial",
        "random.multinomial(%a, %b, num_samples={side})",
        (_key, ("float32", ("side", "side"))),
        lambda t, k, p: t.multinomial(p, p.shape[1], replacement=True),
    ),
)
QUANTIZED = (
    Row(
        "qnn.quantize",
        "qnn.quantize(%a, 0.02f, 3)",
        (("float32", ("side", "side")),),
        lambda t, x: ((x * 50).round() + 3).clamp(-128, 127).to(t.int8),
    ),
    Row(
        "qnn.dequantize",
        "qnn.dequantize(%a, 0.02f, 3)",
        (_BYTES,),
        lambda t, x: (x.to(t.float32) - 3) * 0.02,
    ),
    Row(
        "qnn.requantize",
        "qnn.requantize(%a, 0.02f, 3, 0.04f, -5)",
        (("int32", ("side", "side")),),
        lambda t, x: (((x - 3).to(t.float32) * 0.5).round() - 5).clamp(-128, 127).to(t.int8),
    ),
    _joined("add", "add"),
    _joined("subtract", "sub"),
    _joined("mul", "mul"),
    *map(_function, ("exp", "tanh", "sigmoid", "sqrt", "rsqrt", "erf", "log", "abs")),
    Row(
        "qnn.softmax",
        "qnn.softmax(%a, 0.02f, 3, 0.01f, -5)",
        (_BYTES,),
        lambda t, x: (
            ((t.softmax((x.to(t.float32) - 3) * 0.02, -1) * 100).round() - 5)
            .clamp(-128, 127)
            .to(t.int8)
        ),
    ),
    Row(
        "qnn.dense",
        "qnn.dense(%a, %b, 3, -5, 0.02f, 0.04f)",
        (_BYTES, _BYTES),
        lambda t, x, w: t._int_mm(x, w.T),
    ),
    Row(
        "qnn.conv2d",
        "qnn.conv2d(%a, %b, 3, 0, 0.02f, 0.04f, padding=[1, 1])",
        (_PLANES, ("int8:100", (64, 64, 3, 3))),
        lambda t, x, w: t.nn.functional.conv2d(x.float(), w.float(), padding=1),
        "beside float32",
    ),
    Row(
        "qnn.avg_pool2d",
        "qnn.avg_pool2d(%a, 0.02f, 3, 0.04f, -5, pool_size=[2, 2], strides=[2, 2])",
        (_PLANES,),
    ),
    Row(
        "qnn.concatenate",
        "qnn.concatenate((%a, %b), (0.02f, 0.03f), (3, 4), 0.04f, -5)",
        (_BYTES, _BYTES),
    ),
    Row(
        "fixed_point_multiply",
        "fixed_point_multiply(%a, multiplier=1518500250, shift=1)",
        (("int32", ("side", "side")),),
    ),
)
