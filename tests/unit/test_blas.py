"""Training uses one BLAS thread, and leaves the others as they were."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from newnormal.models import blas


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
