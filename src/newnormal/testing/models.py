"""A check for models that others write."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from newnormal.detector import M2N2
from newnormal.errors import NewnormalError, StateError
from newnormal.kernels.stream import ModelState
from newnormal.models.base import Block, Model, Training
from newnormal.models.registry import find
from newnormal.testing.expecting import plant, require, stepwise, with_anomalies
from newnormal.thresholds import Fixed
from newnormal.types import Floats, Verdicts

_HISTORY = 400
_LIVE = 120
_CLOSE = 1e-4  # relative: sums may be taken in another order when more windows come at once


def check_model(
    model: object, *, window: int = 6, channels: int = 3, latent: int = 4, seed: int = 0
) -> None:
    """Check a model: its class, import path or name.

    Fits it on a small series and runs it in every way a detector does.

    Parameters
    ----------
    model
        As `M2N2` takes it.
    window, channels, latent
        What it is made with.
    seed
        Of the series and of training.

    Examples
    --------
    >>> check_model("pca")
    """
    try:
        kind = find(model)
    except NewnormalError as error:
        raise AssertionError(str(error)) from error
    _check_capabilities(kind)
    check = _ModelCheck(kind, window, channels, latent, seed)
    check.construction()
    check.fitting()
    check.scoring()
    check.missing_values()
    if kind.learns:
        check.learning()
    check.reset()
    check.streams_apart()
    check.ways_to_run()
    check.state_file()


def _check_capabilities(kind: type[Model]) -> None:
    for name in ("reconstructs", "learns", "holds_objects"):
        flag = getattr(kind, name)
        require(isinstance(flag, bool), f"{name}: expected True or False, found {flag!r}")
    scaling: Any = kind.scaling
    at_once: Any = kind.at_once
    good = scaling in ("standard", "range")
    require(good, f'scaling: expected "standard" or "range", found {scaling!r}')
    good = isinstance(at_once, int) and at_once >= 1
    require(good, f"at_once: expected a whole number of windows, 1 or more, found {at_once!r}")


class _ModelCheck:
    """The checks of one model."""

    def __init__(
        self, kind: type[Model], window: int, channels: int, latent: int, seed: int
    ) -> None:
        self.kind = kind
        self.name = kind.__name__
        self.shape = window, channels, latent
        self.history = plant(_HISTORY, channels, seed)
        self.live = plant(_LIVE, channels, seed + 1)
        self.first: M2N2 | None = None
        self.training = Training(stride=window, epochs=2, batch=16, seed=seed)
        self.options: dict[str, Any] = {
            "model": kind,
            "window": window,
            "latent": latent,
            "adapt": kind.learns,
            "decay": 0.9,
            "lr": 0.01,
            "epochs": 2,
            "batch": 16,
            "seed": seed,
            "threshold": Fixed(math.inf),  # every sample is learnable
        }

    def construction(self) -> None:
        try:
            made = self.kind(*self.shape)
        except TypeError as error:
            raise AssertionError(
                f"__init__: expected (window, channels, latent), found {error}"
            ) from error
        called = hasattr(made, "center") and hasattr(made, "size")
        require(called, "__init__: expected a call of super().__init__(window, channels, latent)")

    def fitting(self) -> None:
        """`_fit` returns one float32 vector and losses, by the seed alone, and leaves history."""
        parts = []
        for _ in range(2):
            model = self.kind(*self.shape)
            scaled = model.scaler(self.history).apply(self.history)
            kept = scaled.copy()
            try:
                fitted: Any = model.fit(scaled, self.training)
                weights, losses = fitted
            except NewnormalError as error:
                raise AssertionError(str(error)) from error
            except (TypeError, ValueError) as error:
                raise AssertionError(
                    f"_fit: expected (weights, losses) to be returned, found {error!r}"
                ) from error
            same = np.array_equal(scaled, kept)
            require(same, "_fit: expected history as it was, found it changed")
            require(np.isfinite(weights).all(), "_fit: expected finite weights, found others")
            fits = isinstance(losses, list) and all(isinstance(loss, float) for loss in losses)
            require(fits, f"_fit: expected a list of losses as floats, found {losses!r}")
            parts.append((model, weights))
        (self.model, weights), (again, others) = parts
        state, twin = self.model.initial(weights), again.initial(others)
        self.state, self.weights = state, weights
        block = self._block(4)
        same = np.array_equal(weights, others)
        if not _is_compiled(self.kind):
            same = same and _equal(self._scored(state, block)[0], again.scored(block, twin)[0])
        require(
            same,
            "_fit: expected the same seed to give the same model, found another; draw from "
            "np.random.default_rng(training.seed) alone",
        )
        if self.kind.holds_objects:
            require(
                self.model.objects is not None,
                "holds_objects: expected _fit to store them as self.objects, found None",
            )
        elif self.kind.learns:
            require(
                len(weights) > 0,
                "_learn: expected weights to change, found that _fit returns none; pack what "
                "adapts into one float32 vector, or set holds_objects = True and store it as "
                "self.objects",
            )

    def _block(self, windows: int) -> Block:
        window = self.shape[0]
        scaled = self.model.scaler(self.history).apply(self.live)
        parts = np.stack([scaled[row : row + window] for row in range(windows)])
        newest = np.full(windows, window, dtype=np.int64)
        return Block(parts, np.ones(parts.shape, dtype=np.bool_), newest)

    def _scored(self, state: ModelState, block: Block) -> tuple[Floats, Floats | None]:
        try:
            return self.model.scored(block, state)
        except (TypeError, ValueError, IndexError) as error:
            raise AssertionError(
                f"_score: expected (scores, reconstruction or None) for windows of shape "
                f"{block.windows.shape}, found {error!r}"
            ) from error

    def scoring(self) -> None:
        """`_score` gives a score a sample, which points up, and a reconstruction if it has one."""
        if not _is_compiled(self.kind):
            self._shapes()
        detector = self._fitted(adapt=False, detrend=False)
        spoiled, labels = with_anomalies(plant(_LIVE * 2, self.shape[1], 7))
        scores = detector.run(spoiled).scores
        others = int((~np.isfinite(scores)).sum())
        require(not others, f"_score: expected finite scores, found {others} others")
        differ = len(np.unique(scores)) > 2
        require(differ, f"_score: expected scores that differ, found {scores[0]:g} for all samples")
        bad, good = scores[labels][:, None], scores[~labels][None]
        higher = float(((bad > good) + 0.5 * (bad == good)).mean())
        require(
            higher > 0.5,
            "_score: expected samples 6 deviations away to score higher than normal ones, found "
            f"that {higher:.0%} of the pairs do; scores point up, so return the negative if yours "
            "point down",
        )

    def _shapes(self) -> None:
        block = self._block(4)
        B, L, C = block.windows.shape
        kept, weights = block.windows.copy(), self.state.step.weights.copy()
        scores, made = self._scored(self.state, block)
        shape = getattr(scores, "shape", type(scores).__name__)
        require(shape == (B, L), f"_score: expected scores of shape {(B, L)}, found {shape}")
        if self.kind.reconstructs:
            require(
                made is not None,
                "_score: expected a reconstruction, found None; set reconstructs = False if there "
                "is none",
            )
            shape, expected = getattr(made, "shape", type(made).__name__), (B, L, C)
            message = f"_score: expected a reconstruction of shape {expected}, found {shape}"
            require(shape == expected, message)
        else:
            require(
                made is None,
                "_score: expected None beside the scores, found a reconstruction; leave "
                "reconstructs = True to have it in verdicts",
            )
        same = np.array_equal(block.windows, kept)
        same = same and np.array_equal(self.state.step.weights, weights)
        require(same, "_score: expected windows and weights as they were, found them changed")
        alone, _ = self._scored(self.state, self._block(1))
        require(
            _close(alone[0], scores[0]),
            "_score: expected a window's scores to be the same whatever is scored with it, "
            "found others",
        )

    def missing_values(self) -> None:
        """Missing values leave everything else with a finite score."""
        gaps = self.live.copy()
        gaps[20, 0] = gaps[33] = np.nan
        scores = self._fitted().run(gaps).scores
        scores[33] = 0.0  # nothing was observed
        require(
            np.isfinite(scores).all(),
            "_score: expected finite scores where a value is missing, found others; it is 0 in "
            "block.windows and False in block.there",
        )
        history = self.history.copy()
        history[5, 0] = np.nan
        try:
            M2N2(**self.options).fit(history)
        except (NewnormalError, ValueError) as error:
            raise AssertionError(
                f"_fit: expected history with a missing value (NaN) to be learned, found {error}"
            ) from error

    def ways_to_run(self) -> None:
        """Run a series at once, in pieces and sample by sample: the scores are the same."""
        ref = self._fitted().run(self.live).scores
        detector = self._fitted()
        require(
            _close(np.array([each.score for each in stepwise(detector, self.live)]), ref),
            "run and step: expected the same scores, found others; a score must depend on its "
            "window, the weights and nothing else",
        )
        detector = self._fitted()
        cuts = pairwise([0, 4, 47, 60, _LIVE])
        parts = [detector.run(self.live[begin:end], flush=end == _LIVE) for begin, end in cuts]
        same = _close(_gathered(parts), ref)
        require(same, "run in pieces: expected the scores of one run, found others")

    def learning(self) -> None:
        """`_learn` changes what scores, in place."""
        detector = self._fitted(detrend=False)  # nothing else moves
        before = detector.score_frozen(self.live).scores
        try:
            detector.run(self.live)
        except NotImplementedError as error:
            raise AssertionError("_learn: expected one where learns = True, found none") from error
        except (TypeError, ValueError) as error:
            raise AssertionError(
                f"_learn: expected a step to change weights in place, found {error!r}"
            ) from error
        require(
            not np.array_equal(detector.score_frozen(self.live).scores, before),
            "_learn: expected it to change the weights in place, found them as they were; write "
            "weights -= step or weights[:] = new, which `weights = new` does not do",
        )

    def reset(self) -> None:
        """`reset` goes back to the fitted state, and looking changes nothing."""
        detector = self._fitted()
        ref = detector.run(self.live).scores
        require(
            _equal(detector.reset().run(self.live).scores, ref),
            "reset: expected the same scores again, found others; _score or _learn keep something "
            "in self: only weights, and self.objects with holds_objects = True, belong to a stream",
        )
        detector.reset()
        detector.decision_function(self.live)
        detector.score_frozen(self.live)
        require(
            _equal(detector.run(self.live).scores, ref),
            "score and decision_function: expected them to change nothing, found other scores "
            "afterwards; _score keeps something in self",
        )

    def streams_apart(self) -> None:
        """Two streams of one fit do not leak into each other."""
        one = self._fitted()
        ref = one.with_options().run(self.live).scores
        other = one.with_options()
        half = _LIVE // 2
        first = one.run(self.live[:half], flush=False)
        other.run(self.live * 0.5)
        rest = one.run(self.live[half:])
        require(
            _close(_gathered([first, rest]), ref),
            "two streams of one fit: expected each to score as if alone, found that one changes "
            "the other; _learn changes something in self besides its weights",
        )

    def state_file(self) -> None:
        """Save, load and go on as without; objects cannot be saved."""
        detector = self._fitted()
        detector.run(self.live[:50], flush=False)
        if self.kind.holds_objects:
            try:
                detector.to_state()
            except StateError:
                return
            raise AssertionError("holds_objects: expected save to be refused, found a state")
        state = detector.to_state()
        for name, array in state.tensors.items():
            kind = type(array).__name__
            is_array = hasattr(array, "dtype") and np.issubdtype(array.dtype, np.number)
            require(is_array, f"_tensors: expected {name} to be an array of numbers, found {kind}")
        try:
            other = M2N2.from_state(state, "the saved detector", self.kind)
            comp = other.run(self.live[50:]).scores
        except (NewnormalError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise AssertionError(
                f"save and load: expected the model back, found {error!r}; _restore must take back "
                "what _tensors returns, and __init__ make all else"
            ) from error
        require(
            _close(comp, detector.run(self.live[50:]).scores),
            "save and load: expected the same scores afterwards, found others; what _fit finds "
            "besides the weights must be in _tensors, and _restore take it back",
        )

    def _fitted(self, **options: Any) -> M2N2:
        if self.first is None:
            self.first = M2N2(**self.options).fit(self.history)
        return self.first.with_options(**options)


def _is_compiled(kind: type[Model]) -> bool:
    """Whether a loop of its own scores and learns, instead of `_score`."""
    return kind.advance is not Model.advance


def _gathered(parts: list[Verdicts]) -> Floats:
    scores = np.full(_LIVE, np.nan)
    for part in parts:
        for verdicts in (part.late, part):
            if verdicts is not None:
                there = ~np.isnan(verdicts.scores)
                scores[verdicts.samples[there]] = verdicts.scores[there]
    return scores


def _equal(comp: Floats, ref: Floats) -> bool:
    return np.array_equal(comp, ref, equal_nan=True)


def _close(comp: Floats, ref: Floats) -> bool:
    if comp.shape != ref.shape:
        return False
    largest = float(np.nanmax(np.abs(ref), initial=0.0))
    return np.allclose(comp, ref, rtol=_CLOSE, atol=1e-6 * largest, equal_nan=True)
