"""`tvm.error`: the classes that errors of programs are caught by."""

from __future__ import annotations

from relayvm.base.diagnostics import InternalError as _InternalError
from relayvm.base.diagnostics import RelayError

__all__ = [
    "DiagnosticError",
    "InternalError",
    "OpAttributeInvalid",
    "OpAttributeRequired",
    "OpAttributeUnImplemented",
    "OpError",
    "OpNotImplemented",
    "RPCError",
    "TVMError",
]

# One class for all that a program can get wrong; which error it is, its code says.
TVMError = RelayError
DiagnosticError = RelayError
OpError = RelayError
OpNotImplemented = RelayError
OpAttributeRequired = RelayError
OpAttributeInvalid = RelayError
OpAttributeUnImplemented = RelayError
RPCError = RelayError
InternalError = _InternalError
