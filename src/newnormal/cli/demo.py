"""`newnormal demo`: an untuned detector beside a frozen one, on a generated plant."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newnormal.cli.bars import compile_first, fit_progress, progress
from newnormal.cli.console import accept_after_text, print_notes, print_table, put, say
from newnormal.cli.options import option
from newnormal.texts import share_text

if TYPE_CHECKING:
    from newnormal.metrics import Evaluation
    from newnormal.types import Event

FROZEN, OURS = "frozen autoencoder", "Detector()"
COLUMNS = (
    "events found",
    "false alarms a day",
    "median delay",
    "normal time in alarm",
    "with a change pending",
)


def demo(
    seed: int = option("Another plant.", metavar="N", min=0, default=0),
    output: Path = option(
        "The page: .html.", "--output", "-o", metavar="FILE", default=Path("newnormal-demo.html")
    ),
) -> None:
    """Show what an untuned detector reports of a generated plant: a table, its words, and a page.

    In two live weeks the plant is retuned twice, and has 48 labelled faults. The paper's
    autoencoder, frozen, is the row above it.
    """
    from newnormal import M2N2, Detector
    from newnormal.alarms.words import Deciding, event_note
    from newnormal.cli.evaluate import measure
    from newnormal.datasets import plant
    from newnormal.reports.writing import Contents, check_target, report
    from newnormal.tabular import Table

    check_target(output)
    compile_first("demo")
    data = plant(seed)
    assert data.train_times is not None and data.test_times is not None
    history = Table(data.train, data.channels, data.train_times.astype("M8[ns]"))
    live = Table(data.test, data.channels, data.test_times.astype("M8[ns]"), data.labels)
    detector, rows = Detector(seed=seed), dict[str, dict[str, Any]]()
    for name, candidate in (
        (FROZEN, M2N2(detrend=False, adapt=False, seed=seed)),
        (OURS, detector),
    ):
        say(f"{name}: fitting a week of history, judging two weeks ...")
        with fit_progress() as callbacks:
            candidate.fit(history, **callbacks)
        with progress("judging", len(live.values)) as on_samples:
            evaluation, verdicts = measure(candidate, live, data.labels, on_samples=on_samples)
        rows[name] = _row(evaluation)
    print_table("Two live weeks of a plant that is retuned twice", "", COLUMNS, rows)
    assert verdicts.observed is not None
    deciding = Deciding(accept_after=accept_after_text(detector, detector.period_))
    put("\nWhat Detector() reports of the first fault, and of what became normal:\n")
    print_notes(event_note(event, deciding) for event in story(verdicts.observed.events))
    contents = Contents.of(verdicts, f"a generated plant judged by {OURS}")
    report(contents, output)
    say(f"\nwrote {output}: {contents.summary()}; open it in a browser")
    say("next: newnormal fit HISTORY.csv -o plant.nn; newnormal example writes files to try it on")


def _row(evaluation: "Evaluation") -> dict[str, str]:
    from newnormal.metrics.evaluation import delay_text

    counts = evaluation.alarms
    delay = delay_text(counts.median_delay, evaluation.seconds) if counts.found else "-"
    cells = (
        f"{counts.found} of {counts.events}",
        f"{counts.false_per_day:.1f}",
        "at once" if counts.median_delay == 0 else delay,
        share_text(counts.in_alarm_share),
        share_text(counts.pending_share),
    )
    return dict(zip(COLUMNS, cells, strict=True))


def story(events: "Sequence[Event]") -> "Iterator[Event]":
    """Yield the events of the first alarm, and of accepted changes with their alarms."""
    from newnormal.types import ACCEPTED, CHANGED

    changes = {event.change.number for event in events if event.kind == ACCEPTED and event.change}
    alarms = {
        event.alarm.number
        for event in events
        if event.alarm and event.change and event.kind == CHANGED and event.change.number in changes
    }
    for event in events:
        if event.change is not None:
            wanted = event.change.number in changes
        else:
            wanted = event.alarm is not None and event.alarm.number in alarms | {1}
        if wanted:
            yield event
