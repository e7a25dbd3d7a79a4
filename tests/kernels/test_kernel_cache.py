"""The kernel cache: hits, damage, bounds, privacy, and writers at the same time."""

import errno
import os
import shutil
import struct
import threading

import pytest

from relayvm.base.abi import Image
from relayvm.base.cache import KernelCache, image_from_bytes, image_to_bytes

KEY = "ab" + "0" * 62


def _image(fill=b"\x90", size=100):
    return Image(
        "x86_64-unknown-linux-gnu", ("avx2",), fill * size, {"kernel": (0, 64)}, (("memset", 8),)
    )


@pytest.fixture
def cache(tmp_path):
    return KernelCache(tmp_path / "cache", 1 << 20)


def _only_file(cache):
    (path,) = cache.folder.glob("??/*")
    return path


def test_an_image_survives_as_bytes():
    assert image_from_bytes(image_to_bytes(_image())) == _image()


def test_what_was_put_is_got(cache):
    assert cache.get(KEY) is None
    cache.put(KEY, _image())
    assert cache.get(KEY) == _image()


def test_a_damaged_entry_is_a_miss_and_is_removed(cache):
    cache.put(KEY, _image())
    path = _only_file(cache)
    for position in (0, 20, 60, -1):
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(data)
        assert cache.get(KEY) is None
        assert not path.exists()
        cache.put(KEY, _image())


def test_a_shortened_entry_is_a_miss(cache):
    cache.put(KEY, _image())
    path = _only_file(cache)
    path.write_bytes(path.read_bytes()[:30])
    assert cache.get(KEY) is None


def test_the_oldest_entries_go_first(tmp_path):
    cache = KernelCache(tmp_path, 1 << 20)
    keys = [f"{k:02x}" + "0" * 62 for k in range(5)]
    for age, key in enumerate(keys):
        cache.put(key, _image(size=1000))
        os.utime(cache.folder / key[:2] / key[2:], (age, age))
    cache.limit_bytes = 2500
    cache.trim()
    assert [cache.get(key) is not None for key in keys] == [False, False, False, True, True]


def _listings(monkeypatch):
    """Return a list that grows by one whenever a cache lists its files."""
    calls = []
    entries = KernelCache._entries

    def counted(self):
        calls.append(self)
        return entries(self)

    monkeypatch.setattr(KernelCache, "_entries", counted)
    return calls


def test_writing_lists_the_files_only_where_the_limit_is_near(tmp_path, monkeypatch):
    listings = _listings(monkeypatch)
    for process in range(10):
        cache = KernelCache(tmp_path, 1 << 20)
        for k in range(50):
            cache.put(f"{k:02x}{process}" + "0" * 60, _image(size=1000))
    assert len(listings) == 1


def test_the_bound_holds_for_processes_that_write_at_the_same_time(tmp_path, monkeypatch):
    listings = _listings(monkeypatch)
    caches = [KernelCache(tmp_path, 100_000) for _ in range(3)]
    for k in range(1000):
        caches[k % 3].put(f"{k % 256:02x}" + f"{k:062d}", _image(size=1000))
        if k % 50 == 0:
            assert sum(p.stat().st_size for p in tmp_path.rglob("??/*")) <= 100_000
    held = [k for k in range(1000) if caches[0].get(f"{k % 256:02x}" + f"{k:062d}")]
    assert 60 < len(held) < 100
    assert held == list(range(held[0], 1000))
    assert len(listings) < 150


def test_what_is_written_again_and_again_is_not_trimmed(tmp_path):
    cache = KernelCache(tmp_path, 10_000)
    cache.put("cd" + "1" * 62, _image(size=1000))
    for _ in range(100):
        cache.put(KEY, _image(size=1000))
    assert cache.get("cd" + "1" * 62) is not None


def test_a_lost_record_of_sizes_is_made_again(tmp_path):
    cache = KernelCache(tmp_path, 5000)
    for k in range(30):
        (cache.folder / "sizes").unlink(missing_ok=True)
        cache.put(f"{k:02x}" + "0" * 62, _image(size=1000))
        assert cache.info().size_bytes <= 5000


def test_a_damaged_record_of_sizes_does_not_lift_the_bound(tmp_path):
    for damage in (struct.pack("=q", -(1 << 60)), b"abc", struct.pack("=q", 1 << 62)):
        cache = KernelCache(tmp_path, 5000)
        (cache.folder / "sizes").write_bytes(damage)
        for k in range(30):
            cache.put(f"{k:02x}" + "0" * 62, _image(size=1000))
            assert cache.info().size_bytes <= 5000


def _refuse(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_gets_no_files_that_nobody_ends(cache, monkeypatch):
    cache.put("cd" + "1" * 62, _image())
    before = sorted(cache.folder.rglob("*"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", _refuse)
        for _ in range(3):
            cache.put("cd" + "2" * 62, _image())
    assert sorted(cache.folder.rglob("*")) == before
    assert cache.get("cd" + "2" * 62) is None
    cache.put("cd" + "2" * 62, _image())
    assert cache.get("cd" + "2" * 62) == _image()


def test_what_a_killed_writer_leaves_is_no_kernel_and_goes_with_the_oldest(tmp_path):
    cache = KernelCache(tmp_path, 5000)
    cache.put(KEY, _image())
    left = cache.folder / KEY[:2] / ".new-killed"
    left.write_bytes(bytes(3000))
    os.utime(left, (1, 1))
    assert cache.info().entries == 1
    for k in range(10):
        cache.put(f"{k:02x}" + "0" * 62, _image(size=1000))
    assert not left.exists()


def test_a_folder_that_is_removed_meanwhile_is_made_again(cache):
    cache.put(KEY, _image())
    shutil.rmtree(cache.folder.parent)
    assert cache.get(KEY) is None
    cache.put(KEY, _image())
    assert cache.get(KEY) == _image()
    assert cache.folder.stat().st_mode & 0o777 == 0o700


def test_why_a_folder_is_not_used_is_told(tmp_path):
    (tmp_path / "kernels").write_bytes(b"")
    cache = KernelCache(tmp_path, 1 << 20)
    cache.put(KEY, _image())
    assert cache.info().folder is None
    assert cache.info().fault == f"`{tmp_path / 'kernels'}` cannot be made: File exists"


def test_the_folder_is_private_to_the_user(cache):
    assert cache.folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels").chmod(0o777)
    cache = KernelCache(tmp_path, 1 << 20)
    cache.put(KEY, _image())
    assert cache.get(KEY) is None
    assert cache.info().folder is None
    assert "can be written by others" in cache.info().fault


def test_without_a_folder_nothing_is_kept():
    cache = KernelCache(None, 1 << 20)
    cache.put(KEY, _image())
    assert cache.get(KEY) is None


def test_clearing_removes_every_entry(cache):
    cache.put(KEY, _image())
    assert cache.info().entries == 1
    cache.clear()
    assert cache.info().entries == 0


def test_readers_beside_writers_see_whole_entries(cache):
    wrong = []

    def write(fill):
        for _ in range(50):
            cache.put(KEY, _image(fill))

    def read():
        for _ in range(200):
            image = cache.get(KEY)
            if image is not None and len(set(image.code)) != 1:
                wrong.append(image)

    threads = [threading.Thread(target=write, args=(bytes([k]),)) for k in range(3)]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.get(KEY) is not None
    assert len(list(cache.folder.glob("??/*"))) == 1
