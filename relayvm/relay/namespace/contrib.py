"""`tvm.contrib`: the graph executor and temporary folders."""

from relayvm.relay.lazy import lazy_names

# A package to Python, whose modules are found by name.
__path__: list[str] = []

__getattr__ = lazy_names(
    "relayvm.contrib",
    {
        "graph_executor": "relayvm.relay.backend.graph_module:",
        "graph_runtime": "relayvm.relay.backend.graph_module:",
        "utils": "relayvm.relay.namespace.contrib_utils:",
    },
    top="relayvm.contrib",
)
