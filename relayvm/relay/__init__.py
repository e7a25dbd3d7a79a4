"""TVM Relay's Python names over RelayVM: `import relayvm as tvm; from relayvm import relay`.

Nothing else in the package imports from here.
"""

from relayvm.relay import idioms as idioms
from relayvm.relay.homes import HOMES
from relayvm.relay.lazy import lazy_names, listing
from relayvm.relay.namespace import ir as ir

__getattr__ = lazy_names(__name__, HOMES, fallbacks=("relayvm.relay.op",))
__dir__ = listing(__name__, HOMES, ("relayvm.relay.op",))
