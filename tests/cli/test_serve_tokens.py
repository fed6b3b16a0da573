"""`newnormal serve FILE token`: tokens go where the configuration keeps everything."""

from pathlib import Path

import pytest

from newnormal.engine.store import Store
from tests.cli.conftest import Command


@pytest.fixture(autouse=True)
def configured(tmp_path: Path, service_folder: None) -> Path:
    """Return a configuration with a data folder of its own, and a secret that is not here."""
    path = tmp_path / "etc" / "service.toml"
    path.parent.mkdir()
    path.write_text(
        'data = "store"\n[sinks.chat]\nkind = "webhook"\n'
        'url = "http://127.0.0.1:9/"\nsecret = "env:NOT_HERE"\n'
    )
    return path


def names(folder: Path) -> list[str]:
    store = Store(folder / "store.sqlite")
    found = sorted(store.settings.all("tokens"))
    store.close()
    return found


def test_tokens_are_in_the_data_dir(newnormal: Command, configured: Path, tmp_path: Path) -> None:
    file = "etc/service.toml"
    done = newnormal("serve", file, "token", "add", "me", "--role", "operate", status=0)
    assert done.stdout.startswith("nn_")
    assert names(configured.parent / "store") == ["me"]
    assert not (tmp_path / "newnormal-data").exists()
    assert newnormal("serve", file, "token", "list").stdout.startswith("operate")
    assert newnormal("serve", file, "token", "remove", "me").returncode == 0
    assert names(configured.parent / "store") == []


def test_the_folder_of_an_option_or_a_variable_goes_before_that_of_the_file(
    newnormal: Command, configured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newnormal("serve", str(configured), "token", "add", "me", "--data", "given")
    assert names(tmp_path / "given") == ["me"]
    monkeypatch.setenv("NEWNORMAL_SERVE_DATA", "named")
    newnormal("serve", str(configured), "token", "add", "me")
    assert names(tmp_path / "named") == ["me"]
    assert not (configured.parent / "store").exists()


def test_the_configuration_of_the_environment_counts_too(
    newnormal: Command, configured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWNORMAL_SERVE_CONFIG", str(configured))
    newnormal("serve", "token", "add", "me")
    assert names(configured.parent / "store") == ["me"]


def test_a_configuration_that_is_not_there_is_an_error(newnormal: Command, tmp_path: Path) -> None:
    assert "none.toml" in newnormal("serve", "none.toml", "token", "add", "me", status=1).stderr
    assert not (tmp_path / "newnormal-data").exists()
