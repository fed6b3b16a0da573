"""The data sets: sizes, features and share of anomalies beside table:Data_Description."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from newnormal_reproduce.engine.files import csv_text, write_texts
from newnormal_reproduce.engine.plan import command, find_streams
from newnormal_reproduce.engine.published import dataset_size, settings
from newnormal_reproduce.engine.streams import SYNTHETIC, DataStream, DataStreams, Roots
from newnormal_reproduce.engine.sweep import Progress
from newnormal_reproduce.report.pages import table, texts

_TEXT = texts("datasets")
_SIZES = ("train", "test", "features", "anomalous")


@dataclass(frozen=True)
class DatasetTable:
    """The data sets that were found, and where to get the others."""

    streams: Sequence[DataStream]
    not_run: Mapping[str, str]
    command: str

    def markdown(self) -> str:
        """Return the page."""
        names = [setting.name for setting in settings()]
        header = ["data set"]
        for part in ("train", "test", "features", "anomalous share"):
            header += [part, "paper"]
        ours = {stream.name: stream for stream in self.streams}
        lines = []
        for name in names:
            paper = dataset_size(name) or {}
            if name in ours:
                lines.append([name, *_beside(ours[name], paper)])
            elif name in self.not_run:
                wanted = (paper[key] for key in _SIZES)
                lines.append([name, *(cell for value in wanted for cell in ("-", value))])
        parts = [_TEXT["introduction"].format(command=self.command), table(header, lines)]
        if others := [stream for stream in self.streams if stream.name not in names]:
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

        def row(name: str, **cells: str) -> dict[str, str]:
            paper = dataset_size(name) or {}
            printed = {f"paper_{size}": paper[size] for size in _SIZES if size in paper}
            return {"dataset": name, **printed, **cells}

        columns = ["status", "dataset", *_SIZES, *(f"paper_{size}" for size in _SIZES), "note"]
        rows = [
            row(stream.name, status="ok", **dict(zip(_SIZES, _sizes(stream), strict=True)))
            for stream in self.streams
        ]
        missing = self.not_run.items()
        return csv_text(
            columns, [*rows, *(row(name, status="absent", note=why) for name, why in missing)]
        )

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write ``datasets.md`` and ``datasets.csv`` into a folder, and return their paths."""
        texts = {"datasets.md": self.markdown(), "datasets.csv": self.csv()}
        return write_texts(Path(folder), texts)


def dataset_table(
    roots: Roots | DataStreams,
    *,
    datasets: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> DatasetTable:
    """Read every data set that is found, and return their sizes.

    Of the names None: the paper's, all others found, and the synthetic streams.
    """
    streams = roots if isinstance(roots, DataStreams) else DataStreams(roots)
    usual = [*(setting.name for setting in settings()), *streams.places, *SYNTHETIC]
    names = streams.chosen(datasets, list(dict.fromkeys(usual)))
    requested = find_streams(streams, names, progress)
    return DatasetTable(*requested, command("datasets", datasets=datasets))


def _sizes(stream: DataStream) -> list[str]:
    share = stream.anomalous / stream.test
    return [str(stream.train), str(stream.test), str(stream.channels), f"{share:.3g}"]


def _beside(stream: DataStream, paper: Mapping[str, str]) -> list[str]:
    cells = []
    for ours, key in zip(_sizes(stream), _SIZES, strict=True):
        same = abs(float(ours) - float(paper[key])) <= 0.005 * float(paper[key])
        same = same if key == "anomalous" else ours == paper[key]
        cells += [ours if same else f"**{ours}**", paper[key]]
    return cells
