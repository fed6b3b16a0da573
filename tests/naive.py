"""Algorithm 1 again, slowly and obviously: the twin that the compiled loop is compared with.

Everything is float64, lists and loops. Nothing is taken from the kernels but the meaning of their
results: this file is written from the description of the method, and is meant to be read beside
the paper.

Words: a *layer* is its matrix (inputs, outputs) and its bias (outputs,). A *window* is the newest
L samples, shape (L, C). Missing values are NaN.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.naive_members import NaiveMembers

Array = NDArray[np.float64]
Layer = tuple[Array, Array]

FLOAT32_MAX = float(np.finfo(np.float32).max)
SATURATION = 1e15  # a scaled value beyond this counts as this
COPY_EVERY = 64  # learning steps between good copies


def assert_near(comp: Any, ref: Any, rtol: float, atol: float = 0.0) -> None:
    """Do as assert_allclose does, which takes its time only where the answer is not plain."""
    if not np.all(np.abs(comp - ref) <= atol + rtol * np.abs(ref)):
        np.testing.assert_allclose(comp, ref, rtol=rtol, atol=atol)


# ------------------------------------------------------------------ scaling


def fit_scaler(history: Array) -> tuple[Array, Array]:
    """Return each channel's mean and population standard deviation; a constant's is 1."""
    channels = history.shape[1]
    mean, scale = np.zeros(channels), np.ones(channels)
    for c in range(channels):
        seen = [value for value in history[:, c] if not np.isnan(value)]
        mean[c] = sum(seen) / len(seen)
        if min(seen) == max(seen):
            mean[c] = seen[0]
            continue
        unit = max(abs(value) for value in seen)  # squares of tiny values would vanish
        squares = [((value - mean[c]) / unit) ** 2 for value in seen]
        scale[c] = unit * (sum(squares) / len(squares)) ** 0.5
    return mean, scale


def standardise(samples: Array, mean: Array, scale: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.clip((samples - mean) / scale, -SATURATION, SATURATION)


# ------------------------------------------------------------------ the network


def copy_layers(layers: Any) -> list[Layer]:
    """Return layers (as `MLP.layers` gives them) as float64 copies."""
    return [
        (np.array(matrix, dtype=np.float64), np.array(bias, dtype=np.float64))
        for matrix, bias in layers
    ]


def reconstruct(layers: list[Layer], x: Array) -> list[Array]:
    """Return the input and every layer's output; ReLU after each layer but the last."""
    units = [x]
    for number, (matrix, bias) in enumerate(layers):
        y = units[-1] @ matrix + bias
        if number < len(layers) - 1:
            y = np.where(y > 0, y, 0.0)
        units.append(y)
    return units


def gradients(layers: list[Layer], units: list[Array], slope: Array) -> list[Layer]:
    """Return the loss's gradient for each layer, given its slope at the reconstruction."""
    found: list[Layer] = []
    for number in reversed(range(len(layers))):
        found.insert(0, (np.outer(units[number], slope), slope))
        slope = layers[number][0] @ slope
        if number > 0:
            slope = np.where(units[number] > 0, slope, 0.0)
    return found


def fits_float32(arrays: Any) -> bool:
    """Whether all values are numbers that a float32 can hold."""
    return all(bool(np.all(np.abs(array) <= FLOAT32_MAX)) for array in arrays)


# ------------------------------------------------------------------ scores


def score_samples(residual: Array, seen: Array) -> Array:
    """Return each sample's mean squared residual over its observed channels; NaN without any."""
    scores = np.full(len(residual), np.nan)
    for k in range(len(residual)):
        if squares := [residual[k, c] ** 2 for c in range(residual.shape[1]) if seen[k, c]]:
            scores[k] = sum(squares) / len(squares)
    return scores


def loss_slope(residual: Array, seen: Array, learnable: list[bool]) -> Array:
    """Return d loss / d reconstruction; loss = sum of the learnable samples' scores / L."""
    window = len(residual)
    slope = np.zeros_like(residual)
    for k in range(window):
        if learnable[k]:
            observed = int(seen[k].sum())
            for c in range(residual.shape[1]):
                if seen[k, c]:
                    slope[k, c] = 2 * residual[k, c] / observed / window
    return slope


# ------------------------------------------------------------------ the stream


@dataclass
class NaiveVerdict:
    sample: int
    score: float
    anomalous: bool
    expected: Array
    shares: Array


@dataclass
class NaiveStream:
    """A live stream: it remembers every sample it ever saw."""

    mean: Array
    scale: Array
    fitted: list[Layer]
    window: int
    stride: int
    threshold: float
    decay: float  # 1 for no detrending
    lr: float  # 0 for no adaptation
    at_once: bool = False  # missing samples come before the first, so that none is pending

    samples: list[Array] = field(default_factory=list)
    judged: int = 0  # samples that have a verdict
    cycle_began: int = 0  # the number of the first sample of the cycle
    learned: int = 0
    restored: int = 0
    age: int = 0  # learning steps since the good copy

    def __post_init__(self) -> None:
        self.trend = np.zeros(len(self.mean))
        self.layers = copy_layers(self.fitted)
        self.good = copy_layers(self.fitted)

    def step(self, sample: Array) -> list[NaiveVerdict]:
        self.samples.append(np.array(sample, dtype=np.float64))
        in_cycle = len(self.samples) - self.cycle_began
        full = self.at_once or len(self.samples) >= self.window
        if not full or in_cycle % self.stride != 0:
            return []
        return self.judge(ends_cycle=in_cycle == self.window)

    def flush(self) -> list[NaiveVerdict]:
        if len(self.samples) < self.window or self.judged == len(self.samples):
            return []
        return self.judge(ends_cycle=True)

    @np.errstate(over="ignore", invalid="ignore")  # the guard's business
    def judge(self, *, ends_cycle: bool) -> list[NaiveVerdict]:
        newest = self.samples[-self.window :]
        missing = [np.full(len(self.mean), np.nan)] * (self.window - len(newest))
        window = standardise(np.array([*missing, *newest]), self.mean, self.scale)
        seen = ~np.isnan(window)

        # 1. The trend moves with the window's observed samples, anomalous or not.
        if ends_cycle:
            for c in range(len(self.trend)):
                values = window[seen[:, c], c]
                if len(values) > 0:
                    self.trend[c] = self.decay * self.trend[c] + (1 - self.decay) * values.mean()

        # 2. It is subtracted; what is missing enters as 0.
        entering = np.where(seen, window - self.trend, 0.0)

        # 3. The scores, with the weights as they were.
        units, residual, scores = self.look(entering, seen)
        if not self.sane(units, scores, seen):
            self.restored += 1
            self.age = 0
            self.layers = copy_layers(self.good)
            units, residual, scores = self.look(entering, seen)
            if not self.sane(units, scores, seen):
                self.layers, self.good = copy_layers(self.fitted), copy_layers(self.fitted)
                units, residual, scores = self.look(entering, seen)

        # 4. The verdicts on the samples that have none yet.
        verdicts = []
        for number in range(self.judged, len(self.samples)):
            k = number - (len(self.samples) - self.window)
            squares = np.where(seen[k], residual[k] ** 2, 0.0)
            if not seen[k].any():
                shares = np.full(len(squares), np.nan)
            elif squares.sum() == 0:
                shares = np.zeros(len(squares))
            else:
                shares = squares / squares.sum()
            verdicts.append(
                NaiveVerdict(
                    sample=number,
                    score=float(scores[k]),
                    anomalous=not np.isnan(scores[k]) and bool(scores[k] >= self.threshold),
                    expected=(entering[k] + residual[k] + self.trend) * self.scale + self.mean,
                    shares=shares,
                )
            )
        self.judged = len(self.samples)

        # 5. One step of SGD on the samples judged normal.
        if ends_cycle:
            self.cycle_began = len(self.samples)
            learnable = [
                not np.isnan(score) and not bool(score >= self.threshold) for score in scores
            ]
            if self.lr != 0 and any(learnable):
                self.learn(units, loss_slope(residual, seen, learnable))
        return verdicts

    def look(self, entering: Array, seen: Array) -> tuple[list[Array], Array, Array]:
        """Return the network's units, the residual (L, C) and the scores (L,)."""
        units = reconstruct(self.layers, entering.reshape(-1))
        residual = units[-1].reshape(entering.shape) - entering
        return units, residual, score_samples(residual, seen)

    @staticmethod
    def sane(units: list[Array], scores: Array, seen: Array) -> bool:
        return fits_float32(units) and bool(np.isfinite(scores[seen.any(axis=1)]).all())

    def learn(self, units: list[Array], slope: Array) -> None:
        steps = gradients(self.layers, units, slope.reshape(-1))
        self.layers = [
            (matrix - self.lr * matrix_step, bias - self.lr * bias_step)
            for (matrix, bias), (matrix_step, bias_step) in zip(self.layers, steps, strict=True)
        ]
        self.learned += 1
        self.age += 1
        if not fits_float32(part for layer in self.layers for part in layer):
            self.layers = copy_layers(self.good)
            self.restored += 1
            self.age = 0
        elif self.age == COPY_EVERY:
            self.good = copy_layers(self.layers)
            self.age = 0


# ------------------------------------------------------------------ the committee


@dataclass
class NaiveExpert:
    """One memory: the trend it follows, and what it has subtracted so far."""

    decay: float  # share of the trend that a sample keeps
    scale: Array  # (C,) deviation of what is left on history
    stream: NaiveStream  # the autoencoder, fed with what is left

    def __post_init__(self) -> None:
        self.level = np.zeros(len(self.scale))
        self.trails: list[Array] = []  # the trend at each sample
        self.rests: list[Array] = []  # each sample less that

    def follow(self, scaled: Array, hold: bool) -> list[NaiveVerdict]:
        for c, value in enumerate(scaled):
            if not hold and not np.isnan(value):
                pull = min(max(value, self.level[c] - 1e3), self.level[c] + 1e3)
                self.level[c] = self.decay * self.level[c] + (1 - self.decay) * pull
        self.trails.append(self.level.copy())
        self.rests.append(scaled - self.level)
        return self.stream.step(self.rests[-1])


@dataclass
class NaiveVote:
    """One look at what an expert left, and what history says of it."""

    expert: int
    basis: Array | None  # (K, C) of the linear subspace; None for the autoencoder
    usual: Array  # (C,) mean square of each channel
    center: float
    spread: float
    weight: float

    def squares(self, expert: NaiveExpert, verdict: NaiveVerdict) -> Array:
        """Return each channel's squared residual, 0 where missing."""
        rest = expert.rests[verdict.sample]
        seen = ~np.isnan(rest)
        unit = np.where(seen, rest / expert.scale, 0.0)
        if self.basis is None:
            residual = verdict.expected / expert.scale - unit
        else:
            inside = sum((np.dot(row, unit) * row for row in self.basis), np.zeros(len(unit)))
            residual = unit - inside
        return np.where(seen, residual**2, 0.0)


@dataclass
class NaiveMemberVote:
    """The vote of a member without a trend."""

    kind: str
    usual: Array  # (C,) mean square of each channel
    center: float
    spread: float
    weight: float


@dataclass
class NaiveCommittee:
    """Experts, each with a memory of its own, and others, whose votes are averaged.

    They are smoothed, but for those of what expects a sample.
    """

    mean: Array
    scale: Array
    experts: list[NaiveExpert]
    votes: list[NaiveVote]
    keep: float  # of the smoothed vote, at each sample
    spokesman: int
    threshold: float
    hold: bool  # the trends
    members: NaiveMembers
    member_votes: list[NaiveMemberVote]

    smooth: float | None = None

    def step(self, sample: Array, phase: float = np.nan) -> list[NaiveVerdict]:
        self.phase = phase
        self.scaled = standardise(np.array(sample, dtype=np.float64), self.mean, self.scale)
        if not self.members.samples:  # a trend begins at the first sample
            for expert in self.experts:
                expert.level = np.clip(np.nan_to_num(self.scaled), -1e3, 1e3)
        self.members.see(self.scaled)
        return self.conclude([expert.follow(self.scaled, self.hold) for expert in self.experts])

    def flush(self) -> list[NaiveVerdict]:
        return self.conclude([expert.stream.flush() for expert in self.experts])

    def usual(self, v: int) -> float:
        """Return what vote `v` usually is at this phase."""
        if np.isnan(self.phase):
            return 0.0
        table = self.members.params.usual_votes
        return float(table[int(self.phase) % len(table), v])

    def ballot(self, looks: list[list[NaiveVerdict]], row: int) -> list[tuple[Any, Array | None]]:
        """Return every vote with its squares; None where there is no vote yet."""
        found: list[tuple[Any, Array | None]] = [
            (vote, vote.squares(self.experts[vote.expert], looks[vote.expert][row]))
            for vote in self.votes
        ]
        return found + [
            (vote, self.members.squares(vote.kind, self.scaled, self.phase))
            for vote in self.member_votes
        ]

    def conclude(self, looks: list[list[NaiveVerdict]]) -> list[NaiveVerdict]:
        """Return the committee's verdicts on the samples that every expert has judged now."""
        verdicts = []
        for row, spoken in enumerate(looks[self.spokesman]):
            number = spoken.sample
            verdict = NaiveVerdict(
                sample=number,
                score=np.nan,
                anomalous=False,
                expected=np.full(len(self.mean), np.nan),  # channels have what is expected
                shares=np.full(len(self.mean), np.nan),
            )
            verdicts.append(verdict)
            observed = int((~np.isnan(self.experts[0].rests[number])).sum())
            if observed == 0:
                continue
            together, at_once, shares = 0.0, 0.0, np.zeros(len(self.mean))
            self.newest = np.full(len(self.votes) + len(self.member_votes), np.nan)
            for v, (vote, squares) in enumerate(self.ballot(looks, row)):
                if vote.weight == 0 or squares is None:
                    continue  # which counts as a vote of 0
                count = observed if v < len(self.votes) else int((~np.isnan(squares)).sum())
                if count == 0:
                    continue
                relative = np.nan_to_num(squares) / vote.usual
                log = np.log(relative.sum() / count + 1e-12)
                own = (log - vote.center) / vote.spread - self.usual(v)
                if v - len(self.votes) in (2, 3) and own > 3:  # windows and shapes
                    own = 3 + np.log(own - 2)
                self.newest[v] = own
                counted = max(own, 0.0)
                expects = v == len(self.votes) or (v < len(self.votes) and vote.basis is None)
                if expects:
                    at_once += vote.weight * counted
                else:
                    together += vote.weight * counted
                part = vote.weight * (counted + 1e-3)
                if relative.sum() > 0:
                    shares += part * relative / relative.sum()
            before = together if self.smooth is None else self.smooth
            self.smooth = self.keep * before + (1 - self.keep) * together
            verdict.score = float(np.exp(min(self.smooth + at_once, 700.0)))
            verdict.anomalous = bool(verdict.score >= self.threshold)
            verdict.shares = shares / shares.sum() if shares.sum() > 0 else shares
        return verdicts


# ------------------------------------------------------------------ training and threshold


def train(
    layers: list[Layer], windows: list[Array], orders: list[list[int]], batch: int, lr: float
) -> tuple[list[Layer], list[float]]:
    """Adam over batches in the given orders; return the best epoch's layers and all losses."""
    beta1, beta2, epsilon = 0.9, 0.999, 1e-8
    parts = [part for layer in layers for part in layer]
    first = [np.zeros_like(part) for part in parts]
    second = [np.zeros_like(part) for part in parts]
    losses: list[float] = []
    best = copy_layers(layers)
    steps = 0
    for order in orders:
        total = 0.0
        for at in range(0, len(order), batch):
            chosen = [windows[index] for index in order[at : at + batch]]
            mean_gradient = [np.zeros_like(part) for part in parts]
            for window in chosen:
                seen = ~np.isnan(window)
                entering = np.where(seen, window, 0.0)
                units = reconstruct(layers, entering.reshape(-1))
                residual = units[-1].reshape(window.shape) - entering
                scores = score_samples(residual, seen)
                total += float(np.nansum(scores)) / len(window)
                slope = loss_slope(residual, seen, [not np.isnan(score) for score in scores])
                found = gradients(layers, units, slope.reshape(-1))
                for i, part in enumerate(part for layer in found for part in layer):
                    mean_gradient[i] += part / len(chosen)
            steps += 1
            for i in range(len(parts)):
                first[i] = beta1 * first[i] + (1 - beta1) * mean_gradient[i]
                second[i] = beta2 * second[i] + (1 - beta2) * mean_gradient[i] ** 2
                unbiased = first[i] / (1 - beta1**steps)
                size = np.sqrt(second[i] / (1 - beta2**steps))
                parts[i] -= lr * unbiased / (size + epsilon)
        losses.append(total / len(order))
        if losses[-1] == min(losses):
            best = copy_layers(layers)
    return best, losses


def window_starts(length: int, window: int, stride: int) -> list[int]:
    """Return where windows start: every `stride` samples, and one that ends with the series."""
    found = list(range(0, length - window + 1, stride))
    if found[-1] != length - window:
        found.append(length - window)
    return found


def history_scores(layers: list[Layer], scaled: Array, window: int) -> list[float]:
    """Return the scores the threshold is taken from, for stride = window.

    The samples of all non-overlapping windows, those repeated by the last one included, less as
    many of the smallest scores as there are repeats.
    """
    scores: list[float] = []
    covered = 0
    for start in window_starts(len(scaled), window, window):
        part = scaled[start : start + window]
        seen = ~np.isnan(part)
        entering = np.where(seen, part, 0.0)
        residual = reconstruct(layers, entering.reshape(-1))[-1].reshape(part.shape) - entering
        scores += [score for score in score_samples(residual, seen) if not np.isnan(score)]
        covered += window
    repeats = covered - len(scaled)
    return sorted(scores)[repeats:]
