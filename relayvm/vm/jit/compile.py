"""From a program to the image of its code."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from relayvm.base import link
from relayvm.base.abi import Image
from relayvm.base.diagnostics import error
from relayvm.base.process import llvm_lock
from relayvm.vm.jit.host import Host, this_host
from relayvm.vm.jit.module import enter_name, is_large, margin_bytes, module_text
from relayvm.vm.program import Program


def program_image(
    program: Program,
    inline: bool = True,
    host: Host | None = None,
    profiled: bool = False,
    texts: Mapping[int, str] | None = None,
) -> Image:
    """Return the code of all functions of a program for a host, by default this one.

    `profiled` code is that of measured runs. `texts` are the functions of small kernels, by number.

    Its entries are offsets of `functions`, of what enters each from C, and the `margin` of stack.
    """
    host = host or this_host()
    if importlib.util.find_spec("llvmlite") is None:
        raise error(
            "bad-option",
            "the engine `jit` needs llvmlite, which is not installed",
            help="the engine `interpreter` runs everywhere",
        )
    with llvm_lock:  # a fork does not come in the middle of the import
        from relayvm.vm.jit.llvm import compile_object  # needs llvmlite

    text, kernels = module_text(program, host, inline, profiled, texts)
    effort = 0 if any(map(is_large, program.functions)) else 2
    data = compile_object(text, host.triple, host.cpu, host.features, effort, kernels)
    names = {
        "functions": tuple(f"f{i}" for i in range(len(program.functions))),
        "enter": tuple(map(enter_name, program.functions)),
    }
    image = link.link_object(data, host.triple, tuple(host.needs), names)
    image.entries["margin"] = (margin_bytes(program),)
    return image
