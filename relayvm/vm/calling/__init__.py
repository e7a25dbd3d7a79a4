"""Calls of entries from Python."""

from relayvm.vm.calling.call import Call, busy, quoted

__all__ = ["Call", "busy", "quoted"]
