"""A spoilt state file is refused with a StateError, or it loads and the detector works.

No other exception, no signal, no hang; within a second of processor time and 500 MB.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import newnormal
from newnormal import StateError
from newnormal.state import VERSION
from tests.fuzz.children import CHECKED, told, tried
from tests.fuzz.envelope import pack, parts_of
from tests.fuzz.mutations import GOLDEN, spoilt

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX: limits of a process")
MODULE = "tests.fuzz.load_case"
SEED = 9


def described(seed: int, index: int) -> str:
    return spoilt(seed, index)[1]


@pytest.mark.parametrize("name", ["state_v1", "runs/alarm", "runs/m2n2-plain"])
def test_a_file_taken_apart_and_put_together_loads(name: str, tmp_path: Path) -> None:
    content = (GOLDEN / f"{name}.nn").read_bytes()
    path = tmp_path / "plant.nn"
    path.write_bytes(pack(parts_of(content)))
    newnormal.load(path)
    newnormal.load(path).save(path)
    path.write_bytes(pack(parts_of(path.read_bytes())))
    newnormal.load(path)


def test_the_version_is_covered_by_the_digest(tmp_path: Path) -> None:
    path = tmp_path / "plant.nn"
    newnormal.load(GOLDEN / "runs" / "alarm.nn").save(path)
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    wrong = content[:header].replace(
        rf"\"version\":{VERSION}".encode(), rf"\"version\":{VERSION - 1}".encode()
    )
    assert wrong != content[:header]
    path.write_bytes(wrong + content[header:])
    with pytest.raises(StateError, match="is truncated or corrupted"):
        newnormal.load(path)


@pytest.mark.cases(150, 6_000)
def test_spoilt_files_are_refused_or_usable(cases: range) -> None:
    found = tried(MODULE, SEED, cases, describe=described)
    assert not found.bad, told(found)
    assert found.outcomes["refused"] > len(cases) / 4
    assert found.outcomes["loaded"] > len(cases) / 20


@pytest.mark.cases(40, 2_500)
def test_spoilt_files_reach_no_place_outside_an_array(cases: range) -> None:
    """The same with kernels that check every index."""
    found = tried(MODULE, SEED + 1, cases, environment=CHECKED, describe=described)
    assert not found.bad, told(found)
