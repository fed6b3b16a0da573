"""The errors: what they are besides ours, and how they read."""

from __future__ import annotations

import inspect
import pickle

import pytest

from newnormal import errors
from newnormal.errors import MissingExtraError, NewnormalError

ALSO = {
    "ParameterError": (ValueError,),
    "InputError": (ValueError,),
    "NotFittedError": (ValueError, AttributeError),
    "FeedbackError": (ValueError,),
    "StateError": (),
    "DatasetError": (FileNotFoundError,),
    "MissingExtraError": (ImportError,),
}


def test_every_error_is_ours_and_what_python_would_have_raised() -> None:
    classes = {
        name: kind
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, NewnormalError) and kind is not NewnormalError
    }
    assert set(classes) == set(ALSO)
    for name, others in ALSO.items():
        assert all(issubclass(classes[name], other) for other in others)
        assert name in (errors.__doc__ or "")


@pytest.mark.parametrize("name", [*ALSO, "NewnormalError"])
def test_a_hint_stands_on_its_own_line(name: str) -> None:
    kind: type[NewnormalError] = getattr(errors, name)
    error = kind("expected 3, found 2", hint="give three")
    assert str(error) == "expected 3, found 2\nhint: give three"
    assert (error.message, error.hint) == ("expected 3, found 2", "give three")
    assert str(kind("expected 3, found 2")) == "expected 3, found 2"


def test_a_missing_extra_tells_the_command_to_install_it() -> None:
    error = MissingExtraError.of("eval", "scikit-learn")
    assert str(error) == (
        'scikit-learn is needed for this and is not installed\nhint: pip install "newnormal[eval]"'
    )


def test_a_warning_is_not_an_error() -> None:
    assert not issubclass(errors.NewnormalWarning, NewnormalError)
    assert issubclass(errors.NewnormalWarning, UserWarning)


def test_an_error_survives_the_way_between_processes() -> None:
    error = errors.InputError("expected 3, found 2", hint="give three")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
