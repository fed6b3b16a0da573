"""Internal contrastive learning: how well a part of a sample fits the rest of it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from newnormal.errors import ParameterError
from newnormal.models.deep.base import BatchScores, DeepModel, WindowBatch

_WIDTH = 200  # u, of the embeddings
_TEMPERATURE = 0.01  # τ
_LEAK = 0.2


class ICL(DeepModel):
    """Matches k neighbouring channels to the sample's other channels; judges samples one by one.

    For data whose channels depend on each other; a sample of one channel has no rest to fit. Each
    sample is judged by itself: the window sets only how often trend and weights move. The loss is
    the score, so the model can be adapted.

    Notes
    -----
    Of a sample x with C channels, a_j are the channels j to j + k - 1 and b_j all others, for
    j = 1 … m = C - k + 1. Two networks G and F embed them on the unit sphere, and ::

        score(x) = 1/m Σ_j -log( exp(F(b_j)·G(a_j)/τ) / Σ_i exp(F(b_j)·G(a_i)/τ) )

    with τ = 0.01, as in Shenkar & Wolf, "Anomaly Detection for Tabular Data with Internal
    Contrastive Learning", ICLR 2022, whose sizes these are: k = 2 up to 40 channels, 10 up to 160,
    C - 150 above; 200-wide embeddings, which are first brought to length 1 over the m parts,
    then each by itself; Adam.

    Where they normalise batches, layers are normalised here, so that no sample's score depends on
    another's and the parameters are all there is to save. Channels keep their order: the ensemble
    over permutations is left out, as AnoShift's authors did.
    """

    reconstructs = False
    at_once = 64

    def __init__(self, window: int, channels: int, latent: int) -> None:
        if channels < 2:
            raise ParameterError(
                f"model: icl needs at least 2 channels, found {channels}",
                hint="it compares a part of a sample with the rest; choose another model",
            )
        super().__init__(window, channels, latent)

    def build(self) -> nn.Module:
        """Return F and G."""
        return _ICLNetwork(self.channels)

    def judge(self, batch: WindowBatch) -> BatchScores:
        """Score by the contrastive loss."""
        return BatchScores(self.errors(batch), None)

    def errors(self, batch: WindowBatch) -> Tensor:
        """Return the mean contrastive loss over a sample's parts."""
        samples = batch.windows.flatten(0, 1)  # (B·L, C)
        losses: Tensor = self.network(samples)
        return losses.view(batch.windows.shape[:2])

    def loss(self, batch: WindowBatch) -> Tensor:
        """Return the mean over the samples in which something was observed."""
        observed = batch.there.any(-1)  # (B, L)
        return (self.errors(batch) * observed).sum() / observed.sum().clamp(min=1)


class _ICLNetwork(nn.Module):
    """The loss of samples (N, C) → (N,)."""

    inside: Tensor  # (m, k) the channels of each part
    outside: Tensor  # (m, C - k) and those of the rest

    def __init__(self, channels: int) -> None:
        super().__init__()
        k = part(channels)
        u = _WIDTH
        self.rest = nn.Sequential(  # F
            *(nn.Linear(channels - k, u), nn.Tanh(), nn.LayerNorm(u)),
            *(nn.Linear(u, 2 * u), nn.LeakyReLU(_LEAK), nn.LayerNorm(2 * u)),
            *(nn.Linear(2 * u, u), nn.LeakyReLU(_LEAK)),
        )
        self.part = nn.Sequential(  # G
            *(nn.Linear(k, u // 4), nn.LeakyReLU(_LEAK), nn.LayerNorm(u // 4)),
            *(nn.Linear(u // 4, u // 2), nn.LeakyReLU(_LEAK)),
            *(nn.Linear(u // 2, u), nn.LeakyReLU(_LEAK)),
        )
        starts = torch.arange(channels - k + 1)[:, None]  # (m, 1)
        order = (starts + torch.arange(channels)) % channels  # (m, C) the part, then the rest
        inside, outside = order[:, :k], order[:, k:].sort(dim=1).values
        self.register_buffer("inside", inside, persistent=False)
        self.register_buffer("outside", outside, persistent=False)

    def forward(self, samples: Tensor) -> Tensor:
        parts = _on_sphere(self.part(samples[:, self.inside]))  # (N, m, u)
        rests = _on_sphere(self.rest(samples[:, self.outside]))  # (N, m, u)
        alike = rests @ parts.transpose(1, 2) / _TEMPERATURE  # (N, m rests, m parts)
        return -alike.log_softmax(dim=2).diagonal(dim1=1, dim2=2).mean(dim=1)


def part(channels: int) -> int:
    """Return k, the number of channels in a part."""
    k = 2 if channels <= 40 else 10 if channels <= 160 else channels - 150
    return min(k, channels - 1)


def _on_sphere(embeddings: Tensor) -> Tensor:
    return normalize(normalize(embeddings, dim=1), dim=2)
