"""`tvm.runtime.module`: what was compiled, and how long it takes."""

from relayvm.relay.backend.executor_factory import ExecutorFactoryModule as Module
from relayvm.relay.backend.executor_factory import load_module
from relayvm.relay.machine import BenchmarkResult

__all__ = ["BenchmarkResult", "Module", "load_module"]
