"""`newnormal plot`: a picture of one's own file, labels or not, of one stream or of a fleet."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import CHANGE, Command, Plant, cut, labelled
from tests.cli.fleets import Site

pytest.importorskip("matplotlib", reason="needs the extra plot")


def words(path: Path) -> str:
    """Return an SVG's own words: Matplotlib writes them as comments beside the shapes."""
    return path.read_text()


def digest(path: Path) -> str:
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()


def test_a_file_without_labels_is_drawn(moved: Plant, newnormal: Command) -> None:
    before = digest(moved.model)
    picture = moved.folder / "live.svg"
    done = newnormal("plot", moved.model, cut(moved, 2 * CHANGE).live, "-o", picture, status=0)
    assert f"wrote {picture}: 3 alarms, 1 change accepted" in done.stderr
    assert done.stdout == ""
    text = words(picture)
    assert "live.csv: " in text
    assert "true alarm" not in text
    assert "false alarm" not in text
    assert digest(moved.model) == before


def test_labels_are_drawn_where_they_are_named(moved: Plant, newnormal: Command) -> None:
    path = labelled(cut(moved, 2 * CHANGE), range(CHANGE, 2 * CHANGE))
    picture = moved.folder / "x.svg"
    newnormal("plot", moved.model, path, "--label", "truth", "-o", picture, "--dark", status=0)
    assert "true alarm" in words(picture)
    assert "#14191f" in words(picture)


@pytest.mark.parametrize("options", [(), ("--frozen",)])
def test_a_fleet_is_drawn(site: Site, newnormal: Command, options: tuple[str, ...]) -> None:
    before = digest(site.fleet)
    picture = site.folder / "fleet.svg"
    done = newnormal("plot", site.fleet, site.live, "--by", "host", "-o", picture, *options)
    assert done.returncode == 0, done.stderr
    assert f"wrote {picture}: 4 streams, " in done.stderr
    assert "live.csv: 4 streams: " in words(picture)
    assert "web-2" in words(picture)
    assert digest(site.fleet) == before


def test_channels_are_chosen(plant: Plant, newnormal: Command) -> None:
    picture = plant.folder / "x.svg"
    arguments = ("plot", plant.model, plant.live, "-o", picture)
    assert newnormal(*arguments, "--channels", "c,a").returncode == 0
    assert words(picture).index("<!-- c -->") < words(picture).index("<!-- a -->")
    assert "<!-- b -->" not in words(picture)
    done = newnormal(*arguments, "--channels", "nothing", status=1)
    assert "error: channels: expected names of channels, found 'nothing'" in done.stderr
    assert "hint: the channels are a, b, c" in done.stderr


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("x.gif", "expected a picture ending in .pdf, .png, .svg, found '.gif'"),
        ("nowhere/x.png", "expected an existing folder, found none at"),
    ],
)
def test_where_it_goes_is_checked_before_the_file_is_read(
    plant: Plant, newnormal: Command, output: str, message: str
) -> None:
    done = newnormal("plot", plant.model, "not-there.csv", "-o", plant.folder / output, status=1)
    assert message in done.stderr
    assert "not-there" not in done.stderr


def test_the_input_is_never_written_over(plant: Plant, newnormal: Command) -> None:
    picture = plant.folder / "live.png"
    picture.write_bytes(plant.live.read_bytes())
    done = newnormal("plot", plant.model, picture, "-o", picture, status=1)
    assert f"cannot write {picture}: expected another file than {picture}" in done.stderr
    assert picture.read_bytes() == plant.live.read_bytes()


def test_without_matplotlib_it_names_the_extra(
    plant: Plant, newnormal: Command, without: Callable[..., None]
) -> None:
    without("matplotlib")
    done = newnormal("plot", plant.model, plant.live, "-o", plant.folder / "x.png", status=1)
    assert "matplotlib is needed for this and is not installed" in done.stderr
    assert 'hint: pip install "newnormal[plot]"' in done.stderr
