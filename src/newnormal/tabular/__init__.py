"""Frames, CSV, JSON lines and Parquet as channels, times and arrays.

One rule for each thing, whatever the input: which column is the time, which are channels
(`columns`), what a time is (`times`), what a cell holds (`lines`). Data of many streams is one
table a stream (`streams`).
"""

from newnormal.tabular.files import read
from newnormal.tabular.frames import to_table
from newnormal.tabular.lines import LineParser, Sample, Samples
from newnormal.tabular.long import Long
from newnormal.tabular.long_lines import LongLines
from newnormal.tabular.problems import Problem
from newnormal.tabular.reading import Found, Reading
from newnormal.tabular.samples import to_sample
from newnormal.tabular.splitting import StreamTables
from newnormal.tabular.stream_batch import StreamBatch, StreamRows
from newnormal.tabular.stream_files import read_tables
from newnormal.tabular.stream_lines import StreamLines
from newnormal.tabular.streams import to_tables
from newnormal.tabular.table import Table, default_channels
from newnormal.tabular.times import parse_time, parse_times

__all__ = [
    "Found",
    "LineParser",
    "Long",
    "LongLines",
    "Problem",
    "Reading",
    "Sample",
    "Samples",
    "StreamBatch",
    "StreamLines",
    "StreamRows",
    "StreamTables",
    "Table",
    "default_channels",
    "parse_time",
    "parse_times",
    "read",
    "read_tables",
    "to_sample",
    "to_table",
    "to_tables",
]
