"""The test networks infer from untyped weights, compile, and run as the evaluator says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.relay.testing import (
    dcgan,
    densenet,
    dqn,
    inception_v3,
    init,
    layers,
    lstm,
    mlp,
    mobilenet,
    resnet,
    resnet_3d,
    squeezenet,
    synthetic,
    vgg,
    yolo_detection,
)

IMAGE, NHWC = (3, 224, 224), (224, 224, 3)

# name -> network, shape of its result
NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (lambda: mlp.get_net(1), (1, 10)),
    "dqn": (lambda: dqn.get_net(2), (2, 18)),
    "dqn-nhwc": (lambda: dqn.get_net(1, image_shape=(84, 84, 4), layout="NHWC"), (1, 18)),
    "dcgan": (lambda: dcgan.get_net(1), (1, 3, 64, 64)),
    "dcgan-nhwc": (lambda: dcgan.get_net(1, layout="NHWC"), (1, 64, 64, 3)),
    "lstm": (lambda: lstm.get_net(4, 8), (1, 8)),
    "synthetic": (synthetic.get_net, (1, 3, 24, 12)),
    "mobilenet": (mobilenet.mobile_net, (1, 1000)),
    "mobilenet-nhwc": (lambda: mobilenet.mobile_net(9, (1, *NHWC), layout="NHWC"), (1, 9)),
    "mobilenet-shallow": (lambda: mobilenet.mobile_net(is_shallow=True), (1, 1000)),
    "squeezenet-1.0": (lambda: squeezenet.get_net(1, IMAGE, 9, "1.0", "float32"), (1, 9)),
    "squeezenet-1.1": (lambda: squeezenet.get_net(1, IMAGE, 9, "1.1", "float32"), (1, 9)),
    "inception": (lambda: inception_v3.get_net(1, 9, (3, 299, 299), "float32"), (1, 9)),
    "resnet-small": (lambda: resnet.get_net(1, 9, 8, (3, 28, 28)), (1, 9)),
    "resnet-3d": (lambda: resnet_3d.get_net(1, 9, 18), (1, 9)),
    "resnet-3d-ndhwc": (lambda: resnet_3d.get_net(1, 9, 18, (16, 112, 112, 3), "NDHWC"), (1, 9)),
    "densenet-small": (
        lambda: densenet.dense_net(8, 4, (2, 2), (1, 3, 64, 64), "float32"),
        (1, 1000),
    ),
    "resnet-nhwc": (lambda: resnet.get_net(1, 9, 50, NHWC, "NHWC"), (1, 9)),
    **{f"resnet-{n}": (lambda n=n: resnet.get_net(1, 9, n), (1, 9)) for n in (18, 34, 50)},
    **{
        f"vgg-{n}": (lambda n=n: vgg.get_net(1, IMAGE, 9, "float32", n, True), (1, 9))
        for n in vgg.STAGES
    },
}


DEEP_NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "densenet-121": (lambda: densenet.get_net(121, 9, 1), (1, 9)),
    "densenet-161": (lambda: densenet.get_net(161, 9, 1), (1, 9)),
    "resnet-101": (lambda: resnet.get_net(1, 9, 101), (1, 9)),
    "resnet-small-deep": (lambda: resnet.get_net(1, 9, 164, (3, 28, 28)), (1, 9)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_types_of_weights_are_inferred(name: str) -> None:
    check_types(*NETWORKS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP_NETWORKS)
def test_types_of_weights_of_deep_networks_are_inferred(name: str) -> None:
    check_types(*DEEP_NETWORKS[name])


def test_every_depth_is_built() -> None:
    for depth in resnet.UNITS:
        assert relay.testing.count_ops(resnet.get_net(1, 9, depth))["nn.conv2d"] > depth // 2
    for depth in densenet.SPECS:
        assert relay.testing.count_ops(densenet.get_net(depth))["nn.conv2d"] > depth // 2


def check_types(build: Callable[[], Any], shape: tuple[int, ...]) -> None:
    typed = relay.testing.run_infer_type(build())
    assert typed.checked_type.ret_type.shape == shape
    assert all(p.checked_type.concrete_shape for p in typed.params)


def inputs_of(module: Any, params: dict[str, Any]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {
        p.name_hint: rng.random(p.checked_type.concrete_shape, dtype=np.float32)
        for p in module["main"].params
        if p.name_hint not in params
    }


def wide(net: Any) -> Any:
    """Return a workload whose weights are so large that differences show."""
    return relay.testing.create_workload(net, init.Xavier(magnitude=30))


FAST: dict[str, Callable[[], Any]] = {
    "mlp": lambda: mlp.get_workload(2, image_shape=(1, 4, 4)),
    "lstm": lambda: lstm.get_workload(2, 3),
    "dqn": lambda: dqn.get_workload(1, 4, (1, 36, 36)),
    "synthetic": lambda: wide(synthetic.get_net((1, 2, 4, 6))),
    "dcgan": lambda: dcgan.get_workload(1, ngf=4, random_len=5),
    "resnet-3d": lambda: resnet_3d.get_workload(1, 5, 8, (3, 2, 8, 8)),
    "resnet": lambda: resnet.get_workload(1, 5, 8, (3, 8, 8)),
}
SLOW: dict[str, Callable[[], Any]] = {
    "mobilenet": lambda: wide(mobilenet.mobile_net(5, (1, 3, 32, 32), alpha=0.25)),
    "mobilenet-nhwc": lambda: wide(
        mobilenet.mobile_net(5, (1, 32, 32, 3), alpha=0.25, is_shallow=True, layout="NHWC")
    ),
    "vgg": lambda: vgg.get_workload(1, 5, (3, 32, 32)),
    "squeezenet": lambda: wide(squeezenet.get_net(1, (3, 32, 32), 5, "1.1", "float32")),
    "densenet": lambda: wide(densenet.dense_net(8, 4, (2, 2, 2), (1, 3, 32, 32), "float32")),
    "inception": lambda: wide(inception_v3.get_net(1, 5, (3, 75, 75), "float32")),
}


def check(workload: Callable[[], Any]) -> None:
    module, params = workload()
    values = inputs_of(module, params)
    wanted = relay.create_executor("debug", mod=module, params=params).evaluate()(**values)
    given = relay.create_executor("vm", mod=module, params=params).evaluate()(**values)
    assert np.ptp(wanted) > 0
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("name", FAST)
def test_the_machine_agrees_with_the_evaluator(name: str) -> None:
    check(FAST[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_the_machine_agrees_with_the_evaluator_on_larger_networks(name: str) -> None:
    check(SLOW[name])


def test_a_workload_has_the_same_parameters_each_time() -> None:
    (_, first), (_, second) = mlp.get_workload(1), mlp.get_workload(1)
    assert set(first) == {f"fc{i}_{kind}" for i in (1, 2, 3) for kind in ("weight", "bias")}
    for name in first:
        np.testing.assert_array_equal(first[name].numpy(), second[name].numpy())
    assert np.ptp(first["fc1_weight"]) > 0 and not np.any(first["fc1_bias"])


def test_weights_have_the_dtype_of_the_network() -> None:
    module, params = mlp.get_workload(1, dtype="float16")
    assert params["fc1_weight"].dtype == np.float16
    assert module["main"].checked_type.ret_type.dtype == "float16"


def test_parameters_of_unknown_kind_are_refused() -> None:
    x = relay.var("x", shape=(2,))
    with pytest.raises(RelayError, match="parameter `x` is initialised by no rule"):
        relay.testing.create_workload(relay.Function([x], x))


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: resnet.get_net(1, 9, 19), "no plan for a residual network of 19 layers"),
        (lambda: resnet.get_net(1, 9, 9, (3, 28, 28)), "of 9 layers"),
        (lambda: vgg.get_net(1, IMAGE, 9, "float32", 12), "11, 13, 16 or 19 layers"),
        (lambda: squeezenet.get_net(1, IMAGE, 9, "2.0", "float32"), "version `2.0`"),
        (lambda: densenet.get_workload(100), "no DenseNet of 100 layers"),
        (lambda: dcgan.get_net(1, oshape=(3, 32, 32)), "64 x 64"),
        (lambda: layers.conv_kernel_layout("CHWN"), "no data layout `CHWN`"),
        (lambda: resnet.get_net(1, 9, layout="CHWN"), "no data layout `CHWN`"),
        (lambda: resnet_3d.get_net(1, 9, layout="NCHW"), "no layout `NCHW` of volumes"),
        (lambda: dqn.get_net(1, layout="XYZ"), "no data layout `XYZ`"),
        (lambda: dcgan.get_net(1, layout="XYZ"), "no data layout `XYZ`"),
        (lambda: mobilenet.get_workload(layout="XYZ"), "no data layout `XYZ`"),
        (lambda: init.Initializer()("a_weight", np.ones(2)), "initialised by no rule"),
        (lambda: init.Xavier("odd"), "`rnd_type`"),
        (lambda: init.Xavier(factor_type="odd"), "`factor_type`"),
    ],
)
def test_what_is_not_there_is_refused(build: Callable[[], Any], text: str) -> None:
    with pytest.raises(RelayError, match=text):
        build()


def test_layouts_change_the_order_of_axes_and_nothing_else() -> None:
    (_, plain), (_, other) = (dcgan.get_workload(1, layout=kind) for kind in ("NCHW", "NHWC"))
    assert plain["g2_deconv_weight"].shape == (1024, 512, 4, 4)
    assert other["g2_deconv_weight"].shape == (4, 4, 512, 1024)
    assert plain["dense_weight"].shape == other["dense_weight"].shape


def test_names_and_shapes_of_parameters_are_those_of_tvm() -> None:
    shapes = {
        p.name_hint: p.checked_type.concrete_shape
        for net in (densenet.get_net(169), inception_v3.get_net(1, 9, (3, 299, 299), "float32"))
        for p in relay.testing.run_infer_type(net).params
    }
    assert shapes["conv2d_1_0_0_weight"] == (128, 69, 1, 1)
    assert shapes["conv2d_1_0_1_weight"] == (128, 32, 1, 1)
    assert shapes["conv_t_0_weight"][:2] == ((69 + 6 * 32) // 2, 6 * 32)
    assert shapes["fc2_bias"] == (9,) and shapes["mixed_tower_conv_1_conv1_weight"][0] == 64


def test_constant_weights_have_the_sum_1() -> None:
    _, params = synthetic.get_workload()
    np.testing.assert_allclose(params["conv_weight"], np.full((3, 3, 3, 3), 1 / 81), rtol=1e-6)
    assert not np.any(params["bias"])


def test_what_a_parameter_begins_with_makes_it_no_input() -> None:
    x, w = relay.var("data_1", shape=(2, 3)), relay.var("database_weight", shape=(4, 3))
    _, params = relay.testing.create_workload(relay.Function([x, w], relay.nn.dense(x, w)))
    assert list(params) == ["database_weight"]


def test_rules_for_parameters_are_redefined_one_by_one() -> None:
    class Ones(init.Constant):
        def _init_bias(self, name: str, arr: np.ndarray) -> None:
            arr[...] = len(name)

    _, params = relay.testing.create_workload(mlp.get_net(1), Ones())
    assert params["fc1_bias"].numpy().tolist() == [8.0] * 128


# -- Helpers --------------------------------------------------------------------------------------


def test_operators_are_counted() -> None:
    counts = relay.testing.count_ops(mlp.get_net(1))
    assert counts["nn.dense"] == 3 and counts["nn.relu"] == 2


def test_passes_run_on_an_expression() -> None:
    x = relay.var("x", shape=(2,))
    typed = relay.testing.run_infer_type(relay.exp(x))
    assert typed.checked_type == relay.TensorType((2,), "float32")
    folded = relay.testing.run_opt_pass(
        relay.add(relay.const(1), relay.const(2)), relay.transform.FoldConstant()
    )
    assert folded.data.numpy() == 3
    with pytest.raises(RelayError, match="takes a pass"):
        relay.testing.run_opt_pass(x, "FoldConstant")
    with pytest.raises(RelayError, match="type-mismatch|cannot broadcast|broadcast"):
        wrong = relay.add(relay.var("x", shape=(2,)), relay.var("y", shape=(3,)))
        relay.testing.run_opt_pass(wrong, relay.transform.DeadCodeElimination())


def test_random_values_have_the_type_that_is_asked_for() -> None:
    assert relay.testing.rand("float32", 2, 3).shape == (2, 3)
    value = relay.testing._np_randn_from_type(relay.TensorType((3,), "float64"), scale=0, mean=2)
    np.testing.assert_array_equal(value, np.full(3, 2.0))
    with pytest.raises(RelayError, match="sizes that are not known"):
        relay.testing._np_randn_from_type(relay.TensorType((relay.Any(), 2)))
    assert relay.testing.enabled_targets() == [("llvm", tvm.cpu())]


def test_gradients_are_compared_with_differences() -> None:
    x = relay.var("x", shape=(2, 2), dtype="float64")
    tanh = relay.Function([x], relay.tanh(x))
    relay.testing.check_grad(tanh, eps=1e-4, scale=1.0)
    with pytest.raises(RelayError, match="at least one gradient"):
        relay.testing.check_grad(tanh, test_inputs=[])


# -- Boxes ----------------------------------------------------------------------------------------


def yolo_layer(objectness: float) -> dict[str, Any]:
    """Return a layer of one anchor and 2 x 2 cells that sees class 1 in the cell (0, 1)."""
    output = np.zeros((1, 7, 2, 2))
    output[0, :, 0, 1] = [0.5, 0.5, 0, 0, objectness, 0.1, 1]
    return {"type": "Yolo", "output": output, "biases": [32, 16], "mask": [0], "classes": 2}


def test_boxes_are_in_coordinates_of_the_image() -> None:
    # The image is as wide as the network's input and half as high: borders above and below.
    (found,) = yolo_detection.fill_network_boxes((64, 64), (64, 32), 0.5, True, [yolo_layer(0.8)])
    assert found["objectness"] == 0.8 and found["prob"].tolist() == [0, 0.8]
    assert tuple(found["bbox"]) == (0.75, 0.0, 0.5, 0.5)
    (pixels,) = yolo_detection.fill_network_boxes((64, 64), (64, 32), 0.5, False, [yolo_layer(1)])
    assert tuple(pixels["bbox"]) == (48, 0, 32, 16)
    assert not yolo_detection.fill_network_boxes((64, 64), (64, 32), 0.9, True, [yolo_layer(0.8)])


def test_boxes_of_regions_are_told_for_every_cell() -> None:
    output = np.zeros((1, 7, 2, 2))
    output[0, 4:, 1, 0] = [0.9, 1, 0.2]
    layer = {"type": "Region", "output": output, "biases": [1, 1], "classes": 2, "coords": 4}
    layer["background"] = 0
    found = yolo_detection.fill_network_boxes((8, 8), (8, 8), 0.5, True, [layer, {"type": "Other"}])
    assert [d["objectness"] for d in found] == [0, 0, 0.9, 0]
    assert found[2]["prob"].tolist() == [0.9, 0] and tuple(found[2]["bbox"]) == (0, 0.5, 0.5, 0.5)


def test_likelier_boxes_of_a_class_put_out_those_they_overlap(capsys: Any) -> None:
    def detection(x: float, prob: list[float]) -> dict[str, Any]:
        return {"bbox": yolo_detection.Box(x, 0.5, 0.4, 0.4), "objectness": 1, "prob": prob}

    nothing = {**detection(0.5, [0.0, 0.0]), "objectness": 0}
    near, far = detection(0.52, [0.6, 0.0]), detection(0.05, [0.5, 0.7])
    dets = [nothing, near, detection(0.5, [0.9, 0.0]), far]
    yolo_detection.do_nms_sort(dets, 2, 0.5)
    assert near["prob"] == [0, 0.0] and far["prob"] == [0.5, 0.7] and dets[-1] is nothing
    image = np.zeros((3, 500, 100))
    yolo_detection.show_detections(image, dets, 0.55, ["cat", "dog"], 2)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "class:['dog 0.7'] left:0 right:25 top:150 bottom:350" and len(told) == 2
    shown, found = yolo_detection.get_detections(image, far, 0.6, ["cat", "dog"], 2)
    assert shown and found["width"] == 3 and found["rgb"] == [0.5, 1.0, 0.0]


def test_attributes_of_operators_are_set_for_a_while() -> None:
    from relayvm.relay.testing.temp_op_attr import TempOpAttr

    op = relay.op.get("sqrt")
    assert op.get_attr("ftest") is None
    with TempOpAttr("sqrt", "ftest", 1):
        with TempOpAttr("sqrt", "ftest", 2):
            assert op.get_attr("ftest") == 2
        assert op.get_attr("ftest") == 1
    assert op.get_attr("ftest") is None
