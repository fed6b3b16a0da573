"""`newnormal example`: files to try every command on."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from newnormal.cli.console import put
from newnormal.cli.options import argument, option
from newnormal.errors import ParameterError

if TYPE_CHECKING:
    from newnormal.datasets.synthetic.examples import ExampleTable

FILES = {
    "history.csv": "a week of a plant, a sample a minute: nothing is wrong",
    "live.csv": "the two days after it: two faults, and a change that stays",
    "labelled.csv": "four days with ten faults, which the column fault marks",
    "metrics.csv": "a week of eight machines, named in the column host",
    "metrics-live.csv": "the day after it: five fail together, and one alone",
}
COMMANDS = (
    "newnormal check history.csv",
    "newnormal fit history.csv -o plant.nn",
    "newnormal watch plant.nn live.csv --state plant.state",
    "newnormal alarms plant.state",
    "newnormal accept plant.state --change 1",
    "newnormal report plant.nn live.csv -o report.html",
    "newnormal evaluate plant.nn labelled.csv --label fault",
)
FLEET_COMMANDS = (
    "newnormal fit metrics.csv --by host -o plant.fleet",
    "newnormal watch plant.fleet metrics-live.csv --state fleet.state",
    "newnormal alarms fleet.state",
)
_UNITS = "temperature C, pressure bar, flow m3/h, power kW, vibration mm/s, level %"


def example(
    folder: Path = argument(
        "Where to write them; it is made.", metavar="FOLDER", shown="here", default=Path()
    ),
    force: bool = option("Replace files of these names that are there.", "--force", default=False),
    seed: int = option("Another number, another plant.", metavar="N", min=0, default=0),
) -> None:
    """Write files of a generated plant and of machines, and show what to do with them.

    newnormal example

    newnormal example try-it --seed 7
    """
    _check(folder, force)
    from newnormal.datasets.synthetic.examples import machines_example, plant_example

    plant, machines = plant_example(seed), machines_example(seed)
    tables = (*plant.values(), *machines.values())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in zip(FILES, tables, strict=True):
            (folder / name).write_text(
                "\n".join(_lines(table)) + "\n", encoding="utf-8", newline="\n"
            )
    except OSError as error:
        raise ParameterError(
            f"FOLDER: expected a folder that can be written, found {folder}: {error.strerror}",
            hint="newnormal example FOLDER",
        ) from error
    _report(folder)


def _check(folder: Path, force: bool) -> None:
    existing = [name for name in FILES if (folder / name).exists()]
    if existing and not force:
        raise ParameterError(
            f"{folder}: expected none of these files, found {', '.join(existing)}",
            hint="newnormal example FOLDER writes them elsewhere, --force replaces them",
        )


def _lines(table: "ExampleTable") -> Iterator[str]:
    hosts, faults = table.hosts, table.faults
    yield ",".join(
        [
            "time",
            *([] if hosts is None else ["host"]),
            *table.channels,
            *([] if faults is None else ["fault"]),
        ]
    )
    times = table.times.astype("datetime64[s]").astype(str).tolist()
    for row, (time, values) in enumerate(zip(times, table.values.tolist(), strict=True)):
        cells = [time, *([] if hosts is None else [hosts[row]])]
        cells += [f"{value:.4g}" for value in values]
        cells += [] if faults is None else [str(faults[row])]
        yield ",".join(cells)


def _report(folder: Path) -> None:
    here = folder == Path()
    width = max(map(len, FILES))
    put("wrote" if here else f"wrote into {folder}")
    for name, text in FILES.items():
        put(f"  {name:{width}}  {text}")
    put(f"\n{_UNITS}")
    put("\nTry one after the other:\n")
    if not here:
        put(f"  cd {shlex.quote(str(folder))}")
    for command in COMMANDS:
        put(f"  {command}")
    put("\nEight machines at once:\n")
    for command in FLEET_COMMANDS:
        put(f"  {command}")
