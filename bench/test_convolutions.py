"""Layers of ResNet-18 and MobileNetV2 beside PyTorch, both on one thread."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm

# Input and output channels, size of the image, taps, stride, padding, groups.
LAYERS = {
    "7x7/2 3 to 64 of 224": (3, 64, 224, 7, 2, 3, 1),
    "3x3 64 of 56": (64, 64, 56, 3, 1, 1, 1),
    "3x3/2 64 to 128 of 56": (64, 128, 56, 3, 2, 1, 1),
    "1x1/2 64 to 128 of 56": (64, 128, 56, 1, 2, 0, 1),
    "3x3 128 of 28": (128, 128, 28, 3, 1, 1, 1),
    "3x3 256 of 14": (256, 256, 14, 3, 1, 1, 1),
    "3x3 512 of 7": (512, 512, 7, 3, 1, 1, 1),
    "3x3/2 3 to 32 of 224": (3, 32, 224, 3, 2, 1, 1),
    "1x1 16 to 96 of 112": (16, 96, 112, 1, 1, 0, 1),
    "1x1 32 to 192 of 112": (32, 192, 112, 1, 1, 0, 1),
    "1x1 96 to 24 of 56": (96, 24, 56, 1, 1, 0, 1),
    "1x1 960 to 160 of 7": (960, 160, 7, 1, 1, 0, 1),
    "depthwise 3x3 144 of 56": (144, 144, 56, 3, 1, 1, 144),
    "depthwise 3x3/2 144 of 56": (144, 144, 56, 3, 2, 1, 144),
    "depthwise 3x3 960 of 7": (960, 960, 7, 3, 1, 1, 960),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_layer(compare, benchmark, layer) -> None:
    torch = pytest.importorskip("torch")
    c, o, size, k, stride, padding, groups = LAYERS[layer]
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, c, size, size)).astype(np.float32)
    w = (rng.standard_normal((o, c // groups, k, k)) / k).astype(np.float32)
    text = f"""
def @main(%x: Tensor[(1, {c}, {size}, {size}), float32],
          %w: Tensor[({o}, {c // groups}, {k}, {k}), float32]) {{
  nn.conv2d(%x, %w, strides=[{stride}, {stride}], padding=[{padding}, {padding}], groups={groups})
}}
"""
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), params={"w": w}))
    data, weight = torch.from_numpy(x), torch.from_numpy(w)

    def peer():
        with torch.no_grad():
            return torch.nn.functional.conv2d(
                data, weight, stride=stride, padding=padding, groups=groups
            )

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        expected = peer().numpy()
        np.testing.assert_allclose(vm.run(x), expected, rtol=1e-3, atol=1e-3)
        compare(lambda: vm.run(x), torch=peer)
    finally:
        torch.set_num_threads(threads)
    products = expected.size * (c // groups) * k * k
    benchmark.extra_info["GFLOP/s"] = 2e-9 * products / benchmark.stats["median"]
