"""A spoilt folder of a fleet is refused with a StateError, or it loads as it was.

Each case is a process of its own. `make soak` tries 1,000 of damage and 1,000 of wrong content
whose digests fit: those must not end the process by a signal.
"""

import os
import shutil
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from newnormal import Fleet, NewnormalError, StateError
from newnormal.fleet.folder.check import check
from tests.counts import count
from tests.fleets import fitted, tick
from tests.fuzz.folders import CHECKSUMMED, PLAIN, spoil, twin

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="needs POSIX: processes that are forked"),
]
SEED = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of 1,000 streams of mixed shapes, and of a log since."""
    fleet = Fleet(epochs=1, alarms_per_day=1.0)
    for kind, streams in (("narrow", 500), ("wide", 400), ("paper", 100)):
        detector = fitted(kind)
        for at in range(streams):
            fleet.add(f"{kind}-{at}", detector)
    path = tmp_path_factory.mktemp("fleet") / "whole"
    for number in range(28, 34):
        fleet.step(tick(fleet, number))
    fleet.save(path)
    opened = Fleet.open(path, every=4)
    for number in range(34, 38):
        opened.step(tick(opened, number))
    assert opened._log is not None and opened.alarms_
    opened._log.abandon()
    return path


def in_process(act: Callable[[], str]) -> str:
    """Return what a function returns in a forked process, or how that ended."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        try:
            found = act()
        except BaseException:  # noqa: BLE001 - the process must end here
            found = f"FAILED {traceback.format_exc()}"
        os.write(writer, found.encode()[:60_000])
        os._exit(0)
    os.close(writer)
    parts = []
    while part := os.read(reader, 65536):
        parts.append(part)
    os.close(reader)
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return f"FAILED signal {os.WTERMSIG(status)}"
    return b"".join(parts).decode()


def told(error: StateError) -> None:
    assert error.hint and len(error.message) > 20, error.message


def signature(fleet: Fleet) -> dict[str, tuple[bytes, int]]:
    return {s.name: (s.block.tobytes(), len(s.past or ())) for s in fleet._streams}


def at_positions(folder: Path) -> dict[int, dict[str, tuple[bytes, int]]]:
    """Return the fleet at each position of the log that it can be at."""
    fleet = Fleet.load(folder)
    return {fleet.position: signature(fleet)}


def outcomes_of(
    case: Callable[[], str], folder: Path, target: Path, kinds: Sequence[Callable[..., None]]
) -> dict[str, int]:
    """Spoil copies of a folder in some ways, and count what a case returns of them."""
    outcomes: dict[str, int] = {}
    for index in range(count(12, 1000)):
        twin(folder, target)
        how = spoil(target, kinds, SEED, index)
        found = in_process(case)
        assert not found.startswith("FAILED"), f"{how}: {found}"
        outcomes[found] = outcomes.get(found, 0) + 1
        shutil.rmtree(target)
    return outcomes


def test_damage_is_refused_or_makes_no_difference(folder: Path, tmp_path: Path) -> None:
    expected = at_positions(folder)
    streams = set(next(iter(expected.values())))
    target = tmp_path / "spoilt"

    def case() -> str:
        warnings.simplefilter("ignore")
        try:
            found = Fleet.load(target)
        except StateError as error:
            told(error)
            report = check(target)
            assert not report.ok and all(each.text for each in report.problems)
            named = {name for each in report.problems for name in each.streams}
            if report.streams:
                assert report.streams + len(named) == len(streams) or not named
            repaired = check(target, repair=True)
            if repaired.ok:
                again = Fleet.load(target)
                lost = streams - set(again.streams_)
                unnamed = "whose names are not known" in str(
                    report
                )  # the listing is spoilt as well
                assert lost <= named or unnamed, "streams are gone that were not named"
                return "repaired"
            return "refused"
        if found.position in expected:
            assert signature(found) == expected[found.position]
            return "equal"
        # The end of the log is gone: that cannot be seen, and it is a fleet of an earlier moment.
        assert set(found.streams_) == streams
        assert found.position < next(iter(expected))
        return "earlier"

    outcomes = outcomes_of(case, folder, target, PLAIN)
    assert outcomes["equal"] and outcomes["repaired"], outcomes


def test_wrong_content_with_fitting_digests_ends_nothing(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "spoilt"

    def case() -> str:
        warnings.simplefilter("ignore")
        try:
            found = Fleet.load(target)
        except StateError as error:
            told(error)
            return "refused"
        for number in range(3):
            try:
                found.step(tick(found, 1000 + number))
            except NewnormalError:
                return "refused later"
        return "works"

    outcomes = outcomes_of(case, folder, target, CHECKSUMMED)
    assert outcomes["refused"], outcomes
