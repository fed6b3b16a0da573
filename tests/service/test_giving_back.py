"""Memory that was freed is given back to the system."""

import pytest

from benchmarks.report import NotMeasured
from benchmarks.streaming import resident_bytes
from newnormal.service import memory
from tests.processes import python


def test_what_lies_between_blocks_in_use_is_given_back() -> None:
    try:
        resident_bytes()
    except NotMeasured as error:
        pytest.skip(str(error))
    if memory._trim() is None:
        pytest.skip("needs glibc")
    blocks = [bytes(10_000) for _ in range(10_000)]
    before = resident_bytes()
    kept = blocks[::100]
    del blocks
    assert memory.give_back()
    assert before - resident_bytes() > 50e6
    assert len(kept) == 100


def test_threads_share_what_is_free() -> None:
    """In a process of its own, as it cannot be undone; heaps of threads have their own places."""
    if memory._trim() is None:
        pytest.skip("needs glibc")
    assert heaps_of_threads(shared=False) > 1
    assert heaps_of_threads(shared=True) == 1


def heaps_of_threads(*, shared: bool) -> int:
    """Return how many heaps malloc_info shows after four threads have allocated."""
    return python("-c", _THREADS, int(shared), check=True).stdout.count("<heap nr=")


_THREADS = """
import ctypes, sys, threading
from newnormal.service.memory import share
if int(sys.argv[1]):
    assert share()
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
meet = threading.Barrier(4)
def allocate():
    c.malloc(1000)
    meet.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
c.malloc_info(0, ctypes.c_void_p.in_dll(c, "stdout"))
c.fflush(None)
"""


def test_without_the_call_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_trim", lambda: None)
    assert not memory.give_back()
