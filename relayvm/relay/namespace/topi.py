"""`tvm.topi`: the helpers of it that programs use."""

from relayvm.relay.lazy import lazy_names

# A package to Python, whose modules are found by name.
__path__: list[str] = []

__getattr__ = lazy_names(
    "relayvm.topi", {"utils": "relayvm.relay.namespace.topi_utils:"}, top="relayvm.topi"
)
