"""The public surface, and that importing it costs next to nothing."""

import importlib
import importlib.resources
import pkgutil
from importlib.util import find_spec

import pytest

import newnormal
from tests.processes import python

PUBLIC = {
    *("M2N2", "Detector", "Fleet", "load", "check", "plot", "report", "__version__"),
    *("Alarm", "Change", "Check", "Event", "Evidence", "Incident", "Verdict", "Verdicts"),
    *("Fixed", "MovingThreshold", "Quantile", "Threshold", "NewnormalError", "NewnormalWarning"),
    *("DatasetError", "FeedbackError", "InputError", "MissingExtraError", "NotFittedError"),
    *("ParameterError", "StateError"),
}
OPTIONAL = ["sklearn", "scipy", "pandas", "polars", "torch", "matplotlib"]
BY_NUMBA = {"scipy"}  # Numba itself looks whether it is there
HEAVY = ["numpy", "numba", "rich", "typer", "safetensors", "narwhals", "filelock", *OPTIONAL]


def imported_by(code: str) -> set[str]:
    """Return the top-level modules a fresh Python has after running the code."""
    report = "; import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    return set(python("-c", code + report, check=True).stdout.split())


def test_all_is_exactly_the_public_surface_and_any_other_name_an_attribute_error() -> None:
    assert newnormal.__all__ == dir(newnormal) == sorted(PUBLIC)
    with pytest.raises(AttributeError, match="module 'newnormal' has no attribute 'Detecter'"):
        _ = newnormal.Detecter


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there(name: str) -> None:
    value = getattr(newnormal, name)
    if name != "__version__":
        assert value.__name__ == name
        assert value.__doc__


@pytest.mark.parametrize(
    ("code", "heavy"),
    {
        "import newnormal": HEAVY,
        "import newnormal.cli.app": ["numpy", "numba"],
        "import newnormal.datasets": ["numba", *OPTIONAL],
        "import newnormal.metrics as m; m.f1([0, 1], [0, 1]); m.best_f1([0, 1], [0, 1])": [
            *("sklearn", "scipy", "numba")
        ],
        "from newnormal import M2N2; M2N2(model='pyod:ECOD')": ["pyod", "sklearn", "torch"],
    }.items(),
)
def test_what_is_heavy_is_imported_when_it_is_needed(code: str, heavy: list[str]) -> None:
    if "pyod" in heavy and find_spec("pyod") is None:
        pytest.skip("could not import 'pyod'")
    assert not imported_by(code) & set(heavy)


def test_fitting_and_judging_an_array_needs_no_extra() -> None:
    found = imported_by("import newnormal; newnormal.Detector")
    assert not (found - BY_NUMBA) & set(OPTIONAL)
    assert {"numpy", "numba"} <= found
    found = imported_by(
        "import numpy, newnormal; x = numpy.arange(60.0).reshape(30, 2);"
        "newnormal.M2N2(window=3, epochs=1).fit(x).run(x)"
    )
    assert not (found - BY_NUMBA) & set(OPTIONAL)


def test_every_modules_all_names_what_it_has() -> None:
    for module in pkgutil.walk_packages(newnormal.__path__, "newnormal."):
        if module.name.endswith(("__main__", "adapters.aeon", "adapters.sktime")):
            continue
        if ".deep" in module.name:
            continue
        loaded = importlib.import_module(module.name)
        for name in getattr(loaded, "__all__", ()):
            assert hasattr(loaded, name), f"{module.name}.{name}"


def test_the_package_says_that_it_is_typed() -> None:
    assert importlib.resources.files("newnormal").joinpath("py.typed").is_file()
