"""Faults with known truth: every word and number that `Detector` reports, compared with it.

Everything is generated: no data are needed. ``python -m newnormal_reproduce.ours.truth`` prints the
table of one seed and stores nothing, for work on the detector.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path

from newnormal.errors import ParameterError
from newnormal_reproduce.engine.files import csv_text, write_texts
from newnormal_reproduce.engine.fingerprint import code_of
from newnormal_reproduce.engine.published import SEEDS
from newnormal_reproduce.engine.sweep import Failure, Progress, sweep
from newnormal_reproduce.ours import truth_page
from newnormal_reproduce.ours.truth_cases import SITUATIONS, Score, scores_of
from newnormal_reproduce.ours.truth_results import ROWS, TruthResults
from newnormal_reproduce.ours.truth_streams import KINDS, Place, places

_SEEDS = SEEDS[:3]
_DRAWS = 4  # cases of each situation at each place
_OURS = "newnormal_reproduce.ours.truth"
_CODE = ("newnormal.detector", "newnormal.types.alarms", f"{_OURS}_cases", f"{_OURS}_streams")


@dataclass(frozen=True, eq=False)
class Truth:
    """The results, and the error of each place that failed."""

    results: TruthResults
    failures: dict[str, str]
    command: str  # runs it again

    def markdown(self) -> str:
        """Return the page."""
        return truth_page.page_of(self.results, self.failures, self.command)

    def csv(self) -> str:
        """Return a line for each row of each place, and one for each failure."""
        columns = ("status", *Place._fields, "row", "cases", "figure", "note")
        lines: list[dict[str, object]] = []
        for place in dict.fromkeys(score.place for score in self.results.scores):
            for row in ROWS:
                values = self.results.values(row, **place._asdict())
                where = {"status": "ok", **place._asdict(), "row": row.name}
                if values:
                    lines.append({**where, "cases": len(values), "figure": row.figure(values)})
        lines += [{"status": "failed", "note": f"{it}: {why}"} for it, why in self.failures.items()]
        return csv_text(columns, lines)

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write page, table and picture into a folder, and return their paths."""
        folder = Path(folder)
        texts = {"truth.md": self.markdown(), "truth.csv": self.csv()}
        return (*write_texts(folder, texts), *truth_page.draw(self.results, folder))


def truth(
    datasets: Sequence[str] | None = None,
    *,
    seeds: Sequence[int] | None = None,
    draws: int = _DRAWS,
    processes: int = 1,
    progress: Progress | None = None,
    cache: Path | None = None,
    compute: bool = True,
) -> Truth:
    """Plant faults in generated streams, and compare what `Detector` reports with the truth.

    Parameters
    ----------
    datasets
        Only these: a kind of stream such as ``"load"``, or ``"load-3"`` with its channels; None:
        everything.
    seeds
        Of the streams and of the fit; None: 2021 to 2023.
    draws
        Cases of each situation at each place.
    processes
        How many processes to use.
    progress
        Called with how many places are done, how many there are, and which was done last.
    cache
        Folder of stored results, of which nothing is computed again; None: nothing is stored.
    compute
        Whether to compute what is not stored; if not, the results leave it out.
    """
    numbers = _SEEDS if seeds is None else tuple(seeds)
    tasks = _chosen(datasets, [place for seed in numbers for place in places(seed)])
    done = 0

    def on_done(place: Place) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(tasks), str(place))

    results, failures = TruthResults(), dict[str, str]()
    work = partial(_stored, cache, draws, compute)
    for result in sweep(work, tasks, processes=processes, on_done=on_done):
        if isinstance(result, Failure):
            failures[str(result.task)] = result.error
        else:
            results = results + result
    command = "newnormal reproduce truth"
    if datasets is not None:
        command += f" --datasets {','.join(datasets)}"
    if numbers != _SEEDS:
        command += f" --seeds {','.join(map(str, numbers))}"
    return Truth(results, failures, command)


def run_place(
    place: Place, draws: int = _DRAWS, situations: Iterable[str] = SITUATIONS
) -> TruthResults:
    """Run some cases of each situation at a place; cases of a place share its fit."""
    found = (score for name in situations for score in scores_of(place, name, draws))
    return TruthResults(tuple(found))


def _chosen(wanted: Sequence[str] | None, every: list[Place]) -> list[Place]:
    if wanted is None:
        return every
    names = {name for place in every for name in (place.kind, f"{place.kind}-{place.channels}")}
    for text in wanted:
        if text not in names:
            raise ParameterError(
                f"datasets: expected a kind of stream, found {text!r}",
                hint=f"such as {', '.join(KINDS)}, or load-3 with its channels",
            )
    return [
        place for place in every if {place.kind, f"{place.kind}-{place.channels}"} & set(wanted)
    ]


def _stored(cache: Path | None, draws: int, compute: bool, place: Place) -> TruthResults:
    """Read the results of a place, or run it and store them."""
    if cache is None:
        return run_place(place, draws)
    key = hashlib.sha256(f"{code_of(*_CODE)} {draws}".encode()).hexdigest()[:20]
    path = cache / "truth" / f"{'-'.join(map(str, place))}-{key}.json"
    try:
        scores = json.loads(path.read_text(encoding="utf-8"))
        return TruthResults(tuple(Score(row, place, value) for row, value in scores))
    except (OSError, ValueError):
        if not compute:
            return TruthResults()
    results = run_place(place, draws)
    write_texts(cache, {".gitignore": "*\n"})
    text = json.dumps([(score.row, score.value) for score in results.scores])
    (part,) = write_texts(path.parent, {f".{path.name}.part": text})
    part.replace(path)
    return results


def _main() -> None:
    parser = argparse.ArgumentParser(description="Print the table of one seed.")
    parser.add_argument("--cases", type=int, default=96, help="of each row, over all places")
    parser.add_argument("--seed", type=int, default=2021)
    parser.add_argument("--situations", default=",".join(SITUATIONS))
    parser.add_argument("--datasets", default=",".join(KINDS), help="such as load or load-3")
    asked = parser.parse_args()
    chosen = _chosen(asked.datasets.split(","), places(asked.seed))
    draws, results = -(-asked.cases // len(chosen)), TruthResults()
    for place in chosen:
        results += run_place(place, draws, asked.situations.split(","))
    for header, lines in (truth_page.every_of(results), truth_page.parts_of(results)):
        width = max(len(line[0]) for line in lines)
        for first, *cells in (header, *lines):
            sys.stdout.write(f"{first:<{width}}{''.join(f'{cell:>8}' for cell in cells)}\n")


if __name__ == "__main__":
    _main()
