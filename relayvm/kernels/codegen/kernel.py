"""One kernel from its nest to its image: what workers run, and what `RELAYVM_KEEP` writes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from relayvm.base.abi import Image
from relayvm.base.link import link_object
from relayvm.base.native.cpu import Cpu, target_cpu, without_extras
from relayvm.base.target import Target
from relayvm.kernels.codegen.function import inlined_function, nest_functions
from relayvm.kernels.codegen.llvm import compile_assembly, compile_object, module_text
from relayvm.kernels.loops import Nest
from relayvm.kernels.parser import parse_nest

if TYPE_CHECKING:
    from relayvm.kernels.pool import Job

SYMBOL = "kernel"


def compile_job(job: Job, nest: Nest | None = None) -> Image:
    """Return the image of one kernel, whose nest is read unless it is at hand; its only entry is
    called `kernel`.
    """
    if nest is None:
        nest = parse_nest(job.nest)
    cpu = _cpu(job)
    text = module_text(nest_functions(nest, SYMBOL, job.in_place, cpu), cpu)
    symbols = tuple(f"{SYMBOL}.{number}" for number in range(len(nest.phases)))
    code = compile_object(text, cpu)
    image = link_object(code, cpu.triple, cpu.features, {SYMBOL: symbols})
    small = inlined_function(nest, job.in_place, cpu) if "dot(" not in job.nest else None
    # What is inlined must run on all CPUs of the level.
    return image if small is None else replace(image, texts={SYMBOL: small})


def _cpu(job: Job) -> Cpu:
    """Return the CPU that a kernel is compiled for, with no more features than it uses."""
    cpu = target_cpu(Target.parse(job.target))
    return cpu if "dot(" in job.nest else without_extras(cpu)


def keep_artifacts(job: Job, folder: Path) -> None:
    """Write a kernel's nest, LLVM IR and assembly into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    cpu = _cpu(job)
    text = module_text(nest_functions(parse_nest(job.nest), SYMBOL, job.in_place, cpu), cpu)
    # A name may come from a file; it must not lead out of the folder.
    name = re.sub(r"[^A-Za-z0-9_]", "_", job.name)[:100]
    (folder / f"{name}.nest").write_text(job.nest)
    (folder / f"{name}.ll").write_text(text)
    (folder / f"{name}.s").write_text(compile_assembly(text, cpu))
