"""The two decisions about a score: their truth table, and that they are made in one place."""

import ast
import math
from pathlib import Path
from typing import Any

import pytest

import newnormal
from newnormal.kernels.decision import decide

KERNELS = Path(newnormal.__file__).parent / "kernels"
INF, NAN = math.inf, math.nan

TRUTH = [
    # score, threshold, anomalous, learnable
    (0.9, 1.0, False, True),
    (1.0, 1.0, True, False),
    (1.1, 1.0, True, False),
    (0.0, 0.0, True, False),
    (0.0, 5e-324, False, True),
    (math.nextafter(1.0, 0.0), 1.0, False, True),
    (1e300, INF, False, True),
    (0.0, INF, False, True),
    (INF, INF, True, False),
    (0.0, -INF, True, False),
    (NAN, 1.0, False, False),
    (NAN, INF, False, False),
    (NAN, -INF, False, False),
]
TWO_THRESHOLDS = [
    # score, alarm_threshold, learn_threshold, anomalous, learnable
    (0.5, 2.0, 1.0, False, True),
    (1.0, 2.0, 1.0, False, False),  # between the two: neither
    (1.5, 2.0, 1.0, False, False),
    (2.0, 2.0, 1.0, True, False),
    (3.0, 2.0, 1.0, True, False),
    (0.5, 1.0, 2.0, False, True),
    (1.0, 1.0, 2.0, True, True),  # the budget has sunk below what was accepted: both
    (1.5, 1.0, 2.0, True, True),
    (2.0, 1.0, 2.0, True, False),
    (1.0, INF, -INF, False, False),
    (1.0, -INF, INF, True, True),
    (NAN, 2.0, 1.0, False, False),
    (NAN, 1.0, 2.0, False, False),
    (NAN, -INF, INF, False, False),
]


@pytest.mark.parametrize(
    ("score", "alarm", "learn", "anomalous", "learnable"),
    [*((score, each, each, *both) for score, each, *both in TRUTH), *TWO_THRESHOLDS],
)
def test_the_truth_table_of_a_score_and_one_or_two_thresholds(
    score: float, alarm: float, learn: float, anomalous: bool, learnable: bool
) -> None:
    python: Any = decide
    # As compiled, and as Python reads it.
    assert tuple(decide(score, alarm, learn)) == (anomalous, learnable)
    assert tuple(python.py_func(score, alarm, learn)) == (anomalous, learnable)


def test_the_loop_compares_nothing_with_a_threshold_and_no_other_module_knows_of_both() -> None:
    """In the loop the thresholds may only be handed to the decision."""
    tree = ast.parse((KERNELS / "step.py").read_text())
    handed = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.BinOp | ast.UnaryOp):
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            names |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
            assert not any("threshold" in name for name in names), ast.unparse(node)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "decide":
            handed += 1
    assert handed == 2  # once for each: nobody decides twice
    for path in (KERNELS / "mlp.py", KERNELS / "training.py"):
        names = {
            node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)
        }
        assert not names & {"threshold", "alarm_threshold", "learn_threshold", "tau", "decide"}
