"""Each loader on a small file of the form its owners hand out, written here."""

import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.datasets import Dataset, available, catalogue, load
from newnormal.errors import DatasetError, MissingExtraError, ParameterError
from tests.present import present


def write(path: Path, content: Any) -> Path:
    """Write text, or an array."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        np.save(path, np.asarray(content))
    return path


def rows(table: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    return "".join(delimiter.join(map(str, row)) + "\n" for row in table)


HOURS = [f"2014-01-{1 + hour // 24:02d} {hour % 24:02d}:00:00" for hour in range(40)]
SECONDS = [str(np.datetime64("2020-03-09T10:14:33") + n).replace("T", " ") for n in range(403)]
# Exported from the workbooks: group names above the header, padded names, one cell of text.
SWAT_HEAD = ",P1,P1,\n Timestamp,FIT101, LIT101,Normal/Attack\n"
NASA = {
    "SMAP_MSL/labeled_anomalies.csv": (
        "chan_id,spacecraft,anomaly_sequences,class,num_values\n"
        'P-2,SMAP,"[[1, 3]]",[point],6\n'
        'P-15,MSL,"[[2, 4], [5, 6]]","[point, contextual]",6\n'
        'P-2,SMAP,"[[2, 4]]",[point],6\n'
    ),
    **{f"SMAP_MSL/train/{each}.npy": np.arange(12.0).reshape(4, 3) for each in ("P-2", "P-15")},
    **{f"SMAP_MSL/test/{each}.npy": np.arange(18.0).reshape(6, 3) for each in ("P-2", "P-15")},
}
FILES: dict[str, dict[str, Any]] = {
    "SMD/1-4": {
        "SMD/train/machine-1-4.txt": "0.5,1\n0.25,2\n",
        "SMD/test/machine-1-4.txt": "0.5,1\n9.0,2\n0.75,3\n",
        "SMD/test_label/machine-1-4.txt": "0\n1\n0\n",
    },
    "SMAP/P-2": NASA,
    "MSL/P-15": NASA,
    "CreditCard": {
        "CreditCard/creditcard.csv": '"Time","V1","V2","Amount","Class"\n0,1.5,-2.5,10,"1"\n'
        '1,2.5,0.5,20,"0"\n2,3.5,0.25,30,"0"\n3,4.5,1,40,"1"\n4,5,6,50,"0"\n'
    },
    "NAB/realKnownCause/clock": {
        "NAB/data/realKnownCause/clock.csv": "timestamp,value\n"
        + rows((time, n) for n, time in enumerate(HOURS)),
        "NAB/labels/combined_windows.json": json.dumps(
            {"realKnownCause/clock.csv": [[f"{HOURS[10]}.000000", f"{HOURS[12]}.000000"]]}
        ),
    },
    "ASD/omi-1": {
        "ASD/omi-1_train.npy": np.ones((5, 2), dtype=np.float32),
        "ASD/omi-1_test.npy": np.ones((3, 2), dtype=np.float32),
        "ASD/omi-1_test_label.npy": [0.0, 1.0, 1.0],
    },
    "JumpStarter/Dataset2/service10": {
        "JumpStarter/Dataset2/train/service10.csv": "1.5,0.0\n2.5,1.0\n",
        "JumpStarter/Dataset2/test/service10.csv": "1.5,0.0\n2.5,1.0\n3.5,2.0\n",
        "JumpStarter/Dataset2/test_label/service10.csv": "0\r\n0\r\n1\r\n",
    },
    "SKAB/valve1/0": {
        "SKAB/valve1/0.csv": "datetime;Current;Volume Flow RateRMS;anomaly;changepoint\n"
        + rows(
            ((at, n / 4, 32.0, float(n >= 401), float(n == 401)) for n, at in enumerate(SECONDS)),
            ";",
        )
    },
    "UCR/011_ECG1": {
        "UCR/011_ECG1.csv": "value,anomaly\n" + rows((n / 2, int(n == 60)) for n in range(100))
    },
    "SWaT": {
        "SWaT/SWaT_Dataset_Normal_v0.csv": SWAT_HEAD
        + " 22/12/2015 4:00:00 PM,2.5,500,Normal\n 22/12/2015 4:00:01 PM,Bad Input,501,Normal\n",
        "SWaT/SWaT_Dataset_Attack_v0.csv": SWAT_HEAD
        + " 28/12/2015 10:00:00 AM,2.5,500,Normal\n 28/12/2015 10:00:01 AM,2.6,,Attack\n"
        " 28/12/2015 10:00:02 AM,2.7,502,A ttack\n",
    },
    "WADI": {
        "WADI/WADI_14days_new.csv": "Row,Date,Time,1_AIT_001_PV,2_LS_001_AL,2_PIT_001_PV\n"
        "1,9/25/2017,00:00.0,171.1,,\n2,9/25/2017,00:01.0,,,5.5\n3,,,,,\n"
        "4,9/25/2017,00:02.0,171.3,,5.7\n",
        "WADI/WADI_attackdataLABLE.csv": ",,,,,,\n"
        "Row ,Date ,Time,1_AIT_001_PV,2_LS_001_AL,2_PIT_001_PV,"
        '"Attack LABLE (1:No Attack, -1:Attack)"\n'
        "1,10/9/17,00:00.0,164.2,,1.5,1\n2,10/9/17,00:01.0,164.3,,,-1\n3,,,,,,1\n",
    },
    "Yahoo/A1-R20": {
        "Yahoo/A1Benchmark/real_20.csv": "timestamp,value,is_anomaly\n"
        + rows((n + 1, n / 2, int(n in (5, 403))) for n in range(405))
    },
    "AnoShift/near": {},
}


def write_files(name: str, root: Path) -> None:
    for path, content in FILES[name].items():
        write(root / path, content)
    if name == "AnoShift/near":
        pl = pytest.importorskip("polars", reason="needs the extra parquet")
        (root / "AnoShift/subset").mkdir(parents=True)
        for year in range(2006, 2016):
            columns = {str(each): [f"{year}", f"{each}", "0.5"] for each in range(4, 13)}
            columns |= {"0": ["low", "high", "low"], "18": ["1", "-1", "-2"]}
            pl.DataFrame(columns).write_parquet(root / f"AnoShift/subset/{year}_subset.parquet")


def made(name: str, root: Path, **options: Any) -> Dataset:
    write_files(name, root)
    return load(name, root, **options)


@pytest.mark.parametrize("name", FILES)
def test_a_stream_loads_from_the_parent_folder_and_its_own(name: str, tmp_path: Path) -> None:
    write_files(name, tmp_path)
    (own,) = tmp_path.iterdir()
    for root in (tmp_path, own):
        assert name in available(root)
        data = load(name, root)
        assert data.name == name
        assert data.train.dtype == data.test.dtype == np.float64
        assert np.isfinite(data.train).all()
        assert data.labels.dtype == np.int64
        assert 0 < data.labels.sum() < len(data.labels)


@pytest.mark.parametrize("name", FILES)
def test_where_nothing_is_the_error_says_where_to_get_it(name: str, tmp_path: Path) -> None:
    assert available(tmp_path) == []
    entry = next(entry for entry in catalogue() if entry.name == name.partition("/")[0])
    with pytest.raises(DatasetError) as caught:
        load(name, tmp_path)
    text = str(caught.value)
    assert str(tmp_path / entry.folders[0]) in text
    assert "found none" in text
    assert f"hint: get {entry.title} from {entry.source} (licence: {entry.licence})" in text
    assert all(file in text for file in entry.files)


@pytest.mark.parametrize("name", FILES)
def test_each_file_of_a_stream_is_missed_by_name(name: str, tmp_path: Path) -> None:
    write_files(name, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    stream = name.partition("/")[2]
    others = {"SMAP/P-2": "P-15", "MSL/P-15": "P-2"}
    years = {"AnoShift/near": ("2014", "2015")}
    for path in files:
        if path.stem == others.get(name) or path.name[:4] in years.get(name, ()):
            continue  # a file of another stream
        content = path.read_bytes()
        path.unlink()
        assert name not in available(tmp_path)
        with pytest.raises(DatasetError, match=rf"expected the file \S*{path.name}.* found none"):
            load(name, tmp_path)
        path.write_bytes(content)
    assert load(name, tmp_path).name.endswith(stream)


def test_smd_has_a_minute_between_samples_and_reads_gzipped_files_too(tmp_path: Path) -> None:
    plain = made("SMD/1-4", tmp_path)
    for path in tmp_path.rglob("*.txt"):
        with gzip.open(f"{path}.gz", "wb") as file:
            file.write(path.read_bytes())
        path.unlink()
    assert available(tmp_path) == ["SMD/1-4"]
    data = load("SMD/1-4", tmp_path)
    np.testing.assert_array_equal(data.test, plain.test)
    np.testing.assert_array_equal(data.labels, [0, 1, 0])
    assert data.channels == ("0", "1")
    assert data.period == np.timedelta64(60, "s")


def test_streams_are_listed_in_the_order_people_count(tmp_path: Path) -> None:
    for machine in ("3-10", "1-4", "3-4"):
        for part in ("train", "test", "test_label"):
            write(tmp_path / f"SMD/{part}/machine-{machine}.txt", "1\n")
    assert available(tmp_path) == ["SMD/1-4", "SMD/3-4", "SMD/3-10"]


def test_nasa_intervals_leave_out_their_end_and_the_other_spacecraft_is_refused(
    tmp_path: Path,
) -> None:
    np.testing.assert_array_equal(made("MSL/P-15", tmp_path).labels, [0, 0, 1, 1, 0, 1])
    data = load("SMAP/P-2", tmp_path)
    np.testing.assert_array_equal(data.labels, [0, 1, 1, 1, 0, 0])
    assert data.channels == ("telemetry", "command 1", "command 2")
    assert data.period is None
    write_files("SMAP/P-2", tmp_path)
    assert available(tmp_path) == ["SMAP/P-2", "MSL/P-15"]
    with pytest.raises(DatasetError, match="expected the channel P-2 of MSL, found P-2 of SMAP"):
        load("MSL/P-2", tmp_path)


def test_creditcard_drops_time_and_trains_on_the_first_half(tmp_path: Path) -> None:
    data = made("CreditCard", tmp_path)
    assert data.channels == ("V1", "V2", "Amount")
    np.testing.assert_array_equal(data.train, [[1.5, -2.5, 10], [2.5, 0.5, 20]])
    assert data.test.shape == (3, 3)
    np.testing.assert_array_equal(data.labels, [0, 1, 0])


def test_nab_trains_on_its_probationary_period_of_750_samples_unless_told(tmp_path: Path) -> None:
    data = made("NAB/realKnownCause/clock", tmp_path)
    assert len(data.train) == 6  # 15 % of 40
    np.testing.assert_array_equal(np.flatnonzero(data.labels), [4, 5, 6])
    assert data.period == np.timedelta64(1, "h")
    assert present(data.test_times)[0] == np.datetime64("2014-01-01T06:00")
    times = np.datetime64("2014-01-01T00:00:00") + np.arange(6000) * np.timedelta64(300, "s")
    table = [(str(time).replace("T", " "), 1.0) for time in times]
    write(tmp_path / "NAB/data/a/b.csv", "timestamp,value\n" + rows(table))
    write(tmp_path / "NAB/labels/combined_windows.json", '{"a/b.csv": []}')
    assert len(load("NAB/a/b", tmp_path).train) == 750
    assert len(load("NAB/a/b", tmp_path, cap=None).train) == 900


def test_nab_times_that_repeat_are_left_out(tmp_path: Path) -> None:
    write_files("NAB/realKnownCause/clock", tmp_path)
    path = tmp_path / "NAB/data/realKnownCause/clock.csv"
    path.write_text(path.read_text().replace("2014-01-02 03:00:00", "2014-01-02 02:00:00"))
    data = load("NAB/realKnownCause/clock", tmp_path)
    assert data.train_times is None
    assert data.test_times is None
    assert data.period == np.timedelta64(1, "h")


def test_asd_and_jumpstarter_have_five_minutes_between_samples(tmp_path: Path) -> None:
    assert made("ASD/omi-1", tmp_path).period == np.timedelta64(5, "m")
    data = made("JumpStarter/Dataset2/service10", tmp_path)
    assert data.period == np.timedelta64(5, "m")
    np.testing.assert_array_equal(data.labels, [0, 0, 1])


def test_skab_trains_on_400_samples_and_keeps_times_and_channels(tmp_path: Path) -> None:
    data = made("SKAB/valve1/0", tmp_path)
    assert data.channels == ("Current", "Volume Flow RateRMS")
    assert data.train.shape == (400, 2)
    np.testing.assert_array_equal(data.test, [[100, 32], [100.25, 32], [100.5, 32]])
    np.testing.assert_array_equal(data.labels, [0, 1, 1])
    assert data.period == np.timedelta64(1, "s")
    assert present(data.test_times)[0] == np.datetime64("2020-03-09T10:21:13")


def test_skab_without_labels_is_not_listed_and_has_no_repeated_times(tmp_path: Path) -> None:
    write_files("SKAB/valve1/0", tmp_path)
    write(tmp_path / "SKAB/anomaly-free/anomaly-free.csv", "datetime;Current\n")
    assert available(tmp_path) == ["SKAB/valve1/0"]
    path = tmp_path / "SKAB/valve1/0.csv"
    path.write_text(path.read_text().replace("10:14:34", "10:14:33"))
    data = load("SKAB/valve1/0", tmp_path)
    assert data.train_times is None
    assert data.test_times is None


def test_ucr_trains_on_35_percent_or_80_percent_and_lists_no_other_tables(tmp_path: Path) -> None:
    data = made("UCR/011_ECG1", tmp_path)
    assert data.train.shape == (35, 1)
    np.testing.assert_array_equal(np.flatnonzero(data.labels), [25])
    assert data.period is None
    path = tmp_path / "UCR/011_ECG1.csv"
    early = [(n / 2, int(n == 21)) for n in range(100)]
    path.write_text("value,anomaly\n" + rows(early))
    data = load("UCR/011_ECG1", tmp_path)
    assert data.train.shape == (16, 1)
    np.testing.assert_array_equal(np.flatnonzero(data.labels), [5])
    write_files("UCR/011_ECG1", tmp_path)
    write(tmp_path / "UCR/readings.csv", "value,anomaly\n1,0\n")
    assert available(tmp_path / "UCR") == ["UCR/011_ECG1"]


def test_asd_never_unpickles(tmp_path: Path) -> None:
    write_files("ASD/omi-1", tmp_path)
    pickled = np.array([{"a": 1}], dtype=object)
    np.save(tmp_path / "ASD/omi-1_train.npy", pickled, allow_pickle=True)
    with pytest.raises(DatasetError, match="expected a NumPy array of numbers"):
        load("ASD/omi-1", tmp_path)


def test_swat_fills_forward_and_counts_the_typo_only_when_told(tmp_path: Path) -> None:
    data = made("SWaT", tmp_path)
    assert data.channels == ("FIT101", "LIT101")
    np.testing.assert_array_equal(data.train, [[2.5, 500], [2.5, 501]])
    np.testing.assert_array_equal(data.test, [[2.5, 500], [2.6, 500], [2.7, 502]])
    np.testing.assert_array_equal(data.labels, [0, 1, 0])
    np.testing.assert_array_equal(load("SWaT", tmp_path, typo_is_attack=True).labels, [0, 1, 1])
    assert data.period == np.timedelta64(1, "s")


def test_swat_exports_with_semicolons_are_read_and_a_label_that_is_neither_refused(
    tmp_path: Path,
) -> None:
    comma = made("SWaT", tmp_path)
    for path in tmp_path.rglob("*.csv"):
        path.write_text(path.read_text().replace(",", ";").replace(".", ","))
    semicolon = load("SWaT", tmp_path)
    np.testing.assert_array_equal(semicolon.train, comma.train)
    np.testing.assert_array_equal(semicolon.test, comma.test)
    write_files("SWaT", tmp_path)
    path = tmp_path / "SWaT/SWaT_Dataset_Attack_v0.csv"
    path.write_text(path.read_text().replace("A ttack", "Maybe"))
    with pytest.raises(DatasetError, match=r"expected Normal or Attack .* found 'Maybe'"):
        load("SWaT", tmp_path)


def test_wadi_drops_what_is_empty_fills_both_ways_and_keeps_labelled_rows(tmp_path: Path) -> None:
    data = made("WADI", tmp_path)
    assert data.channels == ("1_AIT_001_PV", "2_PIT_001_PV")
    np.testing.assert_array_equal(data.train, [[171.1, 5.5], [171.1, 5.5], [171.3, 5.7]])
    np.testing.assert_array_equal(data.test, [[164.2, 1.5], [164.3, 1.5], [164.3, 1.5]])
    np.testing.assert_array_equal(data.labels, [0, 1, 0])


def test_yahoo_trains_on_the_first_400_samples(tmp_path: Path) -> None:
    data = made("Yahoo/A1-R20", tmp_path)
    assert data.train.shape == (400, 1)
    np.testing.assert_array_equal(data.labels, [0, 0, 0, 1, 0])
    assert data.period == np.timedelta64(1, "h")


def test_anoshift_trains_on_normal_rows_and_splits_near_from_far(tmp_path: Path) -> None:
    data = made("AnoShift/near", tmp_path)
    assert data.train.shape == (5, 9)
    assert data.train[:, 0].tolist() == [2006, 2007, 2008, 2009, 2010]
    assert data.test[::3, 0].tolist() == [2011, 2012, 2013]
    np.testing.assert_array_equal(data.labels, [0, 1, 1] * 3)
    assert load("AnoShift/far", tmp_path).test[::3, 0].tolist() == [2014, 2015]
    assert load("AnoShift/2014", tmp_path).test.shape == (3, 9)


def test_anoshift_names_polars_as_missing(tmp_path: Path, without: Callable[..., None]) -> None:
    without("polars")
    with pytest.raises(MissingExtraError, match=r'pip install "newnormal\[parquet\]"'):
        load("AnoShift/near", tmp_path)


SWAT = "Timestamp,FIT101,LIT101,Normal/Attack\n"
WADI = "Row,Date,Time,1_AIT_001_PV,2_LS_001_AL,2_PIT_001_PV,L\n"
MALFORMED = {
    ("SMD/1-4", "SMD/train/machine-1-4.txt"): {
        "1,2\n1,x\n": "expected numbers .* 'x'",
        "1,2\n1\n": "expected numbers separated",
        "": "expected numbers .* no data",
    },
    ("SMD/1-4", "SMD/test/machine-1-4.txt"): {"1\n2\n3\n": r"of 2 channels, found .*\(3, 1\)"},
    ("SMD/1-4", "SMD/test_label/machine-1-4.txt"): {
        "0\n1\n": "a label for each of 3 test",
        "0\n2\n1\n": "labels 0 and 1, found 2",
    },
    ("MSL/P-15", "SMAP_MSL/labeled_anomalies.csv"): {
        "a,b\n": "the columns chan_id, .* found a",
        "chan_id,spacecraft,anomaly_sequences\nP-15,MSL,[[1\n": "expected intervals such as",
    },
    ("CreditCard", "CreditCard/creditcard.csv"): {"": "Time, Amount, Class, found none"},
    ("NAB/realKnownCause/clock", "NAB/labels/combined_windows.json"): {
        "{": "expected JSON",
        "{}": "expected windows",
    },
    ("NAB/realKnownCause/clock", "NAB/data/realKnownCause/clock.csv"): {
        "timestamp,value\nnoon,1\n": "expected a time and a number"
    },
    ("ASD/omi-1", "ASD/omi-1_test.npy"): {"junk": "expected a NumPy array"},
    ("SKAB/valve1/0", "SKAB/valve1/0.csv"): {
        "datetime,anomaly\n": "the columns datetime, ano",
        "datetime;Current;anomaly\nnoon;1;0\n": "a time and numbers separated by semicolons",
        "datetime;Current;anomaly\n2020-03-09 10:14:33;1;0\n": "more than 400 rows, found 1",
    },
    ("UCR/011_ECG1", "UCR/011_ECG1.csv"): {
        "value,anomaly\n1,0\n": "one marked sample, found 0",
        "value,anomaly\n1,1\n2,0\n": "samples before the marked one, found it at sample 0",
    },
    ("SWaT", "SWaT/SWaT_Dataset_Normal_v0.csv"): {
        "a,b\n1,2\n": "a header with .* Timestamp",
        SWAT: "expected rows below the header",
        f"{SWAT}1,2,3,Normal\n1,2\n": "expected 4 cells in a row, found 2 in row 2",
        SWAT.replace("LIT1", "FIT2") + "1,2,3,Normal\n": "Normal_v0.csv, .* FIT201, LIT101",
    },
    ("WADI", "WADI/WADI_attackdataLABLE.csv"): {
        f"{WADI}1,d,t,1,,1,0\n": "expected 1 or -1 in the last column, found '0'"
    },
    ("WADI", "WADI/WADI_14days_new.csv"): {
        "Row,Date,Time,1_AIT_001_PV\n1,d,t,1\n": "expected the columns of WADI_14days_new.csv"
    },
    ("Yahoo/A1-R20", "Yahoo/A1Benchmark/real_20.csv"): {
        "timestamp,value,is_anomaly\n1,2,0\n": "more than 400 rows, found 1"
    },
    ("AnoShift/near", "AnoShift/subset/2007_subset.parquet"): {"junk": "expected numbers in"},
}


@pytest.mark.parametrize(("name", "file"), MALFORMED)
def test_a_malformed_file_is_named_with_what_was_expected(
    name: str, file: str, tmp_path: Path
) -> None:
    write_files(name, tmp_path)
    for content, expected in MALFORMED[name, file].items():
        write(tmp_path / file, content)
        with pytest.raises(DatasetError, match=expected) as caught:
            load(name, tmp_path)
        assert "(licence: " in str(caught.value)


def test_an_unknown_name_or_option_is_refused_with_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="expected the name of a data set, found 'SMB/1-4'"):
        load("SMB/1-4", tmp_path)
    write_files("SMD/1-4", tmp_path)
    with pytest.raises(ParameterError, match=r"several streams.*\nhint: load one of SMD/1-4"):
        load("SMD", tmp_path)
    with pytest.raises(ParameterError, match="SWaT is one stream"):
        load("SWaT/2015", tmp_path)
    with pytest.raises(ParameterError, match="no option 'cap'\nhint: its options are: none"):
        load("SMD/1-4", tmp_path, cap=3)
    with pytest.raises(ParameterError, match="its options are: typo_is_attack"):
        load("SWaT", tmp_path, typo=True)


def test_a_missing_stream_is_met_with_those_found_and_case_does_not_matter(tmp_path: Path) -> None:
    write_files("SMD/1-4", tmp_path)
    with pytest.raises(DatasetError, match="found there: SMD/1-4"):
        load("SMD/9-9", tmp_path)
    write_files("SMD/1-4", tmp_path)
    assert load("smd/1-4", tmp_path).name == "SMD/1-4"


def test_the_catalogue_says_all_of_each_data_set() -> None:
    entries = catalogue()
    assert len({entry.name for entry in entries}) == len(entries) == 13
    for entry in entries:
        assert entry.title
        assert entry.licence
        assert entry.period
        assert entry.split
        assert entry.files
        assert entry.source.startswith("https://")


def test_the_guide_names_each_data_set_with_its_source_and_licence() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/data.md").read_text(encoding="utf-8")
    for entry in catalogue():
        assert f"`{entry.name}" in guide
        assert entry.source.split(" ")[0] in guide
        assert entry.licence in guide
        assert all(option in guide for option in entry.options)
        assert f"  {entry.folders[0]}/ " in guide
