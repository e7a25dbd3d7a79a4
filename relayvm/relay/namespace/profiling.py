"""`tvm.runtime.profiling`: reports of measured runs."""

from relayvm.relay.lazy import absent
from relayvm.relay.profiling import Count, Duration, Percent, Ratio, Report

__all__ = ["Count", "Duration", "Percent", "Ratio", "Report"]

__getattr__ = absent("relayvm.runtime.profiling")
