"""A source that sends nothing, reported by the clock of the process that waits for it.

The detector finds a gap when the next sample comes. Until then only a clock can. What it shows is a
line for the user, and not part of the state: a run of the same samples has the same state and the
same events.
"""

import time
from collections.abc import Callable

import numpy as np

from newnormal.alarms.silence import longest_silence
from newnormal.alarms.words import duration_text, silence_sentence


class SilentSource:
    """Reports once that a source has been silent for longer than the detector allows.

    `name`: what the source is called. `period`: the time between samples; None: nothing is
    reported. `report`: called with a line for the user. `clock` gives the seconds now; None: the
    clock of this machine, which never goes back.
    """

    def __init__(
        self,
        name: str,
        period: np.timedelta64 | None,
        report: Callable[[str], None],
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._name = name
        self._period = 0.0 if period is None else float(period / np.timedelta64(1, "s"))
        self._longest = longest_silence(period)[1]
        self._report = report
        self._clock = clock or time.monotonic
        self._newest = self._clock()
        self._is_reported = False

    def received(self, samples: int) -> None:
        """Note how many samples a batch had, of a source that does not wait longer than that."""
        now = self._clock()
        silent = now - self._newest
        if samples:
            if self._is_reported:
                length = duration_text(samples, silent)
                self._report(f"{self._name}: samples again, after {length}")
            self._newest, self._is_reported = now, False
        elif silent > self._longest and not self._is_reported:
            self._is_reported = True
            sentence = silence_sentence((), round(silent / self._period), silent, self._period)
            self._report(f"{self._name}: {sentence}")
