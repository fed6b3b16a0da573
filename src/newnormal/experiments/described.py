"""The data sets: sizes, features, share of anomalies beside table:Data_Description."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from newnormal.experiments.experiment import write_texts
from newnormal.experiments.page import table
from newnormal.experiments.paper import described, settings
from newnormal.experiments.plan import command, find_streams
from newnormal.experiments.streams import SYNTHETIC, Roots, Stream, Streams

__all__ = ["Description", "describe"]

_INTRODUCTION = """\
# The data sets

Sizes as read by newnormal beside the paper's (table:Data_Description); a difference is **bold**.
The paper prints the share of anomalies of SMD (M-1-4) as 0.0304%: it is 0.0304.
Made by `{command}`.

## The paper's nine
"""


@dataclass(frozen=True)
class Description:
    """What was found, and where to get what was not."""

    streams: Sequence[Stream]
    not_run: Mapping[str, str]
    command: str

    def markdown(self) -> str:
        """Return the page."""
        names = [setting.name for setting in settings()]
        header = ["data set"]
        for part in ("train", "test", "features", "anomalous share"):
            header += [part, "paper"]
        mine = {stream.name: stream for stream in self.streams}
        lines = []
        for name in names:
            paper = described(name) or {}
            if name in mine:
                lines.append([name, *_beside(mine[name], paper)])
            elif name in self.not_run:
                wanted = (paper[key] for key in ("train", "test", "features", "anomalous"))
                lines.append([name, *(cell for value in wanted for cell in ("-", value))])
        parts = [_INTRODUCTION.format(command=self.command), table(header, lines)]
        others = [stream for stream in self.streams if stream.name not in names]
        if others:
            parts += [
                "## Others\n",
                table(
                    ("data set", "train", "test", "features", "anomalous share"),
                    [[stream.name, *_sizes(stream)] for stream in others],
                ),
            ]
        if self.not_run:
            parts += ["## Not found\n", table(("data set", "why"), self.not_run.items())]
        return "\n".join(parts)

    def csv(self) -> str:
        """Return a line a data set."""
        text = io.StringIO()
        sheet = csv.writer(text, lineterminator="\n")
        ours = ["train", "test", "features", "anomalous"]
        sheet.writerow(["status", "dataset", *ours, *(f"paper_{each}" for each in ours), "note"])
        for stream in self.streams:
            paper = described(stream.name) or {}
            sheet.writerow(
                [
                    "ok",
                    stream.name,
                    *_sizes(stream),
                    *(paper.get(each, "") for each in ours),
                    "",
                ]
            )
        for name, why in self.not_run.items():
            paper = described(name) or {}
            cells = ["", "", "", "", *(paper.get(each, "") for each in ours)]
            sheet.writerow(["absent", name, *cells, why])
        return text.getvalue()

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write ``datasets.md`` and ``datasets.csv`` into a folder, and return their paths."""
        texts = {"datasets.md": self.markdown(), "datasets.csv": self.csv()}
        return write_texts(Path(folder), texts)


def describe(roots: Roots | Streams, *, datasets: Sequence[str] | None = None) -> Description:
    """Read every data set under the given folders and count what is in it."""
    streams = roots if isinstance(roots, Streams) else Streams(roots)
    usual = [*(setting.name for setting in settings()), *streams.places, *SYNTHETIC]
    found = find_streams(streams, streams.chosen(datasets, list(dict.fromkeys(usual))))
    return Description(found.streams, found.not_run, command("datasets", datasets=datasets))


def _sizes(stream: Stream) -> list[str]:
    share = stream.anomalous / stream.test
    return [str(stream.train), str(stream.test), str(stream.channels), f"{share:.3g}"]


def _beside(stream: Stream, paper: Mapping[str, str]) -> list[str]:
    cells = []
    for ours, key in zip(_sizes(stream), ("train", "test", "features", "anomalous"), strict=True):
        same = abs(float(ours) - float(paper[key])) <= 0.005 * float(paper[key])
        same = same if key == "anomalous" else ours == paper[key]
        cells += [ours if same else f"**{ours}**", paper[key]]
    return cells
