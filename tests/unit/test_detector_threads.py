"""Threads: a detector used by several, how many BLAS has, and files that one process holds."""

import copy
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import newnormal
from newnormal import Detector, NewnormalError
from newnormal.locks import LockFile, content_of, is_held
from newnormal.models import blas
from newnormal.types import Floats
from tests.waiting import until

HISTORY = np.sin(np.arange(600) / 9)[:, None] + np.random.default_rng(0).normal(0, 0.1, (600, 8))


@pytest.fixture(scope="module")
def fitted() -> Detector:
    return Detector(epochs=1).fit(HISTORY)


@pytest.fixture
def busy(fitted: Detector) -> Iterator[Detector]:
    """Give a detector that another thread uses all the time."""
    detector = copy.deepcopy(fitted)
    stopped = threading.Event()

    def use() -> None:
        while not stopped.is_set():
            detector.run(HISTORY[:40] * 3)

    thread = threading.Thread(target=use)
    thread.start()
    yield detector
    stopped.set()
    thread.join()


def test_a_state_shares_nothing_with_its_detector(fitted: Detector) -> None:
    state = fitted.to_state()
    before = {name: array.copy() for name, array in state.tensors.items()}
    fitted.run(HISTORY[:50])
    for name, array in state.tensors.items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    fitted.reset()


def test_what_is_saved_while_it_is_used_can_be_loaded(busy: Detector, tmp_path: Path) -> None:
    for _ in range(12):
        busy.save(tmp_path / "plant.nn")
        assert newnormal.load(tmp_path / "plant.nn").counters["seen"] % 40 == 0


def test_a_copy_made_while_it_is_used_is_whole(busy: Detector) -> None:
    for _ in range(10):
        for twin in (copy.deepcopy(busy), pickle.loads(pickle.dumps(busy))):
            assert twin.counters["seen"] % 40 == 0
            twin.run(HISTORY[:10])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_can_use_it(busy: Detector) -> None:
    series: Floats = HISTORY[:10]
    for _ in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads
            child = os.fork()
        if child == 0:
            with suppress(NewnormalError):  # it was in use all the while: refused, not hanging
                busy.run(series)
                os._exit(0 if busy.counters["seen"] % 40 == 10 else 1)
            os._exit(0)
        ended: list[int] = []

        def has_ended(child: int = child, ended: list[int] = ended) -> bool:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                ended.append(status)
            return bool(found)

        until(has_ended, "the child to end", seconds=30)
        assert ended == [0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_detector_in_use_for_long_is_refused_in_a_forked_child() -> None:
    entered, leave = threading.Event(), threading.Event()

    def fit() -> None:
        def wait(done: int, loss: float) -> None:
            del done, loss
            entered.set()
            leave.wait()

        Detector.fit(mine, HISTORY, on_epoch=wait)

    mine = Detector(epochs=1)
    thread = threading.Thread(target=fit)
    thread.start()
    entered.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            mine.fit(HISTORY)
        except NewnormalError as error:
            text = "this detector was in use by another thread when the process was forked"
            os._exit(0 if error.message == text else 2)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    leave.set()
    thread.join()
    assert status == 0
    assert mine.status_ == "normal"


def test_one_thread_inside_and_as_many_as_before_afterwards() -> None:
    functions = blas._openblas()
    if functions is None:
        pytest.skip("NumPy is not built on OpenBLAS here")
    get, set_ = functions
    before = get()
    try:
        set_(2)
        with blas.one_thread():
            assert get() == 1
        assert get() == 2
        with pytest.raises(KeyError), blas.one_thread():
            raise KeyError
        assert get() == 2
    finally:
        set_(before)


def test_another_blas_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_openblas", lambda: None)
    with blas.one_thread():
        assert np.allclose(np.ones((2, 2)) @ np.ones((2, 2)), 2)


def test_fits_that_overlap_in_two_threads_leave_the_number_as_it_was() -> None:
    functions = blas._openblas()
    if functions is None:
        pytest.skip("NumPy is not built on OpenBLAS here")
    get, set_ = functions
    before = get()
    entered, leave = threading.Event(), threading.Event()

    def first() -> None:
        with blas.one_thread():
            entered.set()
            assert leave.wait(10)

    try:
        set_(2)
        thread = threading.Thread(target=first)
        thread.start()
        assert entered.wait(10)
        with blas.one_thread():
            leave.set()
            thread.join()
            assert get() == 1  # the second is still inside
        assert get() == 2
    finally:
        set_(before)


HOLD = """
import sys
from pathlib import Path
from newnormal.locks import LockFile
lock = LockFile(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
lock.write(b"mine")
print("written", flush=True)
sys.stdin.read()
"""


def test_a_file_is_held_until_its_process_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    own = LockFile(path)
    assert is_held(path) is False and not path.exists()
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert [other.stdout.readline() for _ in range(2)] == ["True\n", "written\n"]
    assert is_held(path) is True
    assert own.acquire() is False
    assert content_of(path) == b"mine"
    other.kill()
    other.communicate()
    assert is_held(path) is False
    assert content_of(path) == b"mine"
    assert own.acquire() is True


def test_what_is_written_replaces_what_was_there_and_is_left(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = LockFile(path)
    assert lock.acquire()
    lock.write(b"a longer text")
    lock.write(b"short")
    assert path.read_bytes() == b"\nshort", "the first byte is the lock's"
    lock.release()
    assert content_of(path) == b"short"
