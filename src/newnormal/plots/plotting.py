"""`plot`: a picture of verdicts, of a timeline or of a fleet's verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from newnormal.errors import InputError
from newnormal.metrics import Evaluation
from newnormal.plots.canvas import check_extra
from newnormal.plots.overview import fleet_figure, is_fleet
from newnormal.plots.stream import stream_figure
from newnormal.plots.style import DARK, LIGHT
from newnormal.types import Timeline, Verdicts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(
    verdicts: Any,
    *,
    name: str = "",
    labels: Any = None,
    channels: int | Sequence[str] | None = None,
    dark: bool = False,
    evaluation: Evaluation | None = None,
) -> Figure:
    """Draw what happened: the channels concerned with their ranges, alarms, changes, the ratio.

    Any number of samples will do: each pixel shows the extremes of what falls into it. A notebook
    shows the figure; ``figure.savefig("live.png")`` writes it. Needs the extra ``plot``.

    Parameters
    ----------
    verdicts
        Verdicts from `run` or `score`; or those of a fleet, or verdicts by stream, of which those
        that need attention are drawn first.
    name
        Of the stream or of the file, for the headline.
    labels
        1 for a sample that is labelled as a fault, 0 for another; None: as in the input. Only
        with labels an alarm is called true or false.
    channels
        How many channels to draw, those concerned first, or their names; of a fleet, how many
        streams, or their names. None: 4 channels, or 30 streams.
    dark
        Whether the paper is dark.
    evaluation
        From `newnormal.metrics.evaluate`, for its figures below the headline.

    Examples
    --------
    >>> import numpy as np
    >>> from newnormal import Detector, plot
    >>> rng = np.random.default_rng(0)
    >>> history = np.sin(np.arange(600) / 9)[:, None] + rng.normal(0, 0.1, (600, 2))
    >>> live = history[:230].copy()
    >>> live[200:] += 3
    >>> detector = Detector(alarms_per_day=1, epochs=1).fit(history)
    >>> figure = plot(detector.run(live), name="plant")
    >>> figure.texts[0].get_text()[:33]
    'plant: In alarm since sample 200:'
    """
    check_extra()
    style = DARK if dark else LIGHT
    if is_fleet(verdicts):
        if labels is not None or evaluation is not None:
            raise InputError(
                "labels: expected those of one stream, found a fleet's verdicts",
                hint="draw one stream: newnormal.plot(verdicts[stream], labels=labels)",
            )
        return fleet_figure(verdicts, style, name, channels)
    timeline = Timeline.of(verdicts, name, labels) if isinstance(verdicts, Verdicts) else verdicts
    if not isinstance(timeline, Timeline):
        raise InputError(
            f"expected verdicts to draw, found {type(verdicts).__name__}",
            hint="pass what detector.run(series), detector.score(series) or fleet.run(...) returns",
        )
    return stream_figure(timeline, style, channels, evaluation)
