"""An adapter without its library says what installs it."""

import sys
from collections.abc import Callable
from importlib import import_module

import pytest

from newnormal import MissingExtraError


@pytest.mark.parametrize("library", ["aeon", "sktime"])
def test_a_missing_library_is_named_with_its_extra(
    library: str, without: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    without(library)
    monkeypatch.delitem(sys.modules, f"newnormal.adapters.{library}", raising=False)
    with pytest.raises(MissingExtraError, match=rf'pip install "newnormal\[{library}\]"'):
        import_module(f"newnormal.adapters.{library}")
