"""Models that are put into a service, and taken out of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from newnormal import M2N2, Detector, Fleet, load
from newnormal.cli.app import app
from newnormal.client import Client, ServiceError
from newnormal.errors import InputError
from newnormal.service.service import Service
from newnormal.tabular import Table
from newnormal.types import Floats
from tests.present import present
from tests.service.asgi import served
from tests.service.running import (
    HISTORY,
    PERIOD,
    START,
    Start,
    arrival,
    fit_next,
    fits,
    go_live,
    number,
    push,
    samples,
    settle,
    state,
)
from tests.waiting import until


def table(first: int, count: int) -> Table:
    times = START + np.arange(first, first + count) * PERIOD
    return Table(samples(first, count), ("a", "b"), times.view("datetime64[ns]"))


def fitted(judged: int = 0) -> Detector:
    """Return a detector of the first samples, which has judged so many of those after them."""
    detector = Detector(alarms_per_day=1).fit(table(0, HISTORY))
    if judged:
        detector.run(table(HISTORY, judged))
    return detector


def content(detector: Any, folder: Path) -> bytes:
    detector.save(folder / "model.nn")
    return (folder / "model.nn").read_bytes()


def put(service: Service, detector: Any, folder: Path, name: str = "m") -> None:
    service.put_model(name, content(detector, folder)).result()
    settle(service)


def scores(service: Service, first: int, last: int, name: str = "m") -> Floats:
    return service.store.samples.rows(number(service, name), first, last).scores


def test_a_new_stream_goes_on_where_its_model_is(service: Service, tmp_path: Path) -> None:
    detector = fitted(30)
    put(service, detector, tmp_path)
    shown = present(service.stream_named("m"))
    assert (shown.state, shown.samples, shown.channels) == ("live", 0, ("a", "b"))
    assert (shown.period, shown.newest) == (PERIOD, None)
    first = HISTORY + 25  # five that the model has judged
    push(service, arrival(first, samples(first, 60)))
    shown = present(service.stream_named("m"))
    assert (shown.samples, shown.counts["late"] + shown.counts["duplicate"]) == (55, 5)
    own = detector.run(table(HISTORY + 30, 55))
    np.testing.assert_allclose(scores(service, 0, 54), own.scores, rtol=1e-6)
    [model] = service.models(shown.id)
    assert (model["generation"], model["reason"], model["last"]) == (1, "put", -1)
    assert not list(service._clock.decide(service.applier.streams))


def test_a_model_that_is_taken_goes_on_elsewhere_as_here(service: Service, tmp_path: Path) -> None:
    go_live(service, "m")
    push(service, arrival(HISTORY, samples(HISTORY, 100)))
    taken = tmp_path / "taken.nn"
    taken.write_bytes(service.take_model(number(service)))
    detector = load(taken)
    put(service, detector, tmp_path, "copy")
    later = arrival(HISTORY + 100, samples(HISTORY + 100, 50))
    push(service, later, later._replace(stream="copy"))
    own = detector.run(table(HISTORY + 100, 50))
    here = scores(service, HISTORY + 100, HISTORY + 149)
    np.testing.assert_allclose(here, own.scores, rtol=1e-6)
    np.testing.assert_array_equal(here, scores(service, 0, 49, "copy"))


def test_what_came_after_the_models_samples_is_judged(service: Service, tmp_path: Path) -> None:
    push(service, arrival(HISTORY - 10, samples(HISTORY - 10, 50)))
    assert state(service) == "collecting"
    detector = fitted(10)
    put(service, detector, tmp_path)
    own = detector.run(table(HISTORY + 10, 30))
    judged = scores(service, 0, 49)
    assert np.isnan(judged[:20]).all()
    np.testing.assert_allclose(judged[20:], own.scores, rtol=1e-6)


def test_an_older_model_can_be_restored_after_another_was_put(
    service: Service, tmp_path: Path
) -> None:
    go_live(service, "m")
    push(service, arrival(HISTORY, samples(HISTORY, 20) + 30.0))
    assert service.store.items.page(kinds=["alarm"], open_only=True).items
    put(service, fitted(), tmp_path)
    push(service, arrival(HISTORY + 20, samples(HISTORY + 20, 10)))
    shown = present(service.stream_named("m"))
    assert (shown.generation, shown.samples, shown.attention) == (2, HISTORY + 30, "")
    assert not np.isnan(scores(service, HISTORY, HISTORY + 29)).any()
    service.restore_model(shown.id, 1).result()
    assert present(service.stream_named("m")).generation == 3


def test_what_no_stream_can_go_on_with_is_refused(service: Service, tmp_path: Path) -> None:
    untimed = Detector().fit(samples(0, HISTORY))
    whole = M2N2(window=8, epochs=1).fit(table(0, HISTORY))
    for model, message in {
        content(untimed, tmp_path): "expected a detector that was fitted on samples with times",
        content(whole, tmp_path): "expected a Detector, found M2N2",
        b"something": "the model is",
    }.items():
        with pytest.raises(InputError, match=message):
            service.put_model("m", model)
    assert service.stream_named("m") is None
    push(service, arrival(0, samples(0, HISTORY)))
    until(lambda: state(service) == "fitting", "a fit that begins")
    with pytest.raises(InputError, match="expected no fit of 'm' under way, found one"):
        put(service, fitted(), tmp_path)
    with pytest.raises(InputError, match="expected a stream with a model, found 'm' without one"):
        service.take_model(number(service))
    fit_next(service)
    assert not fits(service).jobs


def test_put_and_take_from_the_shell_and_from_python(start: Start, tmp_path: Path) -> None:
    path, out = tmp_path / "plant.nn", tmp_path / "out.nn"
    fitted().save(path)
    runner = CliRunner()
    with start() as service, served(service) as url:
        done = runner.invoke(app, ["put", f"{path}", "press/1", "--url", url])
        assert (done.exit_code, done.stderr) == (0, f"press/1 goes on with {path}\n")
        push(service, arrival(HISTORY, samples(HISTORY, 20), "press/1"))
        done = runner.invoke(app, ["take", "press/1", "-o", f"{out}", "--url", url])
        assert (done.exit_code, done.stderr) == (0, f"wrote {out}\n")
        assert load(out).counters["seen"] == load(path).counters["seen"] + 20
        with Client(url) as client:
            client.put("press/2", client.take("press/1"))
            Fleet.open(tmp_path / "state", Fleet().add("", load(path))).close()
            client.put("press/3", tmp_path / "state")
            assert client.stream("press/2")["state"] == "live"
            with pytest.raises(ServiceError, match="expected a Detector") as refused:
                client.put("m", M2N2(window=8, epochs=1).fit(samples(0, 99)))
            assert refused.value.status == 400
