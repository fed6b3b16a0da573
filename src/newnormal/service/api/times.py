"""Times in requests and answers: ISO 8601 or Unix time in, ISO 8601 in UTC out."""

import numpy as np

from newnormal.errors import InputError
from newnormal.service.api.problems import HttpProblem
from newnormal.tabular import parse_time
from newnormal.types.arrays import time_text


def iso(time: int | None) -> str | None:
    """Return a time in ns as text.

    >>> iso(1_767_225_600_500_000_000), iso(None)
    ('2026-01-01T00:00:00.5Z', None)
    """
    return None if time is None else f"{time_text(np.datetime64(time, 'ns'))}Z"


def seconds(time: int) -> float:
    """Return a time in ns as seconds since 1970, as the axis of a picture has it.

    >>> seconds(1_500_000_000), seconds(2_000_000_000)
    (1.5, 2)
    """
    whole, rest = divmod(time, 10**9)
    return whole if rest == 0 else round(time / 1e9, 6)


def nanoseconds(value: object, name: str) -> int:
    """Return a time of a request in ns; a Problem that names the parameter if it is none.

    >>> nanoseconds("2026-01-01T00:00:00Z", "from") == nanoseconds(1767225600, "from")
    True
    """
    try:
        return int(parse_time(value).astype(np.int64))
    except InputError as error:
        raise HttpProblem(422, f"{name}: {error.message}", error.hint) from None
