"""`tvm.runtime.module`: what was compiled, and how long it takes."""

from relayvm.relay.backend.executor_factory import ExecutorFactoryModule as Module
from relayvm.relay.backend.executor_factory import load_module
from relayvm.relay.lazy import absent
from relayvm.relay.machine import BenchmarkResult
from relayvm.relay.namespace.runtime import enabled, num_threads

__all__ = ["BenchmarkResult", "Module", "enabled", "load_module", "num_threads"]

__getattr__ = absent("relayvm.runtime.module")
