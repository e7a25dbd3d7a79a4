"""BERT from the builder: every weight is a variable without a type."""

from __future__ import annotations

import numpy as np

from relayvm.base.dtypes import FLOAT32
from relayvm.ir.expr import NO_ATTRS, Attrs, AttrValue, Call, Constant, Expr, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ops import OPS


def call(name: str, *args: Expr, **attrs: AttrValue) -> Call:
    """Return a call of an operator by its name."""
    return Call(OPS[name], args, Attrs(attrs) if attrs else NO_ATTRS)


def number(value: float) -> Constant:
    """Return a rank-0 float32."""
    return Constant(np.array(value, "float32"))


class Bert:
    """Builds the encoder; `params` gain its variables in the order of their use."""

    def __init__(self, hidden: int = 768, heads: int = 12, inner: int = 3072, length: int = 128):
        self.hidden, self.heads, self.inner, self.length = hidden, heads, inner, length
        self.params: list[Var] = []

    def weight(self, name: str) -> Var:
        self.params.append(Var(name))
        return self.params[-1]

    def dense(self, data: Expr, name: str, width: int, units: int) -> Expr:
        flat = call("reshape", data, newshape=(-1, width))
        product = call("nn.dense", flat, self.weight(f"{name}_weight"), units=units)
        biased = call("nn.bias_add", product, self.weight(f"{name}_bias"))
        return call("reshape", biased, newshape=(1, -1, units))

    def heads_of(self, data: Expr) -> Expr:
        width = self.hidden // self.heads
        split = call("reshape", data, newshape=(1, -1, self.heads, width))
        turned = call("transpose", split, axes=(0, 2, 1, 3))
        return call("reshape", turned, newshape=(-1, self.length, width))

    def norm(self, data: Expr, name: str) -> Expr:
        gamma, beta = self.weight(f"{name}_gamma"), self.weight(f"{name}_beta")
        return call("nn.layer_norm", data, gamma, beta, axis=-1, epsilon=1e-12)

    def attention(self, data: Expr, name: str) -> Expr:
        hidden, width = self.hidden, self.hidden // self.heads
        query, key, value = (
            self.heads_of(self.dense(data, f"{name}_{part}", hidden, hidden)) for part in "qkv"
        )
        scores = call("nn.batch_matmul", query, key, transpose_b=True)
        weights = call("nn.softmax", call("divide", scores, number(width**0.5)), axis=-1)
        mixed = call("nn.batch_matmul", weights, value, transpose_b=False)
        split = call("reshape", mixed, newshape=(1, self.heads, self.length, width))
        joined = call("transpose", split, axes=(0, 2, 1, 3))
        whole = call("reshape", joined, newshape=(1, self.length, hidden))
        return self.dense(whole, f"{name}_out", hidden, hidden)

    def layer(self, data: Expr, name: str) -> Expr:
        attended = self.norm(call("add", data, self.attention(data, name)), f"{name}_first")
        wide = self.dense(attended, f"{name}_up", self.hidden, self.inner)
        gate = call("add", number(1.0), call("erf", call("multiply", wide, number(0.5**0.5))))
        gelu = call("multiply", call("multiply", wide, number(0.5)), gate)
        narrow = self.dense(gelu, f"{name}_down", self.inner, self.hidden)
        return self.norm(call("add", attended, narrow), f"{name}_second")


def bert(layers: int = 12) -> Module:
    """Return the encoder of BERT-base with so many layers."""
    build = Bert()
    data = Var("x", TensorType((1, build.length, build.hidden), FLOAT32))
    body: Expr = data
    for index in range(layers):
        body = build.layer(body, f"layer{index}")
    return Module({"main": Function((data, *build.params), body)})
