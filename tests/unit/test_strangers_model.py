"""A model that somebody else wrote works wherever a built-in one does; a wrong one is found out."""

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal import M2N2, ParameterError, StateError
from newnormal import state as state_file
from newnormal.models import registry
from newnormal.models.base import Block, Model, Training
from newnormal.state import State
from newnormal.testing import check_model
from newnormal.testing.expecting import plant
from newnormal.types import Bools, Floats, Floats32
from tests.errors import raised
from tests.strangers.model import Cells, Codebook

PATH = "tests.strangers.model:Codebook"
OPTIONS: dict[str, Any] = {"window": 6, "latent": 20, "lr": 0.05, "decay": 0.9}


def fitted(model: object = Codebook, **options: Any) -> M2N2:
    return M2N2(model=model, **OPTIONS, **options).fit(plant(300, 3, 0))  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [PATH, Codebook, "tests.strangers.model:Cells"])
def test_a_strangers_model_passes_the_check(model: object) -> None:
    check_model(model)


def test_it_finds_what_stands_out_by_class_or_path_and_says_what_was_expected() -> None:
    series = plant(120, 3, 1)
    series[60, 1] += 4
    verdicts = fitted().run(series)
    assert verdicts.expected is not None
    assert verdicts.shares is not None
    assert int(verdicts.scores.argmax()) == 60
    assert int(verdicts.shares[60].argmax()) == 1
    series = plant(120, 3, 1)
    one, other = fitted(Codebook), fitted(PATH)
    np.testing.assert_array_equal(one.run(series).scores, other.run(series).scores)
    assert one.to_state().facts["options"]["model"] == PATH
    assert other.to_state().facts["options"]["model"] == PATH


def test_it_has_alarms_a_budget_and_acceptance_as_any_other() -> None:
    detector = fitted(accept_after=60, alarms_per_day=20)
    series = plant(600, 3, 1)
    series[200:] += 3.0
    detector.run(series)
    assert any(event.kind == "opened" for event in detector.take_events())


# ------------------------------------------------------------------ entry points


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("codebook", PATH, registry.GROUP)
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [entry] if group == registry.GROUP else []
    )


@pytest.mark.usefixtures("installed")
def test_an_entry_point_is_a_name_and_its_class_loads_without_being_named(tmp_path: Path) -> None:
    fitted("codebook").save(tmp_path / "model.nn")
    assert newnormal.load(tmp_path / "model.nn").get_params()["model"] == "codebook"
    fitted(Codebook).save(tmp_path / "model.nn")
    assert newnormal.load(tmp_path / "model.nn").get_params()["model"] == PATH


# ------------------------------------------------------------------ state files


def test_a_file_that_names_a_class_is_loaded_only_where_the_caller_names_it(tmp_path: Path) -> None:
    detector, series = fitted(), plant(120, 3, 1)
    detector.run(series[:50], flush=False)
    detector.save(tmp_path / "model.nn")
    assert str(raised(StateError, lambda: newnormal.load(tmp_path / "model.nn"))) == (
        f"{tmp_path / 'model.nn'}: the model '{PATH}' is neither built in nor an installed entry "
        "point, and a state file does not choose what is imported\n"
        f"hint: newnormal.load(path, model='{PATH}'), or --model {PATH}, if you trust it"
    )
    ref = detector.run(series[50:]).scores
    for model in (Codebook, PATH):
        other = newnormal.load(tmp_path / "model.nn", model=model)
        np.testing.assert_array_equal(other.run(series[50:]).scores, ref)
        assert isinstance(other, M2N2)
        assert other.model is model


@pytest.mark.parametrize("name", ["trap:Mine", "trap.mine:Mine", "trap:Mine.Inner", "pyod:trap"])
def test_loading_imports_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap.py").write_text("open('trace', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    state = fitted().to_state()
    options = state.facts["options"] | {"model": name}
    content = state_file.encode(State(state.facts | {"options": options}, state.tensors))
    state_file.write("trap.nn", content)
    with pytest.raises(StateError, match="a state file does not choose what is imported"):
        newnormal.load("trap.nn")
    assert "trap" not in sys.modules
    assert not (tmp_path / "trace").exists()
    with pytest.raises(StateError):  # the caller named another class
        newnormal.load("trap.nn", model=Codebook)
    assert not (tmp_path / "trace").exists()


def test_a_model_that_is_named_must_be_the_one_it_was_fitted_with(tmp_path: Path) -> None:
    fitted().save(tmp_path / "model.nn")
    with pytest.raises(StateError, match=f"model: expected {PATH}, which this was fitted with"):
        newnormal.load(tmp_path / "model.nn", model=Cells)
    fitted("mlp").save(tmp_path / "mlp.nn")
    with pytest.raises(StateError, match="model: expected mlp, which this was fitted with"):
        newnormal.load(tmp_path / "mlp.nn", model=Codebook)
    assert newnormal.load(tmp_path / "mlp.nn", model="mlp").channels_


# ------------------------------------------------------------------ wrong models


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nowhere.at_all:Model", r"expected a class by import path, found 'nowhere.at_all:Model'"),
        ("tests.strangers.model:Nothing", r"has no attribute 'Nothing'"),
        ("tests.strangers.model:", r"expected a class by import path"),
        ("tests.strangers.model:_cell", r"expected a subclass of newnormal.models.base.Model"),
        (dict, r"expected a subclass of newnormal.models.base.Model, found 'dict'"),
        ("cod", r"expected one of bert, .*\"pyod:NAME\" or \"river:NAME\", found 'cod'"),
        (5, r"found 5"),
    ],
)
def test_what_is_no_model_is_an_error_that_says_so(model: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        M2N2(model=model)


def test_a_model_without_learn_wants_adapt_off() -> None:
    with pytest.raises(ParameterError, match="cannot learn from the stream, found adapt=True"):
        M2N2(model="pca").fit(plant(300, 3, 0))


def having(**members: Any) -> type[Codebook]:
    """Return a Codebook with other members."""
    return type("Other", (Codebook,), members)


def giving(method: str, change: Callable[..., object]) -> type[Codebook]:
    """Return a Codebook whose method gives what `change` makes of what it should give."""

    def changed(self: Codebook, *arguments: Any) -> object:
        return change(*getattr(Codebook, method)(self, *arguments))

    return having(**{method: changed})


Double = giving("_fit", lambda weights, losses: (weights.astype(np.float64), losses))
Matrix = giving("_fit", lambda weights, losses: (weights[None], losses))
WeightsAlone = giving("_fit", lambda weights, losses: weights)
Chance = giving(
    "_fit", lambda w, losses: (w + np.float32(np.random.default_rng().normal()), losses)
)
OneScoreAWindow = giving("_score", lambda scores, made: (scores.mean(axis=1), made))
NoReconstruction = giving("_score", lambda scores, made: (scores, None))
UnwantedReconstruction = having(reconstructs=False)
PointsDown = giving("_score", lambda scores, made: (1 / (1 + scores), made))
Constant = giving("_score", lambda scores, made: (np.ones_like(scores), made))
Crowd = giving("_score", lambda scores, made: (scores + np.arange(len(scores))[::-1, None], made))
Rebinds = having(_learn=lambda self, weights, block, learnable, lr: weights * np.float32(0.9))
CannotRestore = having(
    _tensors=lambda self: {"scale": np.ones(2)}, _restore=lambda self, tensors: tensors["scales"]
)
NoObjects = having(holds_objects=True)
WrongScaling = having(scaling="minmax")


class Half(Model):
    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        return np.zeros(1, np.float32), []


class NoSuper(Codebook):
    def __init__(self, window: int, channels: int, latent: int) -> None:
        self.window, self.channels, self.latent = window, channels, latent


class OtherArguments(Codebook):
    def __init__(self) -> None:
        super().__init__(1, 1, 1)


class ChangesHistory(Codebook):
    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        history -= 1
        return super()._fit(history, training)


class AfraidOfGaps(Codebook):
    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, Floats]:
        scores, made = super()._score(weights, block)
        return np.where(block.there.all(axis=2), scores, np.inf), made


class NothingToChange(Codebook):
    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        self.codes, _ = super()._fit(history, training)
        return np.empty(0, np.float32), []

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, Floats]:
        return super()._score(self.codes, block)


class Remembers(Codebook):
    """Keeps what it learns in itself too."""

    seen = 0

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, Floats]:
        scores, made = super()._score(weights, block)
        return scores * (1 + self.seen), made

    def _learn(self, weights: Floats32, block: Block, learnable: Bools, lr: float) -> None:
        super()._learn(weights, block, learnable, lr)
        self.seen += 1


class Forgets(Codebook):
    """Scales by something that `_fit` finds, and leaves that out of `_tensors`."""

    scale = 1.0

    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        self.scale = float(np.nanstd(history)) * 3
        return super()._fit(history, training)

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, Floats]:
        scores, made = super()._score(weights, block)
        return scores / self.scale, made


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Half, "expected Half to have _score, found none"),
        (NoSuper, r"__init__: expected a call of super\(\).__init__"),
        (OtherArguments, r"__init__: expected \(window, channels, latent\)"),
        (Double, "expected one float32 vector of parameters from Other._fit, found float64 of"),
        (Matrix, r"expected one float32 vector of parameters from Other._fit, found float32 of"),
        (WeightsAlone, r"_fit: expected \(weights, losses\) to be returned"),
        (Chance, "_fit: expected the same seed to give the same model"),
        (ChangesHistory, "_fit: expected history as it was"),
        (OneScoreAWindow, r"_score: expected scores of shape \(4, 6\), found \(4,\)"),
        (NoReconstruction, "_score: expected a reconstruction, found None; set reconstructs = Fal"),
        (UnwantedReconstruction, "_score: expected None beside the scores"),
        (PointsDown, "_score: expected samples 6 deviations away to score higher .* 0% of the pai"),
        (Constant, "_score: expected scores that differ, found 1 for all samples"),
        (Crowd, "_score: expected a window's scores to be the same whatever is scored with it"),
        (AfraidOfGaps, "_score: expected finite scores where a value is missing"),
        (Rebinds, "_learn: expected it to change the weights in place, found them as they were"),
        (NothingToChange, "_learn: expected weights to change, found that _fit returns none"),
        (Remembers, "reset: expected the same scores again, found others; _score or _learn keep"),
        (Forgets, "save and load: expected the same scores afterwards, found others"),
        (CannotRestore, "save and load: expected the model back, found .*scales"),
        (NoObjects, "holds_objects: expected _fit to store them as self.objects, found None"),
        (WrongScaling, 'scaling: expected "standard" or "range", found \'minmax\''),
        ("nowhere:Model", "expected a class by import path"),
    ],
)
def test_the_check_says_what_is_wrong(model: object, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_model(model)
