"""Types of kernels' arguments as text, and back."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba import types

from newnormal.kernels.type_texts import text_of, types_of
from newnormal.runtime.kernel_jobs import FIT, SERVE, WATCH, jobs_of


@pytest.mark.parametrize("command", [FIT, WATCH, SERVE])
def test_the_types_of_every_kernel_come_back(command: str) -> None:
    for job in jobs_of(command):
        assert types_of(text_of(job.types)) == job.types, job.name


def test_layout_dimensions_and_whether_it_can_be_written_to_are_kept() -> None:
    fixed = np.zeros((2, 3), np.float32)
    fixed.flags.writeable = False
    for array in (fixed, fixed.T, np.zeros((4, 4))[:, ::2], np.zeros(3, np.bool_)):
        kind = numba.typeof(array)  # type: ignore[no-untyped-call]
        assert types_of(text_of((kind,))) == (kind,)


def test_a_type_that_no_kernel_takes_is_an_error() -> None:
    with pytest.raises(TypeError, match="expected a type that kernels take, found unicode_type"):
        text_of((types.unicode_type,))
