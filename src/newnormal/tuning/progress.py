"""How far a fit is: what is done now, and the share of the whole, from counts of epochs."""

from newnormal.models.base import OnEpoch, OnPhase


class FitProgress:
    """Reports the phases of a fit, one after the other, and passes epochs on.

    The shares are those of 20,000 samples of 38 channels, measured; another history has others, so
    that a bar moves unevenly, but never back.

    `on_epoch`, `on_phase`: the caller's; None: not called.

    >>> progress = FitProgress(None, lambda what, share: print(f"{what} {share:.2f}"))
    >>> progress.begin("training", 0.0, 0.5, steps=2)
    training 0.00
    >>> progress.on_epoch(1, 0.3)
    training 0.25
    >>> progress.begin("testing", 0.5, 1.0)
    testing 0.50
    """

    def __init__(self, on_epoch: OnEpoch | None = None, on_phase: OnPhase | None = None) -> None:
        self._on_epoch = on_epoch
        self._on_phase = on_phase
        self._what = ""
        self._start = self._stop = 0.0
        self._steps, self._done = 1, 0

    def begin(self, what: str, start: float, stop: float, steps: int = 1) -> None:
        """Begin a phase of so many steps, which takes the fit from one share to another."""
        self._what, self._start, self._stop = what, start, stop
        self._steps, self._done = max(steps, 1), 0
        self._report()

    def step(self) -> None:
        """Count a step of the phase."""
        self._done += 1
        self._report()

    def on_epoch(self, done: int, loss: float) -> None:
        """Pass an epoch on, and count it as a step."""
        if self._on_epoch is not None:
            self._on_epoch(done, loss)
        self.step()

    def _report(self) -> None:
        if self._on_phase is not None:
            part = min(self._done / self._steps, 1.0)
            self._on_phase(self._what, self._start + part * (self._stop - self._start))
