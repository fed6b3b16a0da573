"""Frames, files and lines as channels, times and arrays.

One rule for each thing, whatever the input: how it is read (`reading`), which column is what
(`columns`), what a time is (`times`). Bytes become lines in `text`, lines samples in `parsing`,
samples are put in order in `ordering`; `many` is the same for many streams.
"""

from newnormal.tabular.columns import Long
from newnormal.tabular.files import read
from newnormal.tabular.frames import to_table
from newnormal.tabular.many.splitting import StreamTables
from newnormal.tabular.many.stream_files import read_tables
from newnormal.tabular.many.stream_lines import LongLines, StreamBatch, StreamLines, StreamRows
from newnormal.tabular.many.streams import to_tables
from newnormal.tabular.parsing.blocks import ParsedSamples, Sample
from newnormal.tabular.parsing.lines import LineParser
from newnormal.tabular.parsing.time_columns import parse_times
from newnormal.tabular.reading import InputProfile, Reading
from newnormal.tabular.samples import Problem, to_sample
from newnormal.tabular.table import Table, default_channels
from newnormal.tabular.times import parse_time

__all__ = [
    "InputProfile",
    "LineParser",
    "Long",
    "LongLines",
    "ParsedSamples",
    "Problem",
    "Reading",
    "Sample",
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
