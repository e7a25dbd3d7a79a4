"""`tvm.contrib`: the graph executor, temporary folders, and what there is of CUDA."""

from relayvm.relay.lazy import lazy_names

# A package to Python, whose modules are found by name.
__path__: list[str] = []

__getattr__ = lazy_names(
    "relayvm.contrib",
    {
        "cudnn": "relayvm.relay.namespace.contrib_cudnn:",
        "graph_executor": "relayvm.relay.backend.graph_module:",
        "graph_runtime": "relayvm.relay.backend.graph_module:",
        "nvcc": "relayvm.relay.namespace.contrib_nvcc:",
        "utils": "relayvm.relay.namespace.contrib_utils:",
    },
    top="relayvm.contrib",
)
