"""The same algorithm in PyTorch, as one would write it first: eager, window by window.

Nothing here is tuned and nothing is slowed down. It returns scores or losses alone, where
newnormal also returns what it expected and each channel's share.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from newnormal.core.windows import starts
from newnormal.models.base import Training
from newnormal.models.mlp import MLP
from newnormal.types import Floats, Floats32


def network(model: MLP, packed: Floats32) -> nn.Sequential:
    """Return the model as PyTorch layers with the given parameters."""
    layers: list[nn.Module] = []
    for matrix, bias in model.layers(packed):
        linear = nn.Linear(*matrix.shape)
        linear.weight.data = torch.tensor(matrix.T)
        linear.bias.data = torch.tensor(bias)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def adapting(
    net: nn.Sequential, series: Tensor, window: int, decay: float, lr: float, threshold: float
) -> Tensor:
    """Judge a standardised series (T, C), trend and weights following it; return scores (T,)."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    trend = torch.zeros(series.shape[1])
    scores = []
    for samples in torch.split(series, window):  # (L, C)
        trend = decay * trend + (1 - decay) * samples.mean(dim=0)
        inputs = samples - trend
        outputs = net(inputs.reshape(1, -1)).reshape(inputs.shape)
        score = ((outputs - inputs) ** 2).mean(dim=1)
        anomalous = score >= threshold
        loss = (score * ~anomalous).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scores.append(score.detach())
    return torch.cat(scores)


def frozen(net: nn.Sequential, series: Tensor, window: int) -> Tensor:
    """Judge a standardised series (T, C) with nothing following it; return scores (T,)."""
    scores = []
    with torch.no_grad():
        for samples in torch.split(series, window):
            outputs = net(samples.reshape(1, -1)).reshape(samples.shape)
            scores.append(((outputs - samples) ** 2).mean(dim=1))
    return torch.cat(scores)


def train(model: MLP, history: Floats, training: Training, nudge: float = 0.0) -> list[float]:
    """Train on standardised history (T, C) from the same start, in the same order, as `MLP.fit`.

    Returns each epoch's mean loss. `nudge` changes the initial weights by that share: what comes
    of it says how much of a difference in loss is rounding.
    """
    rng = np.random.default_rng(training.seed)
    net = network(model, model.initial_weights(rng) * np.float32(1 + nudge))
    optimizer = torch.optim.AdamW(net.parameters(), lr=training.lr, weight_decay=0)
    first = starts(len(history), model.window, training.stride)
    windows = np.stack([history[at : at + model.window].ravel() for at in first])
    data = torch.tensor(windows, dtype=torch.float32)
    losses = []
    for _ in range(training.epochs):
        order = torch.from_numpy(rng.permutation(len(data)))
        total = 0.0
        for chosen in torch.split(order, training.batch):
            batch = data[chosen]
            loss = ((net(batch) - batch) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        losses.append(total / len(data))
    return losses
