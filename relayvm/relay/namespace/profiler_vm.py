"""`tvm.runtime.profiler_vm`: a machine that tells where its time goes."""

from relayvm.relay.profiling import VirtualMachineProfiler, enabled

__all__ = ["VirtualMachineProfiler", "enabled"]
