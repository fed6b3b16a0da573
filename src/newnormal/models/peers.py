"""Any PyOD detector as the detector's model: ``model="pyod:ECOD"``.

Needs the extra `peers`; PyOD's neural detectors (DeepSVDD, LUNAR, SO_GAAL, ...) also need `deep`.
"""

from __future__ import annotations

import inspect
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from newnormal.errors import MissingExtraError, ParameterError
from newnormal.models.base import Block, Model, Training
from newnormal.types import Floats, Floats32

MOST_ROWS = 20_000  # of history, for detectors whose cost grows with its square

# They compare each row of history with all others: by neighbours, distances, kernels or prefixes.
_COMPARE_ALL = frozenset(
    {
        "ABOD",
        "COF",
        "FeatureBagging",  # of LOF
        "HDBSCAN",
        "KDE",
        "KNN",
        "KPCA",
        "LMDD",
        "LOCI",
        "LOF",
        "LUNAR",
        "OCSVM",
        "QMCD",
        "RGraph",
        "SOD",
        "SOS",
        "SUOD",  # of LOF, among others
    }
)


class Peer(Model):
    """A PyOD detector behind the detector's interface: it judges samples, and learns nothing.

    Each sample of history is a row to it, and each sample of the stream is judged by itself; the
    window sets only how often the trend moves. It can be detrended, as the trend is subtracted
    before it sees anything, but not adapted: a PyOD detector has no step to take. Nor can it be
    saved, since PyOD offers pickle alone. It keeps PyOD's own defaults, but PCA has as many
    components as history's rank; the epochs, batch and latent of the detector are not its.

    Missing values are history's mean to it, and samples with nothing observed are left out. A
    detector whose cost grows with the square of history (LOF, OCSVM, KNN, LUNAR, ...) is fitted on
    `MOST_ROWS` samples of a longer one, evenly spaced.

    Scores are PyOD's `decision_function`, which points up. SO_GAAL's is its discriminator's output
    as PyOD returns it, whichever way training left it to point. Those of ECOD and COPOD depend on
    the samples judged in the same call, as PyOD ranks them together with history: for these two,
    stepping through a series does not equal running over it, and each call costs a pass over
    history.
    """

    detector_name: ClassVar[str]  # of the detector's class in PyOD
    reconstructs: ClassVar[bool] = False
    holds_objects: ClassVar[bool] = True
    at_once: ClassVar[int] = 4096  # some detectors go through all history in each call

    @property
    def name(self) -> str:
        """The model's name in messages."""
        return f"pyod:{self.detector_name}"

    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        """Fit on the samples of scaled history (T, C) in which something was observed."""
        missing = np.isnan(history)
        rows = np.where(missing, 0, history)[~missing.all(axis=1)]
        if self.detector_name in _COMPARE_ALL:
            rows = thinned(rows, MOST_ROWS)
        kind = self._imported()
        takes = inspect.signature(kind).parameters
        offered = {"n_features": rows.shape[1], "random_state": training.seed, "verbose": 0}
        if (
            self.detector_name == "PCA"
        ):  # it divides by each component's variance, which may be none
            offered["n_components"] = max(int(np.linalg.matrix_rank(rows)), 1)
        with redirect_stdout(io.StringIO()), _seeded(training.seed):
            try:
                self.objects = kind(**{key: offered[key] for key in offered if key in takes})
                self.objects.fit(rows)
            except (ImportError, NotImplementedError, TypeError, ValueError) as error:
                raise ParameterError(
                    f"model: {self.name} could not be fitted on history alone: {error}",
                    hint="detectors that need labels, other detectors or other than numbers "
                    "cannot be used here",
                ) from error
        return np.empty(0, dtype=np.float32), []

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, None]:
        """Score the samples that get their verdict now."""
        del weights
        B, L, _ = block.windows.shape
        wanted = np.arange(L) >= L - block.newest[:, None]  # (B, L)
        wanted &= block.there.any(axis=2)
        scores = np.full((B, L), np.nan)
        if wanted.any():
            with redirect_stdout(io.StringIO()):
                scores[wanted] = self.objects.decision_function(block.windows[wanted])
        return scores, None

    def _imported(self) -> Any:
        try:
            with redirect_stdout(io.StringIO()):  # "please install torch first"
                module = import_module(f"pyod.models.{_detectors()[self.detector_name]}")
        except (ImportError, NameError) as error:
            raise MissingExtraError(
                f"pyod:{self.detector_name} needs a package that is not installed: {error}",
                hint='PyTorch comes with pip install "newnormal[deep]", others by themselves',
            ) from error
        return getattr(module, self.detector_name)


def thinned(rows: Floats, most: int) -> Floats:
    """Return rows evenly spaced from the first to the last, at most so many.

    >>> thinned(np.arange(9.0), 3), thinned(np.arange(3.0), 3)
    (array([0., 4., 8.]), array([0., 1., 2.]))
    """
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


@cache
def adapter(name: str) -> type[Peer]:
    """Return the model that is PyOD's detector class `name`, such as "ECOD"."""
    known = _detectors()
    if name not in known:
        lowered = {each.lower(): each for each in known}
        near = [f"pyod:{lowered[each]}" for each in get_close_matches(name.lower(), lowered)]
        raise ParameterError(
            f"model: expected pyod: and the name of a PyOD detector, found 'pyod:{name}'",
            hint=f"did you mean {' or '.join(near)}?" if near else f"one of {', '.join(known)}",
        )
    return type(name, (Peer,), {"detector_name": name, "__doc__": Peer.__doc__})


@cache
def _detectors() -> dict[str, str]:
    """Return PyOD's detectors of rows by class name, each with its module's name.

    A detector of rows is the class that a module is named after (`so_gaal` has `SO_GAAL`); those
    of series, graphs and texts are not. The sources are read, not imported: that would take
    seconds, and every package that any of them needs.
    """
    spec = find_spec("pyod")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError.of("peers", "pyod")
    modules = {}
    for file in sorted((Path(spec.submodule_search_locations[0]) / "models").glob("*.py")):
        for name in re.findall(r"^class (\w+)\(\w*Detector\)", file.read_text("utf-8"), re.M):
            if name.replace("_", "").lower() == file.stem.replace("_", ""):
                modules[name] = file.stem
    return modules


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the global generators that some detectors draw from, and put them back afterwards."""
    torch = sys.modules.get("torch")  # there if the detector's module imported it
    before = np.random.get_state()  # noqa: NPY002 - it is PyOD that uses the global generator
    with torch.random.fork_rng(devices=[]) if torch else nullcontext():
        if torch:
            torch.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002
