"""Compilation for the machine, by TVM's names."""

from __future__ import annotations

from relayvm.relay.backend.vm import VMCompiler, VMExecutor, compile
from relayvm.relay.lazy import absent
from relayvm.relay.machine import Executable, VirtualMachine

__all__ = ["Executable", "VMCompiler", "VMExecutor", "VirtualMachine", "compile"]


__getattr__ = absent("relayvm.relay.vm")
