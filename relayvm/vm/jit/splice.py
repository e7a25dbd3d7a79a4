"""Functions of small kernels, which native code inlines: the LLVM text that was compiled with the
kernels themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from relayvm.base.abi import TEXT_SYMBOL

# Of a function around an inlined kernel, `nounwind` is said by its own attributes.
_ATTRIBUTES = "attributes #0 = { nounwind alwaysinline }\n"
_INTERNAL = "define internal "


def inlined_name(number: int) -> str:
    """Return the symbol of a kernel's function."""
    return f"@inlined{number}"


def inlined_text(number: int, text: str) -> str:
    """Return a kernel's function under its own name, to be linked and, once inlined, dropped."""
    head, brace, body = text.partition("{")
    assert head.startswith(_INTERNAL), head
    head = head.replace(f"{TEXT_SYMBOL}(", f"{inlined_name(number)}(", 1)
    return f"define linkonce_odr hidden {head[len(_INTERNAL) :]}{brace}{body}"


def declaration(function: str) -> str:
    """Return the line that declares a function for another module."""
    head = function.partition("{")[0].removeprefix("define linkonce_odr hidden ")
    result, _, rest = head.partition("(")
    kinds = ", ".join(parameter.split()[0] for parameter in rest.rpartition(")")[0].split(","))
    return f"declare {result}({kinds})\n"


def kernels_module(functions: Iterable[str], triple: str) -> str:
    """Return the module of kernels; nothing where there are none."""
    text = "\n".join(functions)
    return f'target triple = "{triple}"\n{text}\n{_ATTRIBUTES}' if text else ""
