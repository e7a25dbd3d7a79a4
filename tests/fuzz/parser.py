"""The contract of the parser, checked on texts without end: `python -m tests.fuzz.parser --minutes
10`. Texts that break it are kept in `tests/fuzz/corpus`, where the tests find them.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import random
import time
from pathlib import Path

from relayvm.base.diagnostics import RelayError
from relayvm.base.source import Source
from relayvm.compiler.program_text import parse_every_error
from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module
from relayvm.ir.verify import verify_module
from relayvm.ops import OPS
from tests.fuzz.texts import GENERATORS
from tests.ir.programs import parse

CORPUS = Path(__file__).parent / "corpus"
# What any text may take, apart from what each byte may.
SECONDS = 0.5
SECONDS_A_BYTE = 1e-5


def check(text: str) -> bool:
    """Return whether the parser accepts a text; fails where it breaks its contract."""
    try:
        module = parse(text)
    except RelayError as reason:
        assert all(d.span is not None for d in reason.diagnostics), text
        str(reason)
        return False
    check_round_trip(module)
    return True


def check_round_trip(module: Module) -> None:
    """Check that a module is well-formed and is what its text says."""
    verify_module(module)
    text = print_module(module)
    again = parse(text)
    assert structural_equal(module, again), text
    assert structural_hash(module) == structural_hash(again)
    assert print_module(again) == text


def check_every_error(text: str) -> int:
    """Check the errors of types besides those of the text; return how many there are."""
    try:
        parse(text)
    except RelayError as reason:
        found = {str(d) for d in reason.diagnostics}
    else:
        return 0
    try:
        parse_every_error(Source("test.rly", text), OPS)
    except RelayError as reason:
        assert all(d.span is not None for d in reason.diagnostics), text
        every = {str(d) for d in reason.diagnostics}
        assert found <= every, text
        return len(every - found)
    raise AssertionError(f"what `parse` refuses is accepted: {text}")


def seconds(text: str) -> float:
    """Return the time that reading a text takes, errors and all."""
    # Full collections cost what other tests left on the heap, not what the parser does.
    gc.disable()
    begin = time.process_time()
    try:
        str(parse(text))
    except RelayError as reason:
        str(reason)
    finally:
        gc.enable()
    return time.process_time() - begin


def is_slow(text: str) -> bool:
    """Tell whether a text takes longer than its length allows, every time."""
    limit = SECONDS + SECONDS_A_BYTE * len(text)
    return all(seconds(text) > limit for _ in range(3))


def main() -> None:
    """Check random texts for some minutes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", default=str(time.time_ns()))
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    count = failed = 0
    accepted = dict.fromkeys(GENERATORS, 0)
    while time.monotonic() < end:
        for name, make in GENERATORS.items():
            text = make(random.Random(f"{options.seed} {name} {count}"))
            problem = ""
            try:
                accepted[name] += check(text)
                check_every_error(text)
                problem = "takes too long" if is_slow(text) else ""
            except Exception as reason:
                problem = f"{type(reason).__name__}: {str(reason)[:200]}"
            if problem:
                failed += 1
                path = keep(text)
                print(f"{path.name} from {name}: {problem}", flush=True)
        count += 1
    print(f"{count} rounds from seed {options.seed}, {failed} failures, accepted {accepted}")
    raise SystemExit(failed > 0)


def keep(text: str) -> Path:
    """Write a text that breaks the contract to the corpus."""
    content = text.encode("utf-8", "surrogatepass")
    path = CORPUS / f"{hashlib.sha256(content).hexdigest()[:12]}.rly"
    CORPUS.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


if __name__ == "__main__":
    main()
