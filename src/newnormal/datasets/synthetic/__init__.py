"""Synthetic streams: made in memory, the same for the same seed, with every kind of anomaly."""

from newnormal.datasets.synthetic.patterns import Outliers, Wave, neurips_ts_mul, neurips_ts_uni
from newnormal.datasets.synthetic.plants import plant

__all__ = ["Outliers", "Wave", "neurips_ts_mul", "neurips_ts_uni", "plant"]
