"""What a model without members does where a stream changes its place: nothing.

`newnormal.models.committee` judges a changed stream as if it had stayed where it was.
"""

from __future__ import annotations

from typing import Any

from newnormal.core.state import ModelState
from newnormal.kernels.step import StepParams
from newnormal.types import Bools, Floats


class NoPlaces:
    """A model that has no members, accepts no patterns and judges a stream by its trend alone."""

    @property
    def vote_kinds(self) -> tuple[str, ...]:
        """The kind of each vote that `advance` can give; none but for a committee."""
        return ()

    @property
    def vote_count(self) -> int:
        """How many members vote; 0 for a model without any."""
        return len(self.vote_kinds)

    @property
    def translates(self) -> bool:
        """Whether it judges a changed stream as if it had stayed where it was."""
        return False

    def translate(self, state: ModelState, slot: int, shift: Floats, age: int) -> None:
        """Judge a stream that moved by `shift` (C,) scaled `age` samples ago from where it is."""

    def accept_translation(self, state: ModelState, slot: int) -> None:
        """Accept a shift, the way there and the way back as normal."""

    def drop_translation(self, state: ModelState, slot: int) -> None:
        """Forget a shift."""

    def accept_pattern(
        self, state: ModelState, votes: Floats, channels: Bools, *, grows: bool = False
    ) -> None:
        """Accept samples with votes no higher than these, in these channels (C,), as normal."""

    def accepted(self, state: ModelState) -> Any:  # noqa: ARG002
        """Return what was accepted besides the weights and the trend; None for most models."""
        return None

    def restore_accepted(self, state: ModelState, kept: Any) -> None:
        """Restore what `accepted` returned."""

    def expected_spread(self, params: StepParams) -> Floats | None:  # noqa: ARG002
        """Return the usual distance of each channel from what is expected, or None: not known."""
        return None
