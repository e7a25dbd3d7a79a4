"""An LSTM over a text of any length as a Relay loop, and the same net for ONNX Runtime; with
weights of float32 and of int8.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

INPUT, HIDDEN = 300, 512

Weights = dict[str, np.ndarray]

_PROGRAM = """
def @steps[n: ShapeVar](%i: int64, %length: int64, %x: Tensor[(n, {INPUT}), {DTYPE}],
                        %h: Tensor[(1, {HIDDEN}), float32], %c: Tensor[(1, {HIDDEN}), float32],
                        {SCALES}
                        %wi: Tensor[({GATES}, {INPUT}), {DTYPE}],
                        %wh: Tensor[({GATES}, {HIDDEN}), {DTYPE}],
                        %b: Tensor[({GATES},), float32])
    -> Tensor[(1, {HIDDEN}), float32] {{
  if (%i < %length) {{
    let %word = expand_dims(take(%x, %i, axis=0), axis=0);
    {PRODUCTS}
    let %parts = split(nn.bias_add(%gates, %b), indices_or_sections=4, axis=1);
    let %next_c = sigmoid(%parts.2) * %c + sigmoid(%parts.0) * tanh(%parts.3);
    let %next_h = sigmoid(%parts.1) * tanh(%next_c);
    @steps(%i + 1i64, %length, %x, %next_h, %next_c, {GIVEN} %wi, %wh, %b)
  }} else {{
    %h
  }}
}}
def @main[n: ShapeVar](%x: Tensor[(n, {INPUT}), float32],
                       {MAIN_SCALES}
                       %wi: Tensor[({GATES}, {INPUT}), {DTYPE}],
                       %wh: Tensor[({GATES}, {HIDDEN}), {DTYPE}],
                       %b: Tensor[({GATES},), float32]) {{
  let %zero = zeros(shape=[1, {HIDDEN}], dtype="float32");
  let %length = take(shape_of(%x, dtype="int64"), 0i64, axis=0);
  {WORDS}
  @steps(0i64, %length, %words, %zero, %zero, {GIVEN} %wi, %wh, %b)
}}
"""
_SIZES = {"INPUT": str(INPUT), "HIDDEN": str(HIDDEN), "GATES": str(4 * HIDDEN)}
_WEIGHT_SCALES = f"%si: Tensor[({4 * HIDDEN},), float32], %sh: Tensor[({4 * HIDDEN},), float32],"

RELAY = _PROGRAM.format(
    **_SIZES,
    DTYPE="float32",
    SCALES="",
    MAIN_SCALES="",
    GIVEN="",
    WORDS="let %words = %x;",
    PRODUCTS="let %gates = nn.dense(%word, %wi, units=None) + nn.dense(%h, %wh, units=None);",
)

# Words get one scale a text; a state lies between -1 and 1, so its scale is known.
RELAY_INT8 = _PROGRAM.format(
    **_SIZES,
    DTYPE="int8",
    SCALES=f"%scale: float32, {_WEIGHT_SCALES}",
    MAIN_SCALES=_WEIGHT_SCALES,
    GIVEN="%scale, %si, %sh,",
    WORDS="""let %scale = max(abs(%x)) / 127f;
  let %words = cast(clip(round(%x / %scale), a_min=-127f, a_max=127f), dtype="int8");""",
    PRODUCTS="""let %state = cast(round(%h * 127f), dtype="int8");
    let %of_word = cast(nn.dense(%word, %wi, units=None, out_dtype="int32"), dtype="float32");
    let %of_state = cast(nn.dense(%state, %wh, units=None, out_dtype="int32"), dtype="float32");
    let %gates = %of_word * (%si * %scale) + %of_state * (%sh / 127f);""",
)


def make_weights(seed: int = 0) -> Weights:
    """Return seeded weights: gates in the order input, output, forget, cell, as ONNX has them."""
    rng = np.random.default_rng(seed)
    shapes = {"wi": (4 * HIDDEN, INPUT), "wh": (4 * HIDDEN, HIDDEN), "b": (4 * HIDDEN,)}
    return {k: (rng.standard_normal(s) * 0.05).astype(np.float32) for k, s in shapes.items()}


def quantize(weights: Weights) -> Weights:
    """Return int8 matrices with a float32 scale a row (`si`, `sh`), beside the bias."""
    result = {"b": weights["b"]}
    for name, scale in (("wi", "si"), ("wh", "sh")):
        result[scale] = (np.abs(weights[name]).max(axis=1) / 127).astype(np.float32)
        result[name] = np.rint(weights[name] / result[scale][:, None]).astype(np.int8)
    return result


def onnx_model(weights: Weights) -> bytes:
    """Return the same net as a serialised ONNX model around the operator `LSTM`."""
    from onnx import TensorProto, helper, numpy_helper

    bias = np.concatenate([weights["b"], np.zeros(4 * HIDDEN, np.float32)])[None]
    constants = {"W": weights["wi"][None], "R": weights["wh"][None], "B": bias}
    nodes = [
        helper.make_node("LSTM", ["x", "W", "R", "B"], ["", "h", ""], hidden_size=HIDDEN),
        helper.make_node("Squeeze", ["h", "axes"], ["y"]),
    ]
    constants["axes"] = np.array([0], np.int64)
    graph = helper.make_graph(
        nodes,
        "lstm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, INPUT])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, HIDDEN])],
        [numpy_helper.from_array(w, name) for name, w in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def onnx_model_int8(weights: Weights) -> bytes:
    """Return the model with weights of int8, words and states quantised at each step."""
    from onnx import load_from_string
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lstm.onnx"
        quantize_dynamic(
            load_from_string(onnx_model(weights)),
            path,
            op_types_to_quantize=["LSTM"],
            per_channel=True,
            weight_type=QuantType.QInt8,
        )
        return path.read_bytes()
