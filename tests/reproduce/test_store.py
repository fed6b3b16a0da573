"""Results are kept: what is on disk is not computed again, unless what it depends on changed."""

import pkgutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal.errors import ParameterError
from newnormal_reproduce.engine import fingerprint
from newnormal_reproduce.engine.evaluation import diverges
from newnormal_reproduce.engine.fit import TrialFit
from newnormal_reproduce.engine.published import Rule
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import load_stream
from newnormal_reproduce.engine.trial import Trial
from newnormal_reproduce.engine.variants import VARIANTS, variant_named
from tests.reproduce.small_data import write_machine

SEEDS = (1, 2, 3)


def write_smd(root: Path, stream: str = "1-4", seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    series = np.sin(np.arange(300)[:, None] / [7, 9]) + rng.normal(0, 0.1, (300, 2))
    labels = np.zeros(150, dtype=int)
    labels[100:104] = 1
    series[150:][labels == 1] += 3
    write_machine(root, stream, series[:150], series[150:], labels)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    write_smd(folder)
    return folder


def planned(runner: Runner, seeds: tuple[int, ...] = SEEDS, **own: Any) -> list[Trial]:
    stream = runner.streams.about("SMD/1-4")
    return [
        runner.trial(stream, "mlp", row.name, Rule(99.0), seed, epochs=1, **own)
        for seed in seeds
        for row in VARIANTS
    ]


def test_what_was_computed_once_is_read_the_second_time(root: Path, tmp_path: Path) -> None:
    first, second = (Runner(root, cache=tmp_path / "cache") for _ in range(2))
    one, two = first.run(planned(first)), second.run(planned(second))
    assert (first.computed, second.computed) == (12, 0)
    for trial, outcome in one.outcomes.items():
        again = two.outcomes[trial]
        assert again.report.as_dict() == outcome.report.as_dict()
        assert (again.tau, again.lr, again.learned) == (outcome.tau, outcome.lr, outcome.learned)
        np.testing.assert_array_equal(again.judgement.scores, outcome.judgement.scores)


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from newnormal_reproduce.engine.runner import Runner
from tests.reproduce.test_store import planned

def die_half_way(done, total, what):
    if done >= 8:
        os.kill(os.getpid(), signal.SIGKILL)

runner = Runner({root!r}, cache={cache!r}, progress=die_half_way)
runner.run(planned(runner))
"""


def test_a_run_killed_half_way_does_only_what_is_left(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    script = KILLED.format(tests=str(Path(__file__).parents[2]), root=str(root), cache=str(cache))
    killed = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    runner = Runner(root, cache=cache)
    results = runner.run(planned(runner))
    assert runner.computed == 4
    assert len(results.outcomes) == 12


def test_a_fit_is_kept_so_that_a_new_variant_of_it_does_not_fit_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(root, cache=tmp_path / "cache")
    runner.run(planned(runner, (1,))[:1])

    def refuse(*_: object) -> TrialFit:
        raise AssertionError("fitted again")

    monkeypatch.setattr(TrialFit, "on", refuse)
    assert runner.run(planned(runner, (1,))).failures == {}
    assert runner.computed == 4


@pytest.mark.parametrize(
    ("change", "computed"),
    [({"decay": 0.7}, 2), ({"lr": 0.02}, 2), ({"window": 6, "stride": 6}, 4), ({"batch": 3}, 4)],
)
def test_another_option_is_another_result_where_the_variant_uses_it(
    root: Path, tmp_path: Path, change: dict[str, object], computed: int
) -> None:
    Runner(root, cache=tmp_path / "cache").run(planned(Runner(root), (1,)))
    runner = Runner(root, cache=tmp_path / "cache")
    runner.run(planned(runner, (1,), **change))
    assert runner.computed == computed


@pytest.mark.parametrize("other", ["data", "code"])
def test_other_data_and_other_code_are_another_result(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    Runner(root, cache=tmp_path / "cache").run(planned(Runner(root), (1,)))
    if other == "data":
        write_smd(root, seed=5)
    else:
        place = "newnormal_reproduce.engine.store.fitting_code"
        monkeypatch.setattr(place, lambda model: f"new {model}")
    runner = Runner(root, cache=tmp_path / "cache")
    runner.run(planned(runner, (1,)))
    assert runner.computed == 4


def test_a_result_depends_on_the_code_it_uses_and_on_no_other() -> None:
    files = fingerprint._reached("newnormal.detector", "newnormal.models.mlp")
    for module in ("detector", "kernels.step", "kernels.mlp", "core.scaling", "models.mlp"):
        assert f"newnormal.{module}" in files
    for module in ("cli.app", "plots", "models.deep.base", "models", "tabular", "state"):
        assert f"newnormal.{module}" not in files
    assert fingerprint.fitting_code("mlp") == fingerprint.fitting_code("mlp")


def test_every_module_counts_but_those_named_and_each_of_these_exists() -> None:
    for prefix in (*fingerprint._UNCOUNTED, fingerprint._CHOOSING):
        assert fingerprint._file(prefix) is not None, prefix
    for root in (fingerprint._FIT, fingerprint._EVALUATION):
        assert fingerprint._file(root) is not None, root
    packages = {f"newnormal.{each.name}" for each in pkgutil.iter_modules(newnormal.__path__)}
    counted = {name for name in packages if fingerprint._counts(name, ())}
    assert counted == packages - {"newnormal.models", *fingerprint._UNCOUNTED}
    assert {"newnormal.kernels", "newnormal.core", "newnormal.detector"} <= counted


def test_comments_and_docstrings_are_not_code() -> None:
    bare = fingerprint._bare('def f():\n    """Say."""\n    return 1  # one\n')
    assert bare == fingerprint._bare("def f():\n    return 1\n")
    assert bare != fingerprint._bare("def f():\n    return 2\n")


def test_a_file_that_is_cut_short_is_computed_again(root: Path, tmp_path: Path) -> None:
    runner = Runner(root, cache=tmp_path / "cache")
    results = runner.run(planned(runner, (1,)))
    path = next(iter(results.outcomes.values())).path
    path.write_bytes(path.read_bytes()[:50])
    for fit in (tmp_path / "cache" / "fits").iterdir():
        fit.write_bytes(fit.read_bytes()[:50])
    again = Runner(root, cache=tmp_path / "cache")
    assert len(again.run(planned(again, (1,))).outcomes) == 4
    assert again.computed == 1


def test_the_cache_holds_no_pickle_and_keeps_itself_out_of_version_control(
    root: Path, tmp_path: Path
) -> None:
    runner = Runner(root, cache=tmp_path / "cache")
    (outcome, *_) = runner.run(planned(runner, (1,))).outcomes.values()
    with np.load(outcome.path, allow_pickle=False) as file:
        assert set(file) == {"facts", "scores", "thresholds", "anomalous"}
    assert (tmp_path / "cache" / ".gitignore").read_text() == "*\n"
    assert not list((tmp_path / "cache").rglob("*.part"))


def test_two_processes_compute_what_one_does(root: Path, tmp_path: Path) -> None:
    one, two = Runner(root), Runner(root, cache=tmp_path / "cache", processes=2)
    ref, comp = one.run(planned(one, (1, 2))), two.run(planned(two, (1, 2)))
    assert list(ref.outcomes) == list(comp.outcomes)
    for trial, outcome in ref.outcomes.items():
        assert comp.outcomes[trial].report.as_dict() == outcome.report.as_dict()


def test_the_detector_of_an_outcome_judges_as_it_did(root: Path) -> None:
    runner = Runner(root)
    results = runner.run(planned(runner, (1,)))
    data = load_stream("SMD/1-4", root)
    for outcome in results.outcomes.values():
        scores = runner.detector(outcome).run(data.test).scores
        np.testing.assert_array_equal(scores, outcome.judgement.scores)


def test_a_model_that_cannot_be_had_fails_alone(root: Path) -> None:
    runner = Runner(root)
    trials = planned(runner, (1,))[:1]
    strange = replace(trials[0], model="nowhere.at_all:Model")
    results = runner.run([strange, *trials])
    assert list(results.outcomes) == trials
    assert results.failures[strange].startswith(
        "ParameterError: model: expected a class by import path, found 'nowhere.at_all:Model'"
    )


def test_a_rate_that_diverges_on_history_is_divided_by_ten_until_it_does_not(root: Path) -> None:
    runner = Runner(root)
    stream = runner.streams.about("SMD/1-4")
    wild, calm = (
        runner.trial(stream, "mlp", "TTA", Rule(99.0), 1, steady=True, lr=lr) for lr in (1e4, 1e-3)
    )
    outcomes = runner.run([wild, calm]).outcomes
    assert outcomes[calm].lr == 1e-3
    found = outcomes[wild].lr
    assert found in [1e4 / 10**k for k in range(1, 8)]

    history = load_stream("SMD/1-4", root).train
    fitted = TrialFit.on(history, wild)
    tau = outcomes[wild].tau
    still = fitted.as_variant(variant_named("frozen"), tau, decay=0.5, lr=0.0).run(history).scores
    tta = variant_named("TTA")
    assert not diverges(fitted, tta, tau, 0.5, found, history, still)
    assert diverges(fitted, tta, tau, 0.5, 10 * found, history, still)


def test_a_data_sets_name_alone_is_all_its_streams_and_an_unknown_one_an_error(root: Path) -> None:
    write_smd(root, "2-1")
    write_smd(root, "3-10")
    assert Runner(root).streams.chosen(["smd"], []) == ["SMD/1-4", "SMD/2-1", "SMD/3-10"]
    with pytest.raises(ParameterError) as caught:
        Runner(root).streams.chosen(["SMD/9-9"], [])
    assert "found 'SMD/9-9'" in str(caught.value)
    assert "SMD/1-4" in str(caught.value)
