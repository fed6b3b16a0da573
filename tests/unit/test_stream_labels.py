"""Labels of many streams: a column beside the channels."""

from pathlib import Path

import pytest

from newnormal.tabular import Table, read_tables, to_tables
from tests.present import present


@pytest.fixture
def plant(tmp_path: Path) -> Path:
    path = tmp_path / "plant.csv"
    path.write_text("host,load,heat,truth\na,1,2,0\nb,3,4,true\na,5,6,1\nc,7,8,2\nd,7,8,\n")
    return path


def labels(table: Table) -> list[int]:
    return [int(label) for label in present(table.labels)]


def test_labels_are_a_column_of_their_own(plant: Path) -> None:
    found = read_tables(plant, by="host", label="truth")
    assert {
        name: (t.channels, t.values.tolist(), labels(t)) for name, t in found.tables.items()
    } == {"a": (("load", "heat"), [[1, 2], [5, 6]], [0, 1]), "b": (("load", "heat"), [[3, 4]], [1])}
    assert {name: each.message for name, each in found.errors.items()} == {
        "c": "column 'truth', sample 0: expected a label 0 or 1, found 2",
        "d": "column 'truth': expected labels, found none",
    }
    assert present(found.rows)["a"].tolist() == [0, 2]


def test_known_channels_are_in_their_order(plant: Path) -> None:
    found = read_tables(plant, by="host", label="truth", channels={"a": ("heat", "load")})
    assert found.tables["a"].channels == ("heat", "load")
    assert found.tables["a"].values.tolist() == [[2, 1], [6, 5]]
    one = read_tables(plant, by="host", label="truth", columns="heat")
    assert one.tables["a"].channels == ("heat",)


def test_labels_of_long_data_are_a_tag_and_those_of_a_folder_a_column(tmp_path: Path) -> None:
    long = tmp_path / "long.csv"
    long.write_text("time,host,tag,value\n1,a,x,5\n1,a,truth,1\n2,a,x,6\n2,a,truth,0\n")
    table = read_tables(long, by="host", long=True, label="truth").tables["a"]
    assert (table.channels, labels(table)) == (("x",), [1, 0])
    folder = tmp_path / "plants"
    folder.mkdir()
    (folder / "a.csv").write_text("x,truth\n1,0\n2,1\n")
    table = read_tables(folder, label="truth").tables["a"]
    assert (table.channels, labels(table)) == (("x",), [0, 1])


def test_tables_that_were_read_are_taken_as_they_are(plant: Path) -> None:
    found = read_tables(plant, by="host", label="truth")
    assert to_tables(found) is found
