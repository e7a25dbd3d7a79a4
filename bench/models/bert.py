"""BERT-base as Relay text over any sequence length, and the same net for ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

HIDDEN, HEADS, INNER, LAYERS = 768, 12, 3072, 12
WIDTH = HIDDEN // HEADS

Weights = dict[str, np.ndarray]


def make_weights(layers: int = LAYERS, seed: int = 0) -> Weights:
    """Return seeded weights; matrices are [out, in], as `nn.dense` takes them."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 0.02).astype(np.float32)

    weights: Weights = {}
    for layer in range(layers):
        for name, units, inputs in _matrices():
            weights[f"{name}{layer}"] = normal(units, inputs)
            weights[f"{name}b{layer}"] = normal(units)
        for name in ("ln1", "ln2"):
            weights[f"{name}g{layer}"] = 1 + normal(HIDDEN)
            weights[f"{name}b{layer}"] = normal(HIDDEN)
    return weights


def _matrices() -> tuple[tuple[str, int, int], ...]:
    square = [(name, HIDDEN, HIDDEN) for name in ("wq", "wk", "wv", "wo")]
    return (*square, ("w1", INNER, HIDDEN), ("w2", HIDDEN, INNER))


def relay_text(weights: Weights, layers: int = LAYERS) -> str:
    """Return the encoder: `x` [n, hidden] and an additive `mask` [1, n] to [n, hidden]."""
    parameters = "".join(
        f",\n    %{name}: Tensor[({''.join(f'{size},' for size in w.shape)}), float32]"
        for name, w in weights.items()
    )
    body = "".join(_layer(k) for k in range(layers))
    return (
        f"def @main[n: ShapeVar](%x0: Tensor[(n, {HIDDEN}), float32], "
        f"%mask: Tensor[(1, n), float32]{parameters}) {{\n{body}  %x{layers}\n}}\n"
    )


def _layer(k: int) -> str:
    def heads(name: str, out: str) -> str:
        split = f"reshape({dense.format(f'%x{k}', name, k)}, newshape=[-1, {HEADS}, {WIDTH}])"
        return f"  let %{out}{k} = transpose({split}, axes=[1, 0, 2]);\n"

    def norm(value: str, name: str) -> str:
        return f"nn.layer_norm({value}, %{name}g{k}, %{name}b{k}, epsilon=1e-12)"

    gelu = f"%f{k} * 0.5f * (erf(%f{k} * {float(np.float32(2**-0.5))!r}f) + 1f)"
    dense = "nn.bias_add(nn.dense({0}, %{1}{2}, units=None), %{1}b{2})"
    return (
        heads("wq", "q")
        + heads("wk", "k")
        + heads("wv", "v")
        + f"  let %m{k} = nn.batch_matmul(%q{k}, %k{k}, transpose_b=True);\n"
        + f"  let %s{k} = %m{k} * {WIDTH**-0.5}f + %mask;\n"
        + f"  let %c{k} = nn.batch_matmul(nn.softmax(%s{k}, axis=-1), %v{k});\n"
        + f"  let %o{k} = reshape(transpose(%c{k}, axes=[1, 0, 2]), newshape=[-1, {HIDDEN}]);\n"
        + f"  let %a{k} = {norm(f'%x{k} + ' + dense.format(f'%o{k}', 'wo', k), 'ln1')};\n"
        + f"  let %f{k} = {dense.format(f'%a{k}', 'w1', k)};\n"
        + f"  let %g{k} = {gelu};\n"
        + f"  let %x{k + 1} = {norm(f'%a{k} + ' + dense.format(f'%g{k}', 'w2', k), 'ln2')};\n"
    )


def onnx_model(weights: Weights, layers: int = LAYERS) -> bytes:
    """Return the same net as a serialised ONNX model."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    # `MatMul` takes matrices as [in, out].
    constants = {name: w.T.copy() if w.ndim == 2 else w for name, w in weights.items()}
    constants |= {
        "split": np.array([0, HEADS, WIDTH], np.int64),
        "merge": np.array([0, HIDDEN], np.int64),
        "scale": np.float32(WIDTH**-0.5),
        "root": np.float32(2**-0.5),
        "half": np.float32(0.5),
        "one": np.float32(1),
    }

    def add(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def dense(value: str, name: str, k: int) -> str:
        product = add("MatMul", [value, f"{name}{k}"], f"{name}_product{k}")
        return add("Add", [product, f"{name}b{k}"], f"{name}_sum{k}")

    def norm(a: str, b: str, name: str, k: int, output: str) -> str:
        total = add("Add", [a, b], f"{name}_in{k}")
        inputs = [total, f"{name}g{k}", f"{name}b{k}"]
        return add("LayerNormalization", inputs, output, epsilon=1e-12, axis=-1)

    for k in range(layers):
        x = f"x{k}"
        q, key, v = (
            add(
                "Transpose",
                [add("Reshape", [dense(x, name, k), "split"], f"{name}_split{k}")],
                f"{name}_heads{k}",
                perm=perm,
            )
            for name, perm in (("wq", [1, 0, 2]), ("wk", [1, 2, 0]), ("wv", [1, 0, 2]))
        )
        scores = add("Mul", [add("MatMul", [q, key], f"qk{k}"), "scale"], f"scaled{k}")
        masked = add("Add", [scores, "mask"], f"masked{k}")
        p = add("Softmax", [masked], f"p{k}", axis=-1)
        context = add("Transpose", [add("MatMul", [p, v], f"pv{k}")], f"c{k}", perm=[1, 0, 2])
        joined = add("Reshape", [context, "merge"], f"o{k}")
        a = norm(x, dense(joined, "wo", k), "ln1", k, f"a{k}")
        f = dense(a, "w1", k)
        e = add("Erf", [add("Mul", [f, "root"], f"f_root{k}")], f"erf{k}")
        e = add("Add", [e, "one"], f"erf_one{k}")
        g = add("Mul", [add("Mul", [f, e], f"f_erf{k}"), "half"], f"g{k}")
        norm(a, dense(g, "w2", k), "ln2", k, f"x{k + 1}")
    graph = helper.make_graph(
        nodes,
        "bert",
        [
            helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["n", HIDDEN]),
            helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1, "n"]),
        ],
        [helper.make_tensor_value_info(f"x{layers}", TensorProto.FLOAT, ["n", HIDDEN])],
        [numpy_helper.from_array(np.asarray(w), name) for name, w in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(model.SerializeToString())
