"""A spoilt folder of a service that was killed is refused in a sentence, or nothing of it differs.

Where something is told otherwise, `newnormal serve verify` names what is damaged. `make soak` tries
2,000 mutations of each file.
"""

import os
import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from newnormal.engine.applying import Applier
from newnormal.engine.checkpoints import save_checkpoint
from newnormal.engine.log.entries import pack
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.store.checking import check
from newnormal.engine.values import Comment
from newnormal.errors import StateError
from tests.fuzz.children import in_process
from tests.service.killing import contents, opened
from tests.service.stories import Story

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX: forked processes")
FILES = ["log.sqlite", "log.sqlite-wal", "log.sqlite-mark", "store.sqlite", "store.sqlite-wal"]
FILES += ["store.sqlite-mark", "models/*.nn"]
_PAGE = 4096


def told(applier: Applier) -> dict[str, Any]:
    """Return all that follows from the log, and what people wrote."""
    store = applier.store
    found = contents(applier)
    found["comments"] = {key: list(map(vars, store.items.comments(key))) for key in found["items"]}
    found["settings"] = store.settings.all("space")
    found["intact"] = store.settings.are_intact()
    return found


def go_on(story: Story, applier: Applier, log: SqliteLog, records: int) -> None:
    for _ in range(records):
        entries = story.record(applier)
        applier.apply(log.append(pack(entries)), entries)
        applier.store.commit()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a service that was killed some records after its last checkpoint."""
    running, folder = (tmp_path_factory.mktemp("service") / name for name in ("data", "killed"))
    log = SqliteLog(running / "log.sqlite")
    story = Story(5)
    with opened(running, log) as applier:
        go_on(story, applier, log, 60)
        save_checkpoint(applier)
        log.trim(20)
        log.settle()
        go_on(story, applier, log, 12)
        for at, key in enumerate(contents(applier)["items"]):
            applier.store.items.add_comment(Comment(key, at, "someone", "because"))
            applier.store.settings.put("space", key, {"at": at})
        shutil.copytree(running, folder)
    log.close()
    assert all(list(folder.glob(name)) for name in FILES)
    return folder


def spoil(folder: Path, name: str, rng: Random) -> str:
    """Spoil a file; return how."""
    path = rng.choice(sorted(folder.glob(name)))
    content = bytearray(path.read_bytes())
    size = len(content)
    kind = rng.choice(["bit"] * 6 + ["bits", "page", "zeroed", "cut", "longer", "gone", "noise"])
    if kind in ("bit", "bits", "page"):
        page = rng.randrange(0, size, _PAGE)  # heads of pages say what is in them
        near = range(page, min(size, page + 100)) if rng.random() < 0.5 else range(size)
        for _ in range(20 if kind == "bits" else 1):
            content[rng.choice(near)] ^= 1 << rng.randrange(8)
    elif kind == "zeroed":
        page = rng.randrange(0, size, _PAGE)
        content[page : page + _PAGE] = bytes(len(content[page : page + _PAGE]))
    elif kind == "cut":
        cuts = [0, 1, size // 2, size - 1, rng.randrange(size), rng.randrange(0, size, _PAGE)]
        del content[rng.choice(cuts) :]
    elif kind == "longer":
        content += rng.randbytes(rng.choice([1, 16, _PAGE]))
    elif kind == "noise":
        content[:] = rng.randbytes(size)
    path.unlink()
    if kind != "gone":
        path.write_bytes(content)
    return f"{kind} of {path.name}"


def outcome(folder: Path, expected: dict[str, Any]) -> str:
    """Start on a folder, and return what came of it."""
    warnings.simplefilter("ignore")
    try:
        log = SqliteLog(folder / "log.sqlite")
        with opened(folder, log) as applier:
            found = told(applier)
    except StateError as error:
        is_sentence = bool(error.hint) and len(error.message) > 20
        return "refused" if is_sentence else f"refused, but not in a sentence: {error.message}"
    different = [part for part in expected if repr(found[part]) != repr(expected[part])]
    return f"told otherwise: {', '.join(different)}" if different else "harmless"


@pytest.mark.cases(12, 2_000)
@pytest.mark.parametrize("name", FILES)
def test_damage_is_refused_harmless_or_found(
    killed: Path,
    tmp_path: Path,
    name: str,
    cases: range,
    record_property: Callable[[str, object], None],
) -> None:
    def case(index: int) -> str:
        target = tmp_path / str(index)
        shutil.copytree(killed, target)
        how = spoil(target, name, Random(f"{name} {index}"))
        found = in_process(partial(outcome, target, expected))
        if found not in ("refused", "harmless"):
            shutil.rmtree(target)
            shutil.copytree(killed, target)
            spoil(target, name, Random(f"{name} {index}"))
            assert found.startswith("told otherwise"), f"{how} {index}: {found}"
            assert not check(target).ok, f"{how} {index}: {found}"
            found = "found"
        shutil.rmtree(target)
        return found

    whole = tmp_path / "whole"
    shutil.copytree(killed, whole)
    with opened(whole, SqliteLog(whole / "log.sqlite")) as applier:
        expected = told(applier)
    outcomes = Counter(map(case, cases))
    record_property("found", ", ".join(f"{outcomes[each]} {each}" for each in sorted(outcomes)))
