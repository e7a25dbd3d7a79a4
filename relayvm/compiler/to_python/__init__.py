"""Relay programs as readable Python over numpy, for debugging."""

from relayvm.compiler.to_python.program import to_python
from relayvm.compiler.to_python.run import PythonProgram

__all__ = ["PythonProgram", "to_python"]
