"""Every experiment by name, one or all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack

from newnormal.experiments.lab import Lab
from newnormal.experiments.plan import Asked, Plan

__all__ = ["ORDER", "write", "write_all"]

ORDER = (
    *("datasets", "main", "ablation", "everyone", "peers", "drift"),
    *("anoshift", "shift", "curves", "traces", "cost", "page"),
)
_NO_DATA = ("cost", "page")
_KEPT_NOWHERE = ("shift", "cost")


def write(name: str, lab: Lab, output: Path, **asked: Unpack[Asked]) -> tuple[Path, ...]:
    """Run an experiment, write its files into a folder, and return their paths.

    What is asked for narrows it where it can: no model takes part in ``shift``, say.
    """
    if name == "page":
        from newnormal.experiments.site import build

        return (build(output),)
    if name == "cost":
        from newnormal.experiments.cost import cost

        return cost(asked.get("models"), progress=lab.progress).write(output)
    if name == "datasets":
        from newnormal.experiments.described import describe

        return describe(lab.streams, datasets=asked.get("datasets")).write(output)
    if name == "shift":
        from newnormal.experiments.shift import shift

        found = shift(lab.streams, datasets=asked.get("datasets"), progress=lab.progress)
        return found.write(output)
    experiment: Callable[..., Any] = getattr(import_module(f"newnormal.experiments.{name}"), name)
    paths: tuple[Path, ...] = experiment(lab, **asked).write(output)
    return paths


def write_all(
    lab: Lab, output: Path, **asked: Unpack[Asked]
) -> Iterator[tuple[str, tuple[Path, ...] | Exception]]:
    """Run every experiment in turn; give its name and the paths of its files, or its error.

    AnoShift is left out where it was not found, and with a lab that does not compute ``shift`` and
    ``cost``, of which nothing is kept.
    """
    plan = Plan.of(lab, **asked)
    # What was asked for wrongly is an error now, and not once an experiment.
    plan.entrants(())
    plan.streams(())
    for name, datasets in list(_chosen(plan)):
        narrowed: Asked = {**asked, "datasets": datasets}
        result: tuple[Path, ...] | Exception
        try:
            result = write(name, lab, output, **narrowed)
        except Exception as error:  # noqa: BLE001 - one that fails must not lose the others
            result = error
        yield name, result


def _chosen(plan: Plan) -> Iterator[tuple[str, Sequence[str] | None]]:
    """Give the experiments to run, each with the streams to run it on; None: as usual."""
    everything = plan.datasets is None
    names = plan.lab.streams.places if plan.datasets is None else plan.datasets
    years = [name for name in names if name.lower().startswith("anoshift")]
    others = [name for name in names if name not in years]
    for name in ORDER:
        mine = years if name == "anoshift" else others
        usual = everything and name != "anoshift"  # which says where to get what is not there
        if not mine and not usual and name not in _NO_DATA:
            continue
        if plan.lab.compute or name not in _KEPT_NOWHERE:
            yield name, None if everything else mine
