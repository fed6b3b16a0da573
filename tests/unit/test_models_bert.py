"""BERT for anomalies: its words, its likelihoods, and that it learns."""

import numpy as np
import pytest

from tests.deep import assert_it_learns, torch
from newnormal.models.base import Training
from newnormal.models.deep import bert
from newnormal.models.deep.base import Batches, WindowBatch
from newnormal.models.deep.bert import BERT
from newnormal.types import Bools, Floats

CHANNELS = 4


def plant(samples: int, seed: int) -> Floats:
    """Four channels that say the same."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(-1, 1, size=(samples, 1))
    signs = np.array([1, -1, 1, -1])
    return np.asarray(level * signs + 0.02 * rng.normal(size=(samples, CHANNELS)))


def spoiled(samples: int, seed: int) -> tuple[Floats, Bools]:
    """Now and then two channels contradict the others: no value is unusual by itself."""
    series, labels = plant(samples, seed), np.zeros(samples, dtype=np.bool_)
    labels[9::15] = True
    series[labels, :2] *= -1
    labels &= np.abs(series[:, 0]) > 0.3
    return series, labels


def binned(model: BERT, history: Floats) -> BERT:
    """Give a model the bins of history, and nothing else."""
    model.edges = bert._edges(Batches(history, 5, Training(5, 1, 8, 0)))
    return model


def as_batch(samples: Floats, window: int = 5) -> WindowBatch:
    windows = torch.from_numpy(samples.astype(np.float32)).view(-1, window, samples.shape[1])
    return WindowBatch(windows.nan_to_num(0.0), (~windows.isnan()).float())


@pytest.mark.parametrize("channels", [1, 4, 9])
def test_each_word_is_hidden_once_with_its_hand(channels: int) -> None:
    model = BERT(5, channels, latent=3)
    history = np.random.default_rng(0).normal(size=(100, channels))
    binned(model, history)
    samples = history[:10].copy()
    samples[4, 0] = np.nan
    batch = as_batch(samples)
    words = model.words(batch)
    hands = min(channels, 7)
    comp = model.judge(batch)
    errors = model.errors(batch)
    with torch.no_grad():
        for n in range(10):
            found = []
            for c in range(channels):
                if np.isnan(samples[n, c]):
                    continue
                mates = [d for d in range(channels) if d % hands == c % hands]
                hidden = torch.tensor(
                    [d in mates and not np.isnan(samples[n, d]) for d in range(channels)]
                )
                found.append(float(model.network(words[n : n + 1], hidden[None])[0, c]))
            ref = 1 - np.mean(np.exp(found)) if found else 1.0
            assert float(comp.scores.flatten()[n]) == pytest.approx(ref, rel=1e-4)
            loss = -np.mean(found) if found else 0.0
            assert float(errors.flatten()[n]) == pytest.approx(loss, rel=1e-4)
    assert comp.reconstruction is None
    assert errors.requires_grad


def test_a_word_is_not_seen_while_it_is_guessed() -> None:
    model = BERT(5, CHANNELS, latent=3)
    words = torch.full((1, CHANNELS), 5)
    other = words.clone()
    other[0, 2] = 9
    hidden = torch.tensor([[False, False, True, False]])
    with torch.no_grad():
        one, two = model.network(words, hidden), model.network(other, hidden)
        assert torch.equal(one[0, [0, 1, 3]], two[0, [0, 1, 3]])
        seen = torch.zeros_like(hidden)
        assert not torch.equal(model.network(words, seen)[0, 0], model.network(other, seen)[0, 0])


def test_the_likelihoods_of_all_words_that_can_be_guessed_add_up_to_one() -> None:
    model = BERT(5, 2, latent=3)
    every = torch.arange(bert._BINS + 2)
    words = torch.stack([every, torch.full_like(every, 4)], dim=1)
    hidden = torch.tensor([True, False]).expand(len(every), 2)
    with torch.no_grad():
        total = model.network(words, hidden)[:, 0].exp().sum()
    assert float(total) == pytest.approx(1, rel=1e-5)


def test_words_are_quantiles_of_history_with_one_for_below_above_and_missing() -> None:
    history = np.arange(320.0)[:, None] * np.array([1.0, -2.0])
    model = binned(BERT(5, 2, latent=3), history)
    words = model.words(as_batch(history))
    assert np.bincount(words[:, 0].numpy(), minlength=36).tolist() == [0] + [10] * 32 + [0] * 3
    assert (words[:, 0] + words[:, 1] == 33).all()
    odd = np.array([[-0.1, 0.1], [0, 0], [319, -638], [319.1, -638.1], [np.nan, np.nan]])
    assert model.words(as_batch(odd)).tolist() == [[0, 33], [1, 32], [32, 1], [33, 0], [34, 34]]


def test_a_constant_channel_has_one_word_and_any_other_value_is_outside() -> None:
    history = np.zeros((50, 1))
    model = binned(BERT(5, 1, latent=3), history)
    assert np.unique(model.words(as_batch(history)).numpy()).size == 1
    assert model.words(as_batch(np.array([[1e-6], [-1e-6], [0], [0], [0]])))[:2, 0].tolist() == [
        bert._ABOVE,
        bert._BELOW,
    ]


def test_missing_values_do_not_count_in_the_bins() -> None:
    history = np.arange(100.0)[:, None]
    history[::2] = np.nan
    edges = binned(BERT(5, 1, latent=3), history).edges
    assert float(edges[0, 0]) == 1
    assert float(edges[0, 16]) == 50


def test_it_learns() -> None:
    live = spoiled(300, 1)
    assert_it_learns("bert", plant(1000, 0), live, batch=8, less_loss=0.8, found=0.85)
