"""The pool of compile workers: results in order, failures named, workers that die, forks."""

import os
import signal
import time

import pytest

from relayvm.base.diagnostics import InternalError
from relayvm.kernels import pool
from relayvm.kernels.pool import Job, Pool

# A worker whose compiler does what the nest's text says.
FAKE = """
import os, sys, time
sys.path[:] = eval(sys.argv[1])
from relayvm.base.abi import Image
from relayvm.kernels import pool
def compile_job(job):
    if job.nest == "die":
        os.write(2, b"LLVM ERROR: Cannot select")
        os.abort()
    if job.nest == "fail":
        raise ValueError("no such thing")
    if job.nest == "print":
        os.write(1, b"noise on stdout")
    time.sleep(0.01)
    return Image("t", (), f"{job.name} {os.getpid()}".encode(), {"kernel": (0,)})
pool._compile = compile_job
pool.serve()
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def workers(monkeypatch):
    monkeypatch.setattr(pool, "_START", FAKE)
    made = Pool(2)
    yield made
    made.stop()


def _jobs(*nests):
    return [Job(f"k{number}", nest, (), "cpu") for number, nest in enumerate(nests)]


def _names(images):
    return [image.code.split()[0].decode() for image in images]


def test_images_come_back_in_the_order_of_the_jobs(workers):
    images = workers.run(_jobs(*("x" * (k % 5) for k in range(12))))
    assert _names(images) == [f"k{k}" for k in range(12)]
    assert len({image.code.split()[1] for image in images}) == 2


def test_workers_are_used_again(workers):
    first = workers.run(_jobs("a", "b"))
    second = workers.run(_jobs("a", "b"))
    pids = [{image.code.split()[1] for image in images} for images in (first, second)]
    assert pids[0] == pids[1]


def test_a_worker_that_dies_is_an_error_that_names_the_kernel(workers):
    with pytest.raises(InternalError, match=r"`k1`.*Cannot select"):
        workers.run(_jobs("a", "die", "b"))
    assert _names(workers.run(_jobs("a", "b", "c"))) == ["k0", "k1", "k2"]


def test_a_failing_compiler_is_an_error_that_names_the_kernel(workers):
    with pytest.raises(InternalError, match=r"`k2` cannot be compiled(.|\n)*no such thing"):
        workers.run(_jobs("a", "b", "fail"))


def test_what_a_compiler_prints_does_not_disturb_the_replies(workers):
    assert _names(workers.run(_jobs("print", "print", "a"))) == ["k0", "k1", "k2"]


def test_a_worker_killed_between_jobs_is_replaced(workers):
    workers.run(_jobs("a", "b"))
    os.kill(workers.workers[0].process.pid, signal.SIGKILL)
    workers.workers[0].process.wait()
    assert _names(workers.run(_jobs("a", "b"))) == ["k0", "k1"]


def test_a_forked_child_starts_its_own_workers(workers):
    workers.run(_jobs("a", "b"))
    child = os.fork()
    if child == 0:
        try:
            fine = _names(workers.run(_jobs("a", "b"))) == ["k0", "k1"]
            workers.stop()
        finally:
            os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert _names(workers.run(_jobs("a", "b"))) == ["k0", "k1"]


def test_workers_end_with_the_pool(workers):
    workers.run(_jobs("a", "b"))
    processes = [worker.process for worker in workers.workers]
    workers.stop()
    deadline = time.monotonic() + 5
    while any(p.poll() is None for p in processes) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(p.poll() is not None for p in processes)
