"""An LSTM over a text of any length as a Relay loop, and the same net for ONNX Runtime."""

from __future__ import annotations

import numpy as np

INPUT, HIDDEN = 300, 512

Weights = dict[str, np.ndarray]

RELAY = f"""
def @steps[n: ShapeVar](%i: int64, %length: int64, %x: Tensor[(n, {INPUT}), float32],
                        %h: Tensor[(1, {HIDDEN}), float32], %c: Tensor[(1, {HIDDEN}), float32],
                        %wi: Tensor[({4 * HIDDEN}, {INPUT}), float32],
                        %wh: Tensor[({4 * HIDDEN}, {HIDDEN}), float32],
                        %b: Tensor[({4 * HIDDEN},), float32])
    -> Tensor[(1, {HIDDEN}), float32] {{
  if (%i < %length) {{
    let %word = expand_dims(take(%x, %i, axis=0), axis=0);
    let %gates = nn.bias_add(nn.dense(%word, %wi, units=None) + nn.dense(%h, %wh, units=None), %b);
    let %parts = split(%gates, indices_or_sections=4, axis=1);
    let %next_c = sigmoid(%parts.2) * %c + sigmoid(%parts.0) * tanh(%parts.3);
    let %next_h = sigmoid(%parts.1) * tanh(%next_c);
    @steps(%i + 1i64, %length, %x, %next_h, %next_c, %wi, %wh, %b)
  }} else {{
    %h
  }}
}}
def @main[n: ShapeVar](%x: Tensor[(n, {INPUT}), float32],
                       %wi: Tensor[({4 * HIDDEN}, {INPUT}), float32],
                       %wh: Tensor[({4 * HIDDEN}, {HIDDEN}), float32],
                       %b: Tensor[({4 * HIDDEN},), float32]) {{
  let %zero = zeros(shape=[1, {HIDDEN}], dtype="float32");
  let %length = take(shape_of(%x, dtype="int64"), 0i64, axis=0);
  @steps(0i64, %length, %x, %zero, %zero, %wi, %wh, %b)
}}
"""


def make_weights(seed: int = 0) -> Weights:
    """Return seeded weights: gates in the order input, output, forget, cell, as ONNX has them."""
    rng = np.random.default_rng(seed)
    shapes = {"wi": (4 * HIDDEN, INPUT), "wh": (4 * HIDDEN, HIDDEN), "b": (4 * HIDDEN,)}
    return {k: (rng.standard_normal(s) * 0.05).astype(np.float32) for k, s in shapes.items()}


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
