"""Inputs of activations with parameters, dropout and normalisation layers."""

from __future__ import annotations

from operator_case import Case

_VECTORS = [
    ((2, 3), {}),
    ((1, 2, 3), {"axis": -1, "epsilon": 0.01}),
    ((2, 3, 2), {"center": False}),
    ((2, 3, 1), {"scale": False}),
]

LAYER_CASES: dict[str, list[Case]] = {
    **{
        name: [Case((s,)) for s in ((), (7,), (2, 3), (0, 3))]
        for name in ("fast_exp", "fast_tanh", "fast_erf")
    },
    "nn.fast_softmax": [Case(((2, 3),)), Case(((2, 3, 4),), {"axis": 1})],
    "nn.leaky_relu": [Case(((9,),)), Case(((),), {"alpha": 0.1}), Case(((0, 2),))],
    "nn.prelu": [
        Case(((2, 3), (3,))),
        Case(((2, 3, 2), (2,)), {"axis": -1}),
        Case(((3, 0), (3,)), {"axis": 0}),
    ],
    "nn.dropout": [Case(((2, 3),)), Case(((),), {"rate": 0.25}), Case(((0,),))],
    "nn.batch_norm": [Case((s, *((s[a.get("axis", 1)],),) * 4), a) for s, a in _VECTORS],
    "nn.instance_norm": [
        Case((s, *((s[a.get("axis", 1)],),) * 2), a) for s, a in [*_VECTORS[1:], ((1, 2, 2, 3), {})]
    ],
    "nn.group_norm": [
        Case(((2, 4), (4,), (4,)), {"num_groups": 2}),
        Case(((1, 3, 4), (4,), (4,)), {"num_groups": 2, "axis": -1, "epsilon": 0.01}),
        Case(((2, 4, 2), (4,), (4,)), {"num_groups": 1, "center": False}),
        Case(((1, 3, 2, 2), (3,), (3,)), {"num_groups": 3, "scale": False}),
    ],
    "nn.l2_normalize": [
        Case(((2, 3),), {"eps": 1e-3, "axis": (1,)}),
        Case(((2, 3, 2),), {"eps": 30.0, "axis": (0, -1)}),
        Case(((4,),), {"eps": 1e-5}),
    ],
    "nn.lrn": [
        Case(((1, 5, 2),)),
        Case(((2, 3),), {"size": 3, "axis": -1, "bias": 1.0, "alpha": 0.1, "beta": 0.5}),
        Case(((3, 0),), {"axis": 0}),
    ],
    "nn.cross_entropy": [Case(((2, 3), (2, 3))), Case(((0, 2), (0, 2)))],
    "nn.cross_entropy_with_logits": [Case(((2, 3), (2, 3)))],
    "nn.nll_loss": [
        Case(((3, 2), (3,), (2,)), {}, {1: "int32"}, {1: [1, 0, 1]}),
        Case(
            ((2, 3, 2), (2, 2), (3,)),
            {"reduction": "none", "ignore_index": 7},
            {1: "int64"},
            {1: [[2, 7], [0, 1]]},
        ),
        Case(
            ((2, 3, 2), (2, 2), (3,)), {"reduction": "sum"}, {1: "int8"}, {1: [[2, -100], [0, 1]]}
        ),
        Case(((4,), (), (4,)), {}, {1: "int32"}, {1: 3}),
    ],
}
