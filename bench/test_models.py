"""Whole nets over texts of 12 to 64 words beside ONNX Runtime, on the same number of threads."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import relayvm
from bench.models import bert, lstm

LENGTHS = (12, 17, 24, 33, 40, 52, 64)
THREADS = (1, 2)

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("onnx", "onnxruntime")),
    reason="ONNX Runtime is not installed",
)


def session(model: bytes, threads: int):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("threads", THREADS)
def test_lstm(compare, benchmark, threads) -> None:
    weights = lstm.make_weights()
    peer = session(lstm.onnx_model(weights), threads)
    vm = relayvm.VirtualMachine(
        relayvm.compile(relayvm.parse(lstm.RELAY), params=weights), num_threads=threads
    )
    rng = np.random.default_rng(1)
    texts = [rng.standard_normal((n, lstm.INPUT)).astype(np.float32) for n in LENGTHS]
    feeds = [{"x": text[:, None]} for text in texts]
    for text, feed in zip(texts, feeds):
        np.testing.assert_allclose(vm.run(text), peer.run(None, feed)[0], rtol=1e-4, atol=1e-5)
    compare(
        lambda: [vm.run(text) for text in texts],
        onnxruntime=lambda: [peer.run(None, feed) for feed in feeds],
    )
    benchmark.extra_info["us per token"] = benchmark.stats["median"] / sum(LENGTHS) * 1e6


@pytest.mark.parametrize("threads", THREADS)
def test_lstm_of_int8(compare, benchmark, threads) -> None:
    """Both quantise: their results are compared with those of float32, as far as int8 allows."""
    weights = lstm.make_weights()
    peer = session(lstm.onnx_model_int8(weights), threads)
    exact = session(lstm.onnx_model(weights), threads)
    exe = relayvm.compile(relayvm.parse(lstm.RELAY_INT8), params=lstm.quantize(weights))
    vm = relayvm.VirtualMachine(exe, num_threads=threads)
    rng = np.random.default_rng(1)
    texts = [rng.standard_normal((n, lstm.INPUT)).astype(np.float32) for n in LENGTHS]
    feeds = [{"x": text[:, None]} for text in texts]
    for text, feed in zip(texts, feeds):
        wanted = exact.run(None, feed)[0]
        np.testing.assert_allclose(vm.run(text), wanted, atol=0.05)
        np.testing.assert_allclose(peer.run(None, feed)[0], wanted, atol=0.05)
    compare(
        lambda: [vm.run(text) for text in texts],
        onnxruntime=lambda: [peer.run(None, feed) for feed in feeds],
    )
    benchmark.extra_info["us per token"] = benchmark.stats["median"] / sum(LENGTHS) * 1e6


@pytest.mark.parametrize("threads", THREADS)
def test_bert(compare, benchmark, threads) -> None:
    weights = bert.make_weights()
    peer = session(bert.onnx_model(weights), threads)
    exe = relayvm.compile(relayvm.parse(bert.relay_text(weights)), params=weights)
    vm = relayvm.VirtualMachine(exe, num_threads=threads)
    rng = np.random.default_rng(1)
    feeds = []
    for n in LENGTHS:
        x = rng.standard_normal((n, bert.HIDDEN)).astype(np.float32)
        mask = np.where(np.arange(n) < n - 2, 0, -1e4).astype(np.float32)[None]
        feeds.append({"x0": x, "mask": mask})
    for feed in feeds:
        theirs = peer.run(None, feed)[0]
        np.testing.assert_allclose(vm.run(*feed.values()), theirs, rtol=1e-3, atol=1e-4)
    compare(
        lambda: [vm.run(*feed.values()) for feed in feeds],
        onnxruntime=lambda: [peer.run(None, feed) for feed in feeds],
    )
    benchmark.extra_info["us per token"] = benchmark.stats["median"] / sum(LENGTHS) * 1e6
