"""The slow twin of `newnormal.kernels.decision`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from newnormal.kernels import decision as kernel
from newnormal.types import Ints


@dataclass
class NaiveEpisode:
    """Opens and closes; remembers when each episode began, and the pause before it."""

    gap: int
    day: float  # samples
    samples: int = 0
    begins: list[tuple[int, int]] = field(default_factory=list)  # sample, and the pause before it
    ended: int = 0  # the sample after the last one that was beyond, of the newest episode
    quiet: int = 0
    is_open: bool = False

    @property
    def age(self) -> int:
        """Samples since it opened, this one included; 0 without one."""
        return self.samples - self.begins[-1][0] + 1 if self.is_open else 0

    @property
    def silent(self) -> int:
        """Samples since the newest one ended."""
        return self.samples - self.ended

    @property
    def needed(self) -> int:
        """Quiet samples that close the newest one."""
        if len(self.begins) < 3 or self.begins[-1][0] - self.begins[-3][0] > self.soon:
            return self.gap
        return max(self.gap, 2 * max(pause for _, pause in self.begins[-2:]))

    @property
    def soon(self) -> float:
        return self.day / 12

    def follow(self, beyond: bool, missing: bool = False) -> str:
        """Take one sample; return whether the episode opens, closes, or nothing."""
        self.samples += 1
        if not self.is_open:
            if not beyond:
                return ""
            self.begins.append((self.samples, self.silent))
            self.is_open, self.quiet = True, 0
            return "opens"
        if beyond:
            self.quiet = 0
        elif not missing or self.quiet:
            self.quiet += 1
        if self.quiet < self.needed:
            return ""
        self.is_open, self.ended = False, self.samples - self.quiet
        return "closes"

    def close(self) -> None:
        """Close it without a quiet sample: it was accepted, or is over for another reason."""
        if self.is_open:
            self.is_open, self.ended = False, self.samples

    def adopt(self, counts: Sequence[int] | Ints) -> None:
        """Go on from counters: reviews and people end episodes."""
        self.quiet = int(counts[kernel.QUIET])
        if self.is_open and not counts[kernel.AGE]:
            self.close()
