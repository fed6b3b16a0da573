"""Write the pictures of docs/method.md, from generated data.

::

    python docs/pictures.py                  write them into docs/img
    python docs/pictures.py FOLDER [NAME]    write all, or those named, into a folder

Each function is a picture: the data, the detector, what is drawn. Takes about a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from newnormal import M2N2, Detector, Event, Verdicts, datasets, metrics, plots
from newnormal.plots.canvas import FALSE, INK, LINE, NORMAL, PALE, SMALL, TRUE, blank, save
from newnormal.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FOLDER = Path(__file__).parent / "img"
_WIDTH = 9.0  # inches
_RIGHT, _TOP, _FOOT, _GAP = 0.15, 0.42, 0.5, 0.5
Place = Literal["upper left", "upper right", "lower right"]
GROUND = "#f1f4f7"  # of a stretch of samples
NAMES = ("temperature", "pressure", "flow")


def main(arguments: list[str] | None = None) -> int:
    """Write the pictures; return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    folder = Path(given[0]) if given else _FOLDER
    for name, draw in PICTURES.items():
        if given[1:] and name not in given[1:]:
            continue
        path = save(draw(), folder / f"{name}.png")
        lighten(path, 128)
        print(f"wrote {path}: {path.stat().st_size:,} bytes")
    return 0


def lighten(path: Path, colours: int) -> None:
    """Write a picture again with so many colours: less than half of its size."""
    from PIL import Image

    with Image.open(path) as picture:
        light = picture.convert("RGB").quantize(colours)
    light.save(path, optimize=True)


# ---------------------------------------------------------------------- data


def pump(samples: int, seed: int) -> Floats:
    """Return a stream of three channels that move together, a sample a minute."""
    rng = np.random.default_rng(seed)
    t = np.arange(samples) + 1000 * seed
    load = np.sin(2 * np.pi * t / 97) + 0.4 * np.sin(2 * np.pi * t / 31)
    noise = rng.normal(size=(samples, 3)) * (0.5, 0.08, 0.4)
    clean: Floats = np.c_[60 + 4 * load, 8 + 0.9 * np.roll(load, 3), 30 - 3 * load]
    return clean + noise


def tank(samples: int, seed: int) -> Floats:
    """Return a stream of one channel with much noise."""
    rng = np.random.default_rng(seed)
    wave = np.sin(2 * np.pi * (np.arange(samples) + 1000 * seed) / 97)
    found: Floats = np.c_[60 + 2 * wave + 1.5 * rng.normal(size=samples)]
    return found


HISTORY = pump(4000, seed=1)
TEMPERATURE, PRESSURE, FLOW = HISTORY.std(axis=0)


# ---------------------------------------------------------------------- drawing


def panels(heights: Sequence[float], *, left: float = 0.75) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels one below the other, each this many inches high."""
    total = _TOP + sum(heights) + _GAP * (len(heights) - 1) + _FOOT
    figure = blank(_WIDTH, total)
    found: list[Axes] = []
    top = total - _TOP
    for height in heights:
        place = (
            left / _WIDTH,
            (top - height) / total,
            1 - (left + _RIGHT) / _WIDTH,
            height / total,
        )
        axes = figure.add_axes(place, sharex=found[0] if found else None)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(PALE)
        axes.tick_params(labelsize=SMALL, colors=INK, color=PALE, labelbottom=False)
        axes.margins(x=0)
        found.append(axes)
        top -= height + _GAP
    found[-1].tick_params(labelbottom=True)
    found[-1].set_xlabel("sample", fontsize=SMALL, color=INK)
    return figure, found


def title(axes: Axes, text: str, remark: str = "") -> None:
    """Write a panel's title, and a remark at its right end."""
    axes.set_title(text, loc="left", fontsize=NORMAL, color=INK, fontweight="bold", pad=5)
    axes.set_title(remark, loc="right", fontsize=SMALL, color=INK, pad=5)


def key(axes: Axes, place: Place = "upper left") -> None:
    """Write what the named lines of a panel are."""
    axes.legend(
        loc=place, fontsize=SMALL, labelcolor=INK, ncols=4, borderpad=0.35, edgecolor="none",
        framealpha=0.85, handlelength=1.6,
    )  # fmt: skip


def scores(axes: Axes, values: Floats, threshold: Floats, *, colour: str = INK) -> None:
    """Draw scores and their threshold, on a scale of powers of ten."""
    axes.set_yscale("log")
    axes.plot(values, color=colour, linewidth=0.8, label="score")
    axes.plot(threshold, color=FALSE, linewidth=1.3, linestyle="--", label="threshold")


def ratio(axes: Axes, verdicts: Verdicts) -> None:
    """Draw how far samples are, in units of their limits."""
    assert verdicts.ratios is not None
    axes.plot(verdicts.ratios.clip(0, 8), color=INK, linewidth=0.8)
    axes.axhline(1, color=FALSE, linewidth=1.3, linestyle="--")
    axes.set_ylabel("ratio", fontsize=SMALL, color=INK)


def bar(axes: Axes, start: int, end: int, text: str, colour: str, *, place: float = 0.93) -> None:
    """Mark a stretch of samples, with its name."""
    axes.axvspan(start, end, color=colour, alpha=0.16, linewidth=0)
    axes.text(
        start, place, f" {text}", transform=axes.get_xaxis_transform(), fontsize=SMALL,
        color=INK, va="top",
    )  # fmt: skip


def happened(events: Sequence[Event], kind: str) -> list[Event]:
    """Return the events of one kind."""
    return [event for event in events if event.kind == kind]


# ---------------------------------------------------------------------- the paper's method


def trend() -> Figure:
    """Step 1: the trend is a moving average, and is subtracted."""
    live = pump(1500, seed=2)
    live[600:, 0] += 3 * TEMPERATURE
    detector = M2N2(window=12, half_life=120).fit(HISTORY)
    follows = np.empty(len(live))
    for start in range(0, len(live), 12):
        detector.run(live[start : start + 12])
        follows[start : start + 12] = detector.trend_[0]
    figure, (above, below) = panels((1.35, 1.1))
    above.plot(live[:, 0], color=LINE, linewidth=0.8, label="temperature")
    above.plot(follows, color=TRUE, linewidth=2.2, label="trend, half-life of 120 samples")
    title(above, "1. Follow the trend", "at sample 600 the level rises, and stays")
    key(above)
    below.plot(live[:, 0] - follows, color=INK, linewidth=0.8)
    below.axhline(0, color=TRUE, linewidth=1.4)
    title(below, "What is left when it is subtracted", "this is what the autoencoder is given")
    return figure


def score() -> Figure:
    """Step 2 and 3: a score is what cannot be reconstructed; a threshold divides them."""
    live = pump(400, seed=3)
    live[230:242, 1] += 3.5 * PRESSURE
    detector = M2N2(window=12, half_life=1000, fit_stride=1, threshold=0.999).fit(HISTORY)
    verdicts = detector.run(live)
    assert verdicts.expected is not None
    figure, (above, below) = panels((1.35, 1.1))
    above.plot(live[:, 1], color=LINE, linewidth=2.6, label="pressure")
    above.plot(verdicts.expected[:, 1], color=TRUE, linewidth=1.1, label="reconstructed")
    title(above, "2. Reconstruct each window", "a fault of twelve samples at 230")
    key(above)
    scores(below, verdicts.scores, verdicts.thresholds)
    for i in np.flatnonzero(verdicts.anomalous):
        below.axvspan(i - 0.5, i + 0.5, color=FALSE, alpha=0.2, linewidth=0)
    title(below, "3. Compare the score with the threshold", "shaded: anomalous")
    key(below)
    return figure


def learn() -> Figure:
    """Step 4: learning makes a new shape normal."""
    live = pump(3000, seed=4)
    live[800:, 2] = 30 + 0.3 * (live[800:, 2] - 30)  # flow moves less than it did
    options: dict[str, Any] = {"window": 12, "half_life": 2000, "fit_stride": 1, "threshold": 0.995}
    frozen = M2N2(**options, adapt=False).fit(HISTORY).run(live)
    adapting = M2N2(**options, lr=0.02).fit(HISTORY).run(live)
    figure, axes = panels((1.1, 1.1))
    for each, verdicts, text in zip(
        axes, (frozen, adapting), ("Frozen", "4. Learn from the samples below the threshold"),
        strict=True,
    ):  # fmt: skip
        scores(each, verdicts.scores, verdicts.thresholds)
        each.axvspan(800, 3000, color=GROUND, zorder=0, linewidth=0)
        late = verdicts.anomalous[2000:].mean()
        title(each, text, f"anomalous after sample 2000: {late:.0%}")
        each.set_ylim(5e-4, 2)
    key(axes[0], "lower right")
    return figure


# ---------------------------------------------------------------------- what Detector adds


def memories() -> Figure:
    """Why more than one memory: a short one forgets a fault, a long one keeps on after a change."""
    live = pump(2400, seed=5)
    live[300:600, 0] += 2.5 * TEMPERATURE  # a fault that lasts for hours
    live[1200:, 0] -= 2.5 * TEMPERATURE  # a new level that stays
    figure, axes = panels((0.9, 0.9, 0.9))
    axes[0].plot(live[:, 0], color=LINE, linewidth=0.8)
    title(axes[0], "temperature", "a fault from 300 to 600, a new level from 1200 on")
    for each, half_life in zip(axes[1:], (20, 1000), strict=True):
        detector = M2N2(half_life=half_life, window=5, fit_stride=1, threshold=0.999)
        verdicts = detector.fit(HISTORY).run(live)
        scores(each, verdicts.scores, verdicts.thresholds)
        inside, after = verdicts.anomalous[300:600].mean(), verdicts.anomalous[1200:].mean()
        title(
            each,
            f"M2N2 with a half-life of {half_life:,} samples",
            f"anomalous: {inside:.0%} of the fault, {after:.0%} of the new level",
        )
    for each in axes:
        each.axvspan(300, 600, color=TRUE, alpha=0.12, linewidth=0)
        each.axvspan(1200, len(live), color=GROUND, zorder=0, linewidth=0)
    key(axes[1], "lower right")
    return figure


def committee() -> Figure:
    """Which members see which faults."""
    live = pump(900, seed=6)
    rng = np.random.default_rng(0)
    live[150:152, 1] += 4 * PRESSURE
    live[300:340, 0] += 3 * TEMPERATURE
    live[480:540, 2] = live[480, 2]
    live[680:760] += rng.normal(size=(80, 3)) * (1.2, 0.2, 1.0)
    detector = Detector().fit(HISTORY)
    fitted = detector._fitted
    model: Any = fitted.model
    scaled = (live - fitted.step.mean) / fitted.step.scale
    votes = model.votes(scaled, fitted.step.fitted, detector.rates_)
    members = [each for each in detector.members_ if each.weight > 0]
    figure, (above, below) = panels((1.35, 1.9), left=1.35)
    for row, (name, colour) in enumerate(zip(NAMES, (TRUE, LINE, INK), strict=True)):
        above.plot(scaled[:, row] - 5 * row, color=colour, linewidth=0.8)
        above.text(-8, -5 * row, name, fontsize=SMALL, color=INK, ha="right", va="center")
    above.set_yticks([])
    below.set_yticks(range(len(members)))
    below.set_yticklabels(
        [f"{each.kind}, {each.memory:.0f}" for each in members], fontsize=SMALL, color=INK
    )
    below.imshow(
        np.clip(votes[: len(members)], 0, 8), aspect="auto", cmap="Blues", vmin=0, vmax=8,
        interpolation="nearest", extent=(0, len(live), len(members) - 0.5, -0.5),
    )  # fmt: skip
    for start, text in ((150, "spike"), (300, "new level"), (480, "stuck"), (680, "noise")):
        above.axvline(start, color=FALSE, linewidth=0.9)
        above.text(
            start + 4, 1.0, text, transform=above.get_xaxis_transform(), fontsize=SMALL,
            color=INK, va="top",
        )  # fmt: skip
    title(above, "Four faults")
    title(below, "The vote of each member", "white: usual; dark: 8 and more")
    return figure


def channel() -> Figure:
    """Each channel by itself: a fault is hidden from its range, and hides no other."""
    live = pump(500, seed=6)
    live[200:290, 0] += 4 * TEMPERATURE
    live[240:260, 2] -= 5 * FLOW
    verdicts = Detector().fit(HISTORY).run(live)
    assert verdicts.expected is not None and verdicts.channel_ratios is not None
    assert verdicts.lows is not None and verdicts.highs is not None
    figure, (above, below) = panels((1.5, 1.1))
    rows = np.arange(len(live))
    above.fill_between(rows, verdicts.lows[:, 0], verdicts.highs[:, 0], color=TRUE, alpha=0.18)
    above.plot(live[:, 0], color=LINE, linewidth=0.9, label="temperature")
    above.plot(verdicts.expected[:, 0], color=TRUE, linewidth=1.1, label="expected, with its range")
    title(above, "Each channel by itself", "what is beyond its range is hidden")
    key(above)
    for row, colour in ((0, LINE), (2, INK)):
        ratios = verdicts.channel_ratios[:, row]
        below.plot(ratios, color=colour, linewidth=0.9, label=NAMES[row])
    below.axhline(1, color=FALSE, linewidth=1.3, linestyle="--")
    title(below, "Ratio: the distance in units of the limit", "1 and above is anomalous")
    key(below)
    return figure


def changes() -> Figure:
    """Show an alarm, which opens and closes, and a change, which is pending until accepted."""
    live = pump(2600, seed=7)
    live[300:306, 1] += 4 * PRESSURE
    live[700:, 0] += 5 * TEMPERATURE
    detector = Detector(accept_after=720).fit(HISTORY)
    verdicts = detector.run(live)
    events = detector.take_events()
    figure, (first, second, third) = panels((1.25, 1.1, 1.1))
    scaled = (live - HISTORY.mean(axis=0)) / HISTORY.std(axis=0)
    first.plot(scaled[:, 0], color=TRUE, linewidth=0.8, label="temperature")
    first.plot(scaled[:, 1] - 7, color=LINE, linewidth=0.8, label="pressure")
    first.set_yticks([])
    first.set_ylim(None, 12)
    title(first, "A short fault in one channel, then a new level in another")
    key(first, "upper right")
    ratio(second, verdicts)
    title(second, "Alarms open and close", f"{len(happened(events, 'opened'))} alarms")
    for event in happened(events, "closed"):
        alarm = event.alarm
        assert alarm is not None
        bar(second, alarm.start, event.sample, str(alarm.number), FALSE)
    _distance(third, verdicts.distances)
    changed, accepted = happened(events, "changed")[0], happened(events, "accepted")[0]
    bar(third, changed.sample, accepted.sample, "      pending", TRUE, place=0.45)
    title(third, "A change lasts until it is accepted", f"accepted at sample {accepted.sample:,}")
    return figure


def decisions() -> Figure:
    """Accept and reject the same change, and bring the stream back."""
    live = pump(2400, seed=8)
    live[400:1300, 0] += 5 * TEMPERATURE
    figure, axes = panels((0.9, 1.0, 1.0))
    axes[0].plot(live[:, 0], color=LINE, linewidth=0.8)
    title(axes[0], "temperature", "another level from 400 to 1300")
    for each, verb in zip(axes[1:], ("accept", "reject"), strict=True):
        detector = Detector().fit(HISTORY)
        before = detector.run(live[:700]).distances
        getattr(detector, verb)()
        detector.take_events()
        after = detector.run(live[700:]).distances
        assert before is not None and after is not None
        _distance(each, np.concatenate([before, after]))
        each.axvline(700, color=INK, linewidth=1.2)
        each.text(706, 0.15, f"{verb}()", fontsize=SMALL, color=INK)
        ends = happened(detector.take_events(), "reverted")
        if ends:
            bar(each, 700, ends[0].sample, "", FALSE)
        remark = "both levels, and the way between them, are normal"
        if ends:
            remark = f"it ends when the stream is back, at {ends[0].sample:,}"
        title(each, {"accept": "Accepted", "reject": "Rejected"}[verb], remark)
    return figure


def drift() -> Figure:
    """Show that a drift that no score shows is a change."""
    history, live = tank(4000, seed=1), tank(6000, seed=12)
    live[:, 0] += np.linspace(0, 2.5 * history.std(), len(live))
    detector = Detector(accept_after="never").fit(history)
    verdicts = detector.run(live)
    events = detector.take_events()
    changed = happened(events, "changed")[0]
    figure, (first, second, third) = panels((1.0, 1.0, 1.0))
    first.plot(live[:, 0], color=LINE, linewidth=0.6)
    title(first, "level of a tank", "rises by 2.5 standard deviations in 6,000 samples")
    ratio(second, verdicts)
    title(second, "Alarms", f"{len(happened(events, 'opened'))} alarms")
    _distance(third, verdicts.distances)
    bar(third, changed.sample, len(live), "change pending", TRUE)
    title(third, "Distance from the accepted normal", f"change at sample {changed.sample:,}")
    return figure


def plant() -> Figure:
    """Show the paper's method frozen and adapting, its settings chosen with the labels known."""
    data = datasets.plant(speed_up=2.0)
    after, normal = np.arange(len(data.test)) >= data.shifts[0], data.labels == 0
    frozen = M2N2(fit_stride=1, threshold=1.0, detrend=False, adapt=False)
    adapting = M2N2(fit_stride=1, threshold=1.0, half_life="1h", lr=0.03)
    runs = []
    for name, detector in (("Frozen", frozen), ("Adapting", adapting)):
        verdicts = detector.fit(data.train, times=data.train_times).run(data.test)
        flagged = verdicts.anomalous[after & normal].mean()
        f1 = metrics.f1(data.labels, verdicts.anomalous)
        remark = f"{flagged:.1%} of normal samples flagged after the shift · F1 {f1:.2f}"
        runs.append(plots.DetectorRun(name, remark, verdicts))
    adapting.reset()
    trend = np.empty_like(data.test)
    for start in range(0, len(trend), adapting.window_):
        window = slice(start, start + adapting.window_)
        adapting.run(data.test[window], flush=False)
        trend[window] = adapting.trend_
    return plots.compare(
        data,
        runs,
        channels=("temperature", "vibration"),
        trend=trend,
        changes=("level shift: the new normal", "dynamics change: cycles twice as fast"),
        heading="A generated plant",
        days=True,
    )


def _distance(axes: Axes, values: Floats | None) -> None:
    assert values is not None
    axes.plot(values, color=INK, linewidth=0.9)
    axes.axhline(1, color=FALSE, linewidth=1.3, linestyle="--")
    axes.set_ylim(0, None)
    axes.set_ylabel("distance", fontsize=SMALL, color=INK)


PICTURES: dict[str, Callable[[], Figure]] = {
    "method-trend": trend,
    "method-score": score,
    "method-learn": learn,
    "method-plant": plant,
    "method-channel": channel,
    "method-memories": memories,
    "method-committee": committee,
    "method-changes": changes,
    "method-decisions": decisions,
    "method-drift": drift,
}

if __name__ == "__main__":
    sys.exit(main())
