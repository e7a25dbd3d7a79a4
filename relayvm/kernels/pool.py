"""Compiling kernels in worker processes: LLVM holds one lock per process, and its fatal errors end
the process.

Workers are plain child processes that read jobs and write results as length-prefixed pickles on
pipes. They start when first needed, stay until this process ends, and a dead one is an error of
the job it had, not of the pool.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import selectors
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from relayvm.base.abi import Image
from relayvm.base.diagnostics import InternalError
from relayvm.base.host import available_cores
from relayvm.base.process import RenewedLock, llvm_lock
from relayvm.base.settings import setting
from relayvm.kernels.loops import Nest

_START = (
    "import sys; sys.path[:] = eval(sys.argv[1]); from relayvm.kernels.pool import serve; serve()"
)
# Starting workers takes as long as compiling about this much text of nests: below it the calling
# process is as fast.
_TEXT_WORTH_WORKERS = 60_000


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel to compile; `name` is what messages call it, `nest` and `target` are text."""

    name: str
    nest: str
    in_place: tuple[tuple[int, int], ...]
    target: str


def _compile(job: Job, nest: Nest | None = None) -> Image:
    with llvm_lock:  # a fork does not come in the middle of an import either
        from relayvm.kernels.codegen.kernel import compile_job

    return compile_job(job, nest)


@dataclass(eq=False)
class _Worker:
    """A child process and the number of the job it has; what it prints goes to `complaints`."""

    process: subprocess.Popen[bytes]
    complaints: IO[bytes]
    job: int | None = None

    @classmethod
    def start(cls) -> _Worker:
        complaints = tempfile.TemporaryFile()  # noqa: SIM115
        # A worker is not interrupted with its parent: Ctrl-C in the terminal reaches the parent,
        # which ends it.
        process = subprocess.Popen(
            [sys.executable, "-c", _START, repr(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            start_new_session=True,
        )
        return cls(process, complaints)

    def send(self, number: int, job: Job) -> None:
        self.job = number
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            _write(self.process.stdin, job)

    def receive(self) -> Any:
        """Return the next result; raises EOFError where the worker is gone."""
        assert self.process.stdout is not None
        return _read(self.process.stdout)

    def last_words(self) -> str:
        """Return the end of what the worker printed."""
        status = self.process.wait()
        self.complaints.seek(0)
        text = self.complaints.read()[-2000:].decode(errors="replace").strip()
        return f"exit status {status}" + (f": {text}" if text else "")

    def stop(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        self.process.kill()
        self.process.wait()
        self.complaints.close()


@dataclass(eq=False)
class Pool:
    """A number of workers, started as jobs need them."""

    limit: int
    workers: list[_Worker] = field(default_factory=list)
    lock: RenewedLock = field(default_factory=RenewedLock)
    owner: int = field(default_factory=os.getpid)

    def run(self, jobs: Sequence[Job]) -> list[Image]:
        """Return the image of each job; raises InternalError naming the kernel that fails."""
        with self.lock.held():
            if os.getpid() != self.owner:  # after a fork the workers belong to the parent
                self.workers, self.owner = [], os.getpid()
            self._drop_dead()
            while len(self.workers) < min(self.limit, len(jobs)):
                self.workers.append(_Worker.start())
            try:
                return self._dispatch(jobs)
            except BaseException:
                self.stop()
                raise

    def _dispatch(self, jobs: Sequence[Job]) -> list[Image]:
        images: list[Image | None] = [None] * len(jobs)
        # Long ones first, so that none is left over at the end.
        waiting = sorted(range(len(jobs)), key=lambda k: len(jobs[k].nest))
        with selectors.DefaultSelector() as selector:
            for worker in self.workers:
                assert worker.process.stdout is not None
                selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
                if waiting:
                    number = waiting.pop()
                    worker.send(number, jobs[number])
            while any(worker.job is not None for worker in self.workers):
                for key, _ in selector.select():
                    worker = key.data
                    number, image = self._result(worker, jobs)
                    images[number] = image
                    if waiting:
                        following = waiting.pop()
                        worker.send(following, jobs[following])
        return [image for image in images if image is not None]

    def _result(self, worker: _Worker, jobs: Sequence[Job]) -> tuple[int, Image]:
        number = worker.job
        if number is None:
            raise InternalError(f"an idle compile worker ended: {worker.last_words()}")
        name = jobs[number].name
        try:
            result = worker.receive()
        except EOFError:
            raise InternalError(
                f"the compiler died on kernel `{name}`: {worker.last_words()}"
            ) from None
        if not isinstance(result, Image):
            raise InternalError(f"kernel `{name}` cannot be compiled: {result}")
        worker.job = None
        return number, result

    def _drop_dead(self) -> None:
        """Forget workers that ended while they had nothing to do."""
        for worker in [w for w in self.workers if w.process.poll() is not None]:
            worker.stop()
            self.workers.remove(worker)

    def stop(self) -> None:
        """End all workers; the next run starts new ones."""
        if os.getpid() == self.owner:
            for worker in self.workers:
                worker.stop()
        self.workers = []


_pools: dict[int, Pool] = {}


def worker_limit() -> int:
    """Return how many workers may run: the setting, else the cores this process may use."""
    chosen = setting("RELAYVM_COMPILE_WORKERS")
    if isinstance(chosen, int):
        return chosen
    return available_cores()


def compile_jobs(jobs: Sequence[Job], nests: Mapping[str, Nest] | None = None) -> list[Image]:
    """Return the image of each job, compiled here where they are few, else by workers.

    `nests` are those that this process has at hand, by their text.
    """
    limit = worker_limit()
    started = limit in _pools and len(jobs) > 1
    few = len(jobs) == 1 or sum(len(job.nest) for job in jobs) < _TEXT_WORTH_WORKERS
    # An embedded interpreter has no program to start workers with.
    if limit == 0 or not sys.executable or (few and not started):
        return [_compile(job, nests.get(job.nest) if nests else None) for job in jobs]
    if limit not in _pools:
        _pools[limit] = Pool(limit)
        atexit.register(_pools[limit].stop)
    return _pools[limit].run(jobs)


def _write(pipe: IO[bytes], message: object) -> None:
    data = pickle.dumps(message)
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def _read(pipe: IO[bytes]) -> Any:
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", head)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


def serve() -> None:
    """Run a worker: compile what arrives until the pipe closes."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LLVM prints must not end up among the replies
    requests = sys.stdin.buffer
    while True:
        try:
            job = _read(requests)
        except EOFError:
            return
        try:
            result: object = _compile(job)
        except Exception:
            result = traceback.format_exc()
        try:
            _write(replies, result)
        except BrokenPipeError:
            return
