"""`tvm.runtime.vm`: the machine."""

from relayvm.relay.lazy import absent
from relayvm.relay.machine import Executable, VirtualMachine

__all__ = ["Executable", "VirtualMachine"]

__getattr__ = absent("relayvm.runtime.vm")
