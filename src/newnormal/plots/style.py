"""Colours of pictures, on light and on dark paper."""

from typing import NamedTuple


class Style(NamedTuple):
    """The colours of a picture, by what they are used for.

    Okabe and Ito's colours differ for every kind of colour vision; the rest is grey.
    """

    paper: str
    ink: str  # text
    quiet: str  # text that matters less
    line: str  # scores, and values below a trend
    value: str  # values beside what was expected
    pale: str  # axes
    ground: str  # of lanes
    expected: str
    band: str  # the expected range
    alarm: str  # an alarm; with labels, one for nothing
    true: str  # what is labelled, and alarms that meet it
    pending: str  # states of changes, as in reports
    accepted: str
    rejected: str
    reverted: str

    def state(self, state: str) -> str:
        """Return the colour of a change's state."""
        colours = {"pending": self.pending, "accepted": self.accepted, "rejected": self.rejected}
        return colours.get(state, self.reverted)

    def hatch(self, state: str) -> str:
        """Return the hatch of a change's state: one that is open is hatched, as in reports."""
        return {"pending": "////", "rejected": "\\\\\\\\"}.get(state, "")


LIGHT = Style(
    paper="white",
    ink="#1f2933",
    quiet="#5b6875",
    line="#8a97a6",
    value="#3e4c59",
    pale="#c9d1d9",
    ground="#f1f4f7",
    expected="#2b8cc4",
    band="#9cc7e6",
    alarm="#D55E00",
    true="#0072B2",
    pending="#a0557f",
    accepted="#009e73",
    rejected="#6b7785",
    reverted="#7f8b98",
)
DARK = Style(
    paper="#14191f",
    ink="#e6eaee",
    quiet="#a3b0bd",
    line="#93a1b0",
    value="#d5dce3",
    pale="#46525e",
    ground="#1e252d",
    expected="#4aa3df",
    band="#2f6f9f",
    alarm="#ff7a1a",
    true="#56B4E9",
    pending="#d58bb3",
    accepted="#2fbf94",
    rejected="#8a97a6",
    reverted="#6b7785",
)
