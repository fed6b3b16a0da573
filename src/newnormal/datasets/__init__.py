"""Data sets with labels: loaders of public benchmarks, and synthetic streams.

`load` reads one stream of a benchmark from files on this machine, `available` lists those that are
there, and `catalogue` names where to get the others. `read_labelled` reads a file of your own. The
generators need no files. All return the same `Dataset`.
"""

from newnormal.datasets.base import Dataset, Entry
from newnormal.datasets.registry import available, catalogue, load, read_labelled
from newnormal.datasets.synthetic import neurips_ts_mul, neurips_ts_uni, plant

__all__ = [
    "Dataset",
    "Entry",
    "available",
    "catalogue",
    "load",
    "neurips_ts_mul",
    "neurips_ts_uni",
    "plant",
    "read_labelled",
]
