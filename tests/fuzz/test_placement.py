"""Kernels give the same bits wherever their arrays lie and whatever fresh memory holds."""

import os
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.counts import count
from tests.fuzz.paths import case_of, difference, followed, fresh, quiet
from tests.fuzz.placing import arrays_of, place, placed
from tests.processes import python

SEED = 11
ROOT = Path(__file__).parents[2]
# Sums over many channels are those that a compiler takes in another order where it cannot rule out
# that arrays overlap. At 20 channels 2 cases of 1,000 differed in the last bit in 9580e3c.
WIDE = ("wide", "wider")


def test_every_array_of_a_detector_is_moved_and_keeps_its_values() -> None:
    detector = fresh("budget")
    detector.run(case_of(SEED, 0).values[:, :1].repeat(2, axis=1)[:50], flush=False)
    before = {id(array): array for array in arrays_of(detector)}
    content = sorted(array.tobytes() for array in before.values())
    tensors = {name: each.tobytes() for name, each in detector.to_state().tensors.items()}
    place(detector, Random(1))
    after = arrays_of(detector)
    assert len(before) > 20
    moved = [array for array in after if array.size and id(array) not in before]
    assert len(moved) == sum(array.size > 0 for array in before.values())
    assert sorted(array.tobytes() for array in after) == content
    assert all(array.flags.aligned for array in after)
    assert any(array.ctypes.data % 64 for array in after)
    assert {name: each.tobytes() for name, each in detector.to_state().tensors.items()} == tensors


@pytest.mark.cases(12, 1_000)
def test_the_place_of_arrays_changes_no_bit(cases: range) -> None:
    found = []
    with quiet():
        for index in cases:
            case = case_of(SEED, index, WIDE if index % 2 else ())
            random = Random(index)
            ref = followed(case, "run", fresh(case.name))
            for way in ("run", "step", "pieces"):
                detector = place(fresh(case.name), random)
                comp = followed(case, way, detector, placed(random))
                found += [
                    f"case {index} ({case.name}), {way}: {text}"
                    for name in ref
                    if (text := difference(name, ref[name], comp[name]))
                ]
    assert not found, "\n".join(found[:20])


def digests(perturb: str | None, cases: range) -> list[str]:
    environment = {key: value for key, value in os.environ.items() if key != "MALLOC_PERTURB_"}
    if perturb is not None:
        environment["MALLOC_PERTURB_"] = perturb
    done = python(
        "-m", "tests.fuzz.memory_case", SEED, cases.start, cases.stop, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc's MALLOC_PERTURB_")
@pytest.mark.cases(10, 300)
def test_what_fresh_memory_holds_changes_no_bit(cases: range) -> None:
    """glibc fills memory that is given out, and what is given back, with a byte of our choice."""
    values = ["1", "85", "127", "128", "255"][: count(2, 5)]
    ref = digests(None, cases)
    assert len(ref) == 3 * len(cases)
    for value in values:
        for one, two in zip(ref, digests(value, cases), strict=True):
            assert one == two, f"MALLOC_PERTURB_={value}: {_first(one, two)}"


def _first(one: str, two: str) -> str:
    pairs = zip(one.split("; "), two.split("; "), strict=True)
    return next(f"{a} is not {b}" for a, b in pairs if a != b) + f" in {one.partition(':')[0]}"


@pytest.mark.cases(5, 100)
def test_an_input_may_lie_anywhere(cases: range) -> None:
    with quiet():
        for index in cases:
            case = case_of(SEED + 1, index)
            ref = fresh(case.name).run(case.values, flush=True)
            room = np.empty(case.values.nbytes + 64, np.uint8)
            at = Random(index).randrange(0, 64, 8)
            moved = room[at : at + case.values.nbytes].view(np.float64).reshape(case.values.shape)
            moved[...] = case.values
            comp = fresh(case.name).run(moved, flush=True)
            assert difference("scores", ref.scores, comp.scores) == ""
            reverse = np.asfortranarray(case.values)[:, :]
            comp = fresh(case.name).run(reverse, flush=True)
            assert difference("scores", ref.scores, comp.scores) == ""
