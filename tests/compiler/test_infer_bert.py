"""BERT from the builder with untyped weights: what is inferred, and that time grows with layers."""

from __future__ import annotations

import gc
import time

from relayvm.compiler.infer_types import infer_types
from relayvm.ir.printer import print_type
from tests.compiler.bert import bert

# Linear inference gives 4; quadratic 16.
MOST = 8


def test_every_weight_gets_its_type_from_the_data() -> None:
    main = infer_types(bert(2))["main"]
    found = {p.name: print_type(p.type_annotation) for p in main.params}
    assert found["layer0_q_weight"] == "Tensor[(768, 768), float32]"
    assert found["layer1_up_weight"] == "Tensor[(3072, 768), float32]"
    assert found["layer1_up_bias"] == "Tensor[(3072), float32]"
    assert found["layer1_second_gamma"] == "Tensor[(768), float32]"
    assert print_type(main.ret_type) == "Tensor[(1, 128, 768), float32]"


def cpu_seconds(layers: int) -> float:
    module = bert(layers)
    gc.collect()
    gc.disable()
    start = time.process_time()
    infer_types(module)
    spent = time.process_time() - start
    gc.enable()
    return spent


def test_inference_is_linear_in_the_layers() -> None:
    ratios = []
    for _ in range(3):
        ratios.append(cpu_seconds(12) / cpu_seconds(3))
        if ratios[-1] < MOST:
            break
    assert min(ratios) < MOST
