"""Runs that start from golden state files give what was recorded, whole and in pieces.

Where processor, NumPy, Numba and LLVM are those of the record: bit for bit. Elsewhere scores and
thresholds may differ by 1e-3 relative, and masks and events only at ties.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from tests.golden.make_runs import CASES, Case, machine, run
from tests.golden.recorded import recorded

PIECES = {"whole": (), "pieces": (1, 2, 7, 64, 65, 240, 512, 700), "steps": tuple(range(1, 400))}


def record(case: Case) -> dict[str, Any]:
    with np.load(recorded(f"{case.name}.npz")) as kept:
        return {name: kept[name] for name in kept.files}


def difference(name: str, ref: Any, comp: Any) -> str:
    """Return which column and which sample differ first, or nothing."""
    ref, comp = np.asarray(ref), np.asarray(comp)
    if ref.shape != comp.shape:
        return f"{name}: expected shape {ref.shape}, found {comp.shape}"
    kind = ref.dtype.kind
    same = (ref == comp) | ((ref != ref) & (comp != comp)) if kind == "f" else ref == comp
    if same.all():
        return ""
    at = int(np.argwhere(~np.atleast_1d(same))[0][0])
    ref, comp = np.atleast_1d(ref), np.atleast_1d(comp)
    return f"{name}: sample {at}: expected {ref[at]!r}, found {comp[at]!r}"


def close(ref: Any, comp: Any) -> bool:
    return bool(np.allclose(ref, comp, rtol=1e-3, equal_nan=True))


def golden(case: Case) -> Path:
    """Return the state file of a case."""
    return recorded(f"{case.name}.nn")


@pytest.mark.parametrize("pieces", PIECES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_from_a_golden_state_gives_what_was_recorded(case: Case, pieces: str) -> None:
    ref = record(case)
    comp = run(newnormal.load(golden(case)), case, PIECES[pieces])
    if json.loads(str(ref.pop("machine"))) == machine():
        assert [found for name in ref if (found := difference(name, ref[name], comp[name]))] == []
        return
    for name in ("scores", "thresholds", "expected_sum"):
        assert close(ref[name], comp[name]), difference(name, ref[name], comp[name])
    ties = np.isclose(ref["scores"], ref["thresholds"], rtol=1e-3)
    assert (ref["anomalous"] == comp["anomalous"])[~ties].all()
    if not ties.any():
        kinds = [[e["event"] for e in json.loads(str(each["events"]))] for each in (ref, comp)]
        assert kinds[0] == kinds[1]


@pytest.mark.parametrize("pieces", ["pieces", "steps"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_in_pieces_is_the_whole_run(case: Case, pieces: str) -> None:
    path = golden(case)
    ref, comp = (run(newnormal.load(path), case, PIECES[each]) for each in ("whole", pieces))
    assert [found for name in ref if (found := difference(name, ref[name], comp[name]))] == []
