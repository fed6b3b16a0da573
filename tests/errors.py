"""The error that a call raises, to compare all of its text."""

from collections.abc import Callable
from typing import TypeVar

import pytest

E = TypeVar("E", bound=BaseException)


def raised(kind: type[E], act: Callable[..., object], *arguments: object) -> E:
    """Return the error of this class that `act` raises."""
    with pytest.raises(kind) as caught:
        act(*arguments)
    return caught.value
