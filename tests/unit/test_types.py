"""Verdicts: their documented JSON, and what columns promise."""

import inspect
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, NewnormalWarning, Verdicts, errors
from newnormal.errors import MissingExtraError, NewnormalError, ParameterError
from newnormal.types import time_text
from tests.strategies import nasty_series

WHEN = np.array(["2026-01-31T12:00:00.250", "NaT", "2026-01-31T12:00:01"], dtype="datetime64[ns]")


def three(**changes: Any) -> Verdicts:
    columns: dict[str, Any] = {
        "scores": np.array([0.1, math.nan, 7.25]),
        "thresholds": np.array([3.5, 3.5, math.inf]),
        "anomalous": np.array([False, False, True]),
        "expected": np.array([[20.5, -1e-7], [20.25, 3.0], [1 / 3, 1e300]]),
        "shares": np.array([[0.25, 0.75], [math.nan, math.nan], [1.0, 0.0]], dtype=np.float32),
        "times": WHEN,
        "channels": ("flow", 'größe "50%s"'),
        "first": 41,
    }
    return Verdicts(**(columns | changes))


def strict(text: str) -> Any:
    """Read JSON as the standard has it: without NaN and infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_verdicts_json_is_the_documented_text() -> None:
    lines = [verdict.to_json() for verdict in three()]
    assert lines == [
        '{"sample": 41, "time": "2026-01-31T12:00:00.25", "score": 0.1, "threshold": 3.5, '
        '"anomalous": false, "expected": {"flow": 20.5, "größe \\"50%s\\"": -1e-07}, '
        '"shares": {"flow": 0.25, "größe \\"50%s\\"": 0.75}}',
        '{"sample": 42, "time": null, "score": null, "threshold": 3.5, "anomalous": false, '
        '"expected": {"flow": 20.25, "größe \\"50%s\\"": 3}, '
        '"shares": {"flow": null, "größe \\"50%s\\"": null}}',
        '{"sample": 43, "time": "2026-01-31T12:00:01", "score": 7.25, "threshold": null, '
        '"anomalous": true, "expected": {"flow": 0.333333333, "größe \\"50%s\\"": 1e+300}, '
        '"shares": {"flow": 1, "größe \\"50%s\\"": 0}}',
    ]
    assert three().json_lines() == lines
    assert three().json_lines(1, 2) == lines[1:2]


def test_as_dict_is_the_json_as_values() -> None:
    for verdict in three():
        assert verdict.as_dict() == strict(verdict.to_json())
    assert three()[0].as_dict() == {
        "sample": 41,
        "time": "2026-01-31T12:00:00.25",
        "score": 0.1,
        "threshold": 3.5,
        "anomalous": False,
        "expected": {"flow": 20.5, 'größe "50%s"': -1e-7},
        "shares": {"flow": 0.25, 'größe "50%s"': 0.75},
    }


def test_samples_without_a_verdict_have_json_which_knows_no_nan_and_no_infinity() -> None:
    unjudged = np.full((3, 2), math.nan)
    for expected in (unjudged, np.array([[math.inf, 1.0], [1.7e308, 1.7e308], [-math.inf, 0]])):
        for verdict in three(expected=expected):
            strict(verdict.to_json())
    assert three(expected=unjudged)[1].as_dict()["expected"] == {"flow": None, 'größe "50%s"': None}
    overflown = three(expected=np.array([[1.7e308, 1.7e308]] * 3))[0].as_dict()
    assert overflown["expected"] == {"flow": 1.7e308, 'größe "50%s"': 1.7e308}
    detector = M2N2(window=4, epochs=1).fit(nasty_series("none missing", 40, 2))
    with pytest.warns(NewnormalWarning):
        verdicts = detector.run(nasty_series("none missing", 3, 2))
    assert [strict(line)["score"] for line in verdicts.json_lines()] == [None] * 3


def test_a_model_that_does_not_reconstruct_has_null_for_what_it_cannot_say() -> None:
    verdict = three(expected=None, shares=None)[2]
    assert verdict.expected is None
    assert verdict.shares is None
    found = strict(verdict.to_json())
    assert found["expected"] is None
    assert found["shares"] is None
    only_shares = strict(three(expected=None)[0].to_json())
    assert only_shares["shares"] == {"flow": 0.25, 'größe "50%s"': 0.75}


def test_scores_survive_json_to_the_last_bit() -> None:
    scores = np.random.default_rng(0).exponential(size=3) * np.array([1e-12, 1.0, 1e12])
    for verdict in three(scores=scores, shares=None):
        assert strict(verdict.to_json())["score"] == verdict.score


def test_a_verdict_reads_well() -> None:
    assert repr(three()[0]) == (
        "Verdict(sample=41, time=2026-01-31T12:00:00.25, score=0.1, threshold=3.5, anomalous=False)"
    )
    assert repr(three(times=None)[2]) == (
        "Verdict(sample=43, score=7.25, threshold=inf, anomalous=True)"
    )


def test_a_verdicts_values_are_pythons_own() -> None:
    verdict = three()[0]
    assert [type(value) for value in (verdict.sample, verdict.score, verdict.anomalous)] == [
        int,
        float,
        bool,
    ]


def test_a_slice_of_verdicts_is_verdicts_of_those_samples() -> None:
    verdicts = three()
    for rows in (slice(1, None), slice(-2, None), slice(1, 99)):
        assert verdicts[rows].samples.tolist() == [42, 43]
        np.testing.assert_array_equal(verdicts[rows].scores, verdicts.scores[1:])
    assert len(verdicts[2:1]) == len(verdicts[:0]) == 0
    assert repr(verdicts[:0]) == "Verdicts(no samples, 0 anomalous)"
    with pytest.raises(ParameterError, match="expected consecutive rows, found a step of 2"):
        verdicts[::2]


def test_verdicts_are_a_sequence_of_rows_and_an_array_of_scores() -> None:
    verdicts = three()
    assert len(verdicts) == 3
    assert [verdict.sample for verdict in verdicts] == verdicts.samples.tolist() == [41, 42, 43]
    assert verdicts[-1].sample == 43
    for row in (3, -4):
        with pytest.raises(IndexError, match=f"row {row} of 3 verdicts"):
            verdicts[row]
    np.testing.assert_array_equal(np.asarray(verdicts), verdicts.scores)
    assert np.asarray(verdicts, dtype=np.float32).dtype == np.float32
    copied = np.array(verdicts)
    copied[0] = 9
    assert verdicts.scores[0] == 0.1


def test_columns_make_a_table() -> None:
    table = three().columns()
    assert list(table) == ["sample", "time", "score", "threshold", "anomalous"]
    assert all(len(column) == 3 for column in table.values())
    assert list(three(times=None).columns()) == ["sample", "score", "threshold", "anomalous"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_has_what_is_known_of_each_channel_where_asked_for(library: str) -> None:
    edges = np.arange(6.0).reshape(3, 2)
    judged = three(lows=edges - 1, highs=edges + 1, channel_ratios=edges)
    frame = judged.to_frame(library, channels=True)
    names = [
        f"{c}_{kind}" for c in judged.channels for kind in ("expected", "low", "high", "ratio")
    ]
    assert list(frame.columns)[-8:] == names
    assert frame[f"{judged.channels[1]}_low"].to_list() == [0.0, 2.0, 4.0]
    one = judged[2].lows, judged[2].channel_ratios, judged[2].highs  # rows of a verdict
    np.testing.assert_array_equal(one, [[3, 4], [4, 5], [5, 6]])
    plain = three().to_frame(library, channels=True)  # without ranges, as of M2N2
    assert list(plain.columns)[-2:] == [f"{c}_expected" for c in judged.channels]


@pytest.mark.parametrize(
    ("time", "text"),
    [
        ("2026-01-01", "2026-01-01T00:00:00"),
        ("2026-01-01T10:20:30", "2026-01-01T10:20:30"),
        ("2026-01-01T00:00:00.100", "2026-01-01T00:00:00.1"),
        ("2026-01-01T00:00:00.000000001", "2026-01-01T00:00:00.000000001"),
    ],
)
def test_a_times_text_has_no_more_digits_than_it_needs(time: str, text: str) -> None:
    assert time_text(np.datetime64(time)) == text


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
    assert str(MissingExtraError.of("eval", "scikit-learn")) == (
        'scikit-learn is needed for this and is not installed\nhint: pip install "newnormal[eval]"'
    )


def test_an_error_survives_the_way_between_processes_and_a_warning_is_none() -> None:
    error = errors.InputError("expected 3, found 2", hint="give three")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert not issubclass(errors.NewnormalWarning, NewnormalError)
    assert issubclass(errors.NewnormalWarning, UserWarning)
