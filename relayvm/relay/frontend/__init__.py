"""What old importers of models share, by TVM's names."""

from relayvm.relay.lazy import lazy_names

__getattr__ = lazy_names(__name__, {})
