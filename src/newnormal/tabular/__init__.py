"""Frames, CSV, JSON lines and Parquet as channels, times and arrays.

One rule for each thing, whatever the input: which column is the time, which are channels
(`columns`), what a time is (`times`), what a cell holds (`lines`).
"""

from newnormal.tabular.files import format_of, read
from newnormal.tabular.frames import to_table
from newnormal.tabular.lines import LineParser, Sample, Samples
from newnormal.tabular.samples import to_sample
from newnormal.tabular.table import Table, default_channels
from newnormal.tabular.times import parse_time, parse_times

__all__ = [
    "LineParser",
    "Sample",
    "Samples",
    "Table",
    "default_channels",
    "format_of",
    "parse_time",
    "parse_times",
    "read",
    "to_sample",
    "to_table",
]
