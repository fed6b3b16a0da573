"""What several commands show a person about alarms and changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["accept_after_text"]


def accept_after_text(detector: Any, period: np.timedelta64 | None) -> str | None:
    """Return how long a change must be stable until it is accepted, in words; None: never.

    Parameters
    ----------
    detector
        It need not be fitted.
    period
        The time between samples, or None.

    Examples
    --------
    >>> from newnormal import Detector
    >>> accept_after_text(Detector(), None), accept_after_text(Detector(accept_after="2h"), None)
    ('1440 samples', '2 h')
    """
    import math
    from datetime import timedelta

    import numpy as np

    from newnormal.alarms.sentences import duration_text
    from newnormal.config import NEVER, SAMPLES_PER_DAY, duration

    after = detector.accept_after
    if after is None:
        after = SAMPLES_PER_DAY if period is None else "24h"
    if after in (NEVER, math.inf):
        return None
    if isinstance(after, str | timedelta | np.timedelta64):
        seconds = duration(after, "accept_after") / np.timedelta64(1, "s")
        return duration_text(0, float(seconds))
    return duration_text(math.ceil(after), None)
