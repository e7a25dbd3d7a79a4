"""`tvm.runtime.vm`: the machine."""

from relayvm.relay.machine import Executable, VirtualMachine

__all__ = ["Executable", "VirtualMachine"]
