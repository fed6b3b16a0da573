"""The two decisions about a score: their truth table, and that they are made in one place."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import Any

import pytest

import newnormal
from newnormal.kernels.decision import is_anomalous, is_learnable

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


@pytest.mark.parametrize(("score", "threshold", "anomalous", "learnable"), TRUTH)
def test_the_truth_table_of_a_score_and_a_threshold(
    score: float, threshold: float, anomalous: bool, learnable: bool
) -> None:
    python: Any = (is_anomalous, is_learnable)
    # As compiled, and as Python reads it.
    assert bool(is_anomalous(score, threshold)) is anomalous
    assert bool(is_learnable(score, threshold)) is learnable
    assert bool(python[0].py_func(score, threshold)) is anomalous
    assert bool(python[1].py_func(score, threshold)) is learnable


@pytest.mark.parametrize(("score", "threshold", "anomalous", "learnable"), TRUTH)
def test_no_sample_is_both_and_only_one_without_a_score_is_neither(
    score: float, threshold: float, anomalous: bool, learnable: bool
) -> None:
    assert not (anomalous and learnable)
    assert (anomalous or learnable) is not math.isnan(score)


def test_the_loop_compares_nothing_with_the_threshold_itself() -> None:
    """In the loop the threshold may only be handed to the two decisions."""
    tree = ast.parse((KERNELS / "step.py").read_text())
    deciders = {"is_anomalous", "is_learnable"}
    handed = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.BinOp | ast.UnaryOp):
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            assert "threshold" not in names, ast.unparse(node)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in deciders:
            handed += 1
    assert handed == 2  # one of each: nobody decides twice


def test_no_other_module_of_the_loop_knows_of_scores_and_thresholds() -> None:
    for path in (KERNELS / "mlp.py", KERNELS / "adam.py"):
        names = {
            node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)
        }
        assert not names & {"threshold", "tau", "is_anomalous", "is_learnable"}
