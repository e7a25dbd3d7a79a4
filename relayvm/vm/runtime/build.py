"""Builds the C runtime as the extension module `relayvm.vm._runtime`, in place, with cffi. The file
holds a second module, `calls`, which is written for Python and numpy by hand.

`python -m relayvm.vm.runtime.build [--stress] [--sanitize] [--tsan]`; the other builds have names
of their own and stand beside the normal one: `_runtime_stress`, `_runtime_sanitize` and so on.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

import cffi
import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LANGUAGE = ("-std=c11", "-D_GNU_SOURCE", "-ffp-contract=off")
FLAGS = (*LANGUAGE, "-O2", "-fno-math-errno", "-fvisibility=hidden")


def build_module(
    name: str = "_runtime", extra: tuple[str, ...] = (), root: Path = Path()
) -> cffi.FFI:
    """Return the builder of one variant of the runtime: `extra` are compiler flags of its own."""
    ffi = cffi.FFI()
    ffi.cdef(_without_directives((HERE / "generated" / "cdef.h").read_text()))
    ffi.cdef(_without_directives((HERE / "machine_cdef.h").read_text()))
    here = root / HERE.relative_to(ROOT)
    ffi.set_source(
        f"relayvm.vm.{name}",
        '#include "machine.h"\n#include "value.h"\n#include "loader.h"\n',
        sources=[str(here / path.relative_to(HERE)) for path in sources()],
        include_dirs=[str(here), np.get_include()],
        depends=[str(here / path.relative_to(HERE)) for path in sorted(HERE.rglob("*.[hi]*"))],
        extra_compile_args=[*FLAGS, *extra],
        extra_link_args=[flag for flag in extra if flag.startswith("-fsanitize")],
        libraries=["m", "pthread"] if sys.platform != "darwin" else [],
        py_limited_api=True,
    )
    return ffi


def sources() -> list[Path]:
    """Return the C files of the extension module."""
    return [*sorted(HERE.glob("*.c")), *sorted((HERE / "python").glob("*.c"))]


def _without_directives(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


ffibuilder = build_module()

STRESS = ("-DRVM_STRESS", "-O1", "-g")
WATCHED = (*STRESS, "-fno-omit-frame-pointer")
VARIANTS = {
    "stress": ("the torture build", STRESS),
    "sanitize": (
        "torture build under ASan and UBSan",
        (*WATCHED, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    ),
    "tsan": ("torture build that finds races of threads", (*WATCHED, "-fsanitize=thread")),
}


def main() -> None:
    """Build the variant that the command line names into `relayvm/vm`."""
    parser = argparse.ArgumentParser(description=__doc__)
    for variant, (text, _) in VARIANTS.items():
        parser.add_argument(f"--{variant}", action="store_true", help=text)
    parser.add_argument("--verbose", action="store_true", help="show the compiler's commands")
    options = parser.parse_args()
    name: str = "_runtime"
    extra: tuple[str, ...] = ()
    for variant, (_, flags) in VARIANTS.items():
        if getattr(options, variant):
            name, extra = f"_runtime_{variant}", flags
    work = ROOT / "build" / name
    work.mkdir(parents=True, exist_ok=True)
    builder = build_module(name, (*extra,), ROOT)
    built = Path(builder.compile(tmpdir=str(work), verbose=options.verbose))
    target = HERE.parent / built.name
    shutil.copyfile(built, target.with_suffix(".new"))
    os.replace(target.with_suffix(".new"), target)
    print(target)


if __name__ == "__main__":
    main()
