"""BERT for anomalies: a sample is a sentence, and its words are what the channels' values are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newnormal.errors import StateError
from newnormal.models.base import checked
from newnormal.models.deep.base import Batches, BatchScores, DeepModel, WindowBatch

_BINS = 32
_BELOW, _ABOVE = 0, _BINS + 1  # outside of what history had
_MISSING, _MASK = _BINS + 2, _BINS + 3
_WORDS = _BINS + 4  # of a channel
_MASKED = 0.15  # share of the words hidden at once
_LAYERS, _WIDTH, _HEADS, _INNER, _DROPOUT = 2, 120, 6, 192, 0.1


class BERT(DeepModel):
    """A small BERT, trained from scratch, that guesses hidden values from the others.

    Values become words: the bin of history's quantiles they fall in, channel by channel, with a
    word of their own for values below and above all of history. Each sample is judged by itself:
    the window sets only how often trend and weights move. Adaptation descends on the training
    loss, so the model can be adapted.

    Notes
    -----
    A masked-token model over discretised rows, as in Drăgoi et al., "AnoShift: A Distribution
    Shift Benchmark for Unsupervised Anomaly Detection", NeurIPS 2022, whose sizes these are: 2
    layers of width 120 with 6 heads, inner width 192, 15 % of the words hidden. With p_c the
    probability given to channel c's word while it is hidden, ::

        score = 1 - mean_c p_c          loss = mean_c -log p_c

    They hide random words, fifteen times, to score a sample. Here the channels are dealt into
    ⌈1/0.15⌉ = 7 hands, hidden one after the other: each word is hidden once, and the same sample
    always has the same score. Their bins are logarithmic, made for their data; quantiles fit any.
    Training is with AdamW and the detector's settings. A missing value is a word too, never hidden
    and never judged.
    """

    reconstructs = False
    at_once = 32

    def __init__(self, window: int, channels: int, latent: int) -> None:
        self.edges = torch.zeros(channels, _BINS + 1)  # of each channel's bins
        hands = min(channels, math.ceil(1 / _MASKED))
        self.hands = torch.arange(channels) % hands == torch.arange(hands)[:, None]  # (H, C)
        super().__init__(window, channels, latent)

    def build(self) -> nn.Module:
        """Return the network."""
        return _BERTNetwork(self.channels)

    def judge(self, batch: WindowBatch) -> BatchScores:
        """Score by the probability the hidden words were not given."""
        likelihoods, there = self._likelihoods(batch), batch.there
        return BatchScores(
            1 - (likelihoods.exp() * there).sum(-1) / there.sum(-1).clamp(min=1), None
        )

    def errors(self, batch: WindowBatch) -> Tensor:
        """Return the mean negative log-likelihood of a sample's words, each hidden once."""
        likelihoods, there = self._likelihoods(batch), batch.there
        return -(likelihoods * there).sum(-1) / there.sum(-1).clamp(min=1)

    def prepare(self, batches: Batches) -> None:
        """Take the bins' edges from history."""
        self.edges = _edges(batches)

    def optimisers(self, lr: float) -> list[torch.optim.Optimizer]:
        """Return AdamW."""
        return [torch.optim.AdamW(self.network.parameters(), lr=lr)]

    def loss(self, batch: WindowBatch) -> Tensor:
        """Return the mean negative log-likelihood of random words, hidden and guessed."""
        words = self.words(batch)  # (N, C)
        hidden = torch.rand(words.shape)
        hidden = hidden <= hidden.min(dim=1, keepdim=True).values.clamp(min=_MASKED)
        hidden &= words != _MISSING
        likelihoods: Tensor = self.network(words, hidden)
        return -(likelihoods * hidden).sum() / hidden.sum().clamp(min=1)

    def _tensors(self) -> dict[str, NDArray[Any]]:
        """Return the bins' edges besides the rest."""
        return {"edges": self.edges.numpy()}

    def _restore(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `tensors` returned."""
        edges = checked(tensors, "edges", self.edges.numpy())
        if (np.diff(edges, axis=1) < 0).any():
            raise StateError("model.own.edges: expected increasing numbers, found others")
        self.edges = torch.from_numpy(edges)

    def words(self, batch: WindowBatch) -> Tensor:
        """Return the batch's samples as words (B·L, C)."""
        values = batch.windows.flatten(0, 1).T.contiguous()  # (C, B·L)
        words = torch.searchsorted(self.edges, values, right=True).T
        return torch.where(batch.there.flatten(0, 1) > 0, words, _MISSING)

    def _likelihoods(self, batch: WindowBatch) -> Tensor:
        """Return the log-likelihood (B, L, C) of each word while its hand is hidden."""
        words = self.words(batch)  # (N, C)
        N, C = words.shape
        hidden = self.hands[:, None].expand(-1, N, C)  # (H, N, C)
        every: Tensor = self.network(
            words.repeat(len(self.hands), 1), (hidden & (words != _MISSING)).reshape(-1, C)
        )
        return (every.view(hidden.shape) * hidden).sum(0).view(batch.windows.shape)


class _BERTNetwork(nn.Module):
    """The log-likelihood of words (N, C) of which some are hidden → (N, C)."""

    offsets: Tensor  # (C,) where a channel's words begin

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.meanings = nn.Embedding(channels * _WORDS, _WIDTH)
        self.norm = nn.LayerNorm(_WIDTH)
        layer = nn.TransformerEncoderLayer(
            _WIDTH, _HEADS, _INNER, _DROPOUT, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, _LAYERS, enable_nested_tensor=False)
        self.bias = nn.Parameter(torch.zeros(channels, _WORDS))
        nn.init.normal_(self.meanings.weight, std=0.02)
        self.register_buffer("offsets", torch.arange(channels) * _WORDS, persistent=False)

    def forward(self, words: Tensor, hidden: Tensor) -> Tensor:
        seen = torch.where(hidden, _MASK, words) + self.offsets
        states = self.encoder(self.norm(self.meanings(seen)))  # (N, C, width)
        meanings = self.meanings.weight.view(*self.bias.shape, _WIDTH)  # (C, words, width)
        logits = torch.einsum("ncd,cwd->ncw", states, meanings) + self.bias
        logits = logits[..., :_MISSING]  # a word that is guessed was observed
        guess = logits.log_softmax(-1)
        said = words.clamp(max=_ABOVE)[..., None]
        return guess.gather(-1, said)[..., 0]


def _edges(batches: Batches) -> Tensor:
    """Return each channel's quantiles (C, bins + 1) over the observed values of history."""
    every = list(batches.epoch(shuffled=False))
    values = torch.cat([batch.windows.flatten(0, 1) for batch in every]).numpy()
    there = torch.cat([batch.there.flatten(0, 1) for batch in every]).numpy() > 0
    levels = np.linspace(0, 1, _BINS + 1)
    edges = np.stack(
        [
            np.quantile(channel[seen], levels) if seen.any() else np.zeros(_BINS + 1)
            for channel, seen in zip(values.T, there.T, strict=True)
        ]
    ).astype(np.float32)
    edges[:, -1] = np.nextafter(edges[:, -1], np.float32(np.inf))  # the largest is not above
    return torch.from_numpy(edges)
