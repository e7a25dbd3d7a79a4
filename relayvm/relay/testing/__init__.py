"""Networks and helpers for tests, by TVM's names."""

from __future__ import annotations

from relayvm.relay.lazy import lazy_names, listing

_HOMES = {
    "make_nat_expr": "relayvm.relay.testing.nat",
    "make_nat_value": "relayvm.relay.testing.nat",
    "count": "relayvm.relay.testing.nat",
    "create_workload": "relayvm.relay.testing.init",
    "run_infer_type": "relayvm.relay.testing.helpers",
    "run_opt_pass": "relayvm.relay.testing.helpers",
    "check_grad": "relayvm.relay.testing.helpers",
    "to_python": "relayvm.relay.testing.py_converter",
    "run_as_python": "relayvm.relay.testing.py_converter",
    "gradient": "relayvm.relay.pass_adapters",
    "rand": "relayvm.relay.testing.helpers",
    "count_ops": "relayvm.relay.testing.helpers",
    "_np_randn_from_type": "relayvm.relay.testing.helpers",
    "enabled_targets": "relayvm.relay.testing.helpers",
}

__getattr__ = lazy_names(__name__, _HOMES)
__dir__ = listing(__name__, _HOMES)
