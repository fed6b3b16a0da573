"""Write reference.json: small inputs, and what the authors' own code says of them.

The originals pin NumPy below 2, so they run in an environment of their own:

    python3.11 -m venv /tmp/originals
    /tmp/originals/bin/pip install "numpy<2" scikit-learn pandas tqdm
    /tmp/originals/bin/pip install --no-deps vus==0.0.6 TSB-AD==1.5
    /tmp/originals/bin/python tests/frozen/metrics/make_frozen.py

VUS comes from both packages (``RangeAUC_volume_opt``, their default), which must agree; the range
AUC is the last slice of the surface they return; the affiliation metrics (the code of Huet et al.)
and point adjustment come from TSB-AD. The inputs are in the file, so that no generator of random
numbers has to stay the same.
"""

import json
import random
from pathlib import Path
from typing import Any


def events(length: int, *spans: tuple[int, int]) -> list[int]:
    """Return labels with each (start, stop) span set."""
    return [int(any(start <= t < stop for start, stop in spans)) for t in range(length)]


def noisy(rng: random.Random, labels: list[int], lift: int = 300) -> list[int]:
    """Return scores that know something: noise, and `lift` more around the events, a bit late."""
    late = [0, 0, 0, *labels][: len(labels)]
    return [int(rng.random() * 700) + lift * label for label in late]


def inputs() -> dict[str, dict[str, Any]]:
    """Return the cases: labels, scores, predictions, window and number of thresholds."""
    rng = random.Random(20240220)
    typical = events(400, (50, 70), (120, 121), (200, 260), (330, 345))
    ends = events(300, (0, 20), (150, 160), (280, 300))
    close = events(300, (40, 50), (52, 60), (61, 62), (90, 95), (105, 110), (140, 141))
    dense = [int(t % 2 == 0 and 20 < t < 80) for t in range(120)]
    cases: dict[str, dict[str, Any]] = {}

    def add(
        name: str, labels: list[int], scores: list[int], window: int = 40, thresholds: int = 250
    ) -> None:
        cut = sorted(scores)[int(0.85 * len(scores))]
        cases[name] = {
            "labels": labels,
            "scores": scores,
            "predictions": [int(score >= cut) for score in scores],
            "window": window,
            "thresholds": thresholds,
        }

    add("typical", typical, noisy(rng, typical))
    add("typical, window 100", typical, noisy(rng, typical), window=100)
    add("typical, odd window", typical, noisy(rng, typical), window=7)
    add("typical, window 0", typical, noisy(rng, typical), window=0)
    add("typical, few thresholds", typical, noisy(rng, typical), thresholds=20)
    add("typical, more thresholds than samples", typical, noisy(rng, typical), thresholds=600)
    add("events at both ends", ends, noisy(rng, ends))
    add("one event at the start", events(200, (0, 15)), noisy(rng, events(200, (0, 15))))
    add("one event at the end", events(200, (199, 200)), noisy(rng, events(200, (199, 200))))
    add("events that merge as the buffer grows", close, noisy(rng, close), window=60)
    add("every other sample", dense, noisy(rng, dense), window=9)
    add("all but one sample", events(80, (0, 37), (38, 80)), noisy(rng, [0] * 80), window=5)
    add("window longer than the series", events(50, (20, 24)), noisy(rng, [0] * 50), window=130)
    add("tied scores", typical, [score // 250 for score in noisy(rng, typical)])
    add("constant scores", typical, [5] * len(typical))
    add("perfect scores", typical, typical)
    add("inverted scores", typical, [1 - label for label in typical])
    for number in range(20):
        length = rng.randrange(5, 120)
        spans = [(rng.randrange(length), rng.randrange(1, 12)) for _ in range(rng.randrange(1, 5))]
        labels = events(length, *((start, start + size) for start, size in spans))
        if 0 < sum(labels) < length:
            add(f"random {number}", labels, noisy(rng, labels), window=rng.randrange(25))
    return cases


def outputs(case: dict[str, Any]) -> dict[str, float | None]:
    """Return what the originals say."""
    import numpy as np
    from TSB_AD.evaluation.affiliation.generics import (  # type: ignore[import-not-found]
        convert_vector_to_events,
    )
    from TSB_AD.evaluation.affiliation.metrics import (  # type: ignore[import-not-found]
        pr_from_events,
    )
    from TSB_AD.evaluation.basic_metrics import (  # type: ignore[import-not-found]
        basic_metricor,
    )
    from vus.utils.metrics import metricor  # type: ignore[import-not-found]

    labels, scores = np.array(case["labels"]), np.array(case["scores"], float)
    surface = [
        package().RangeAUC_volume_opt(labels, scores, case["window"], case["thresholds"])
        for package in (basic_metricor, metricor)
    ]
    tpr, fpr, precision, _, roc, pr = surface[0]
    np.testing.assert_allclose([roc, pr], surface[1][4:], rtol=1e-13)

    near = pr_from_events(
        convert_vector_to_events(case["predictions"]),
        convert_vector_to_events(case["labels"]),
        (0, len(labels)),
    )
    # Its point adjustment never reaches the sample at index 0.
    pa_f1 = None
    if not case["labels"][0]:
        pa_f1 = basic_metricor().metric_PointF1PA(
            labels, scores, preds=np.array(case["predictions"])
        )
    return {
        "vus_roc": float(roc),
        "vus_pr": float(pr),
        "range_auc_roc": float(np.sum(np.diff(fpr[-1]) * (tpr[-1][1:] + tpr[-1][:-1]) / 2)),
        "range_auc_pr": float(np.sum(np.diff(tpr[-1][:-1]) * precision[-1][1:])),
        "affiliation_precision": float(near["Affiliation_Precision"]),
        "affiliation_recall": float(near["Affiliation_Recall"]),
        "adjusted_f1": None if pa_f1 is None else float(pa_f1),
    }


def main() -> None:
    """Write the file beside this one, a line a case."""
    lines = []
    for name, case in inputs().items():
        entry = {"name": name, **case, "expected": outputs(case)}
        for flags in ("labels", "predictions"):
            entry[flags] = "".join(map(str, case[flags]))
        lines.append(json.dumps(entry))
    path = Path(__file__).with_name("reference.json")
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(lines)} cases written to {path.name}")


if __name__ == "__main__":
    main()
