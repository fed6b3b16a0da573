"""After a kill, checkpoint and log give what the same log gives without one."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from newnormal.engine.applying import Applier
from newnormal.engine.checkpoints import save_checkpoint
from newnormal.engine.log.entries import pack
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.fleet import Fleet
from tests.service.killing import assert_same, contents, opened, replayed
from tests.service.seeds import each_seed
from tests.service.stories import Story


class Killed(Exception):  # noqa: N818
    """In the place of a kill."""


def live(
    story: Story,
    applier: Applier,
    log: SqliteLog,
    records: int,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Log and apply records, with checkpoints, until a kill."""
    for _ in range(records):
        entries = story.record(applier)
        position = log.append(pack(entries))
        if rng.random() < 0.05:
            raise Killed  # logged, not applied
        applier.apply(position, entries)
        if rng.random() < 0.05:
            raise Killed  # applied, not kept
        applier.store.commit()
        if rng.random() < 0.15:
            if rng.random() < 0.2:
                with monkeypatch.context() as patched:
                    patched.setattr(Fleet, "checkpoint", killed)
                    save_checkpoint(applier)
            save_checkpoint(applier)
        if rng.random() < 0.05:
            raise Killed


def killed(*_: object) -> None:
    raise Killed


@pytest.mark.cases(8, 200)
def test_after_kills_everything_is_as_the_uninterrupted_log_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: range
) -> None:
    def case(seed: int) -> None:
        folder = tmp_path / str(seed)
        folder.mkdir()
        compare(seed, folder, monkeypatch)
        shutil.rmtree(folder)

    each_seed(cases, case)


def compare(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    folder = tmp_path / "data"
    folder.mkdir()
    log = SqliteLog(tmp_path / "log.sqlite", sync=False)
    story = Story(seed, jumps=seed % 2 == 0)
    kills = 0
    while log.last < 120:
        with opened(folder, log) as applier:
            try:
                live(story, applier, log, 120 - log.last, rng, monkeypatch)
            except Killed:
                kills += 1
    with opened(folder, log) as applier:
        found = contents(applier)
    log.close()
    assert kills and found["events"]
    again = tmp_path / "again"
    again.mkdir()
    assert_same(found, replayed(tmp_path / "log.sqlite", folder / "models", again))
