"""Frames, files and lines as channels, times and arrays.

One rule for each thing, whatever the input: how it is read (`reading`), which column is what
(`columns`), what a time is (`times`). Bytes become lines in `text`, lines samples in `parsing`,
samples are put in order in `ordering`; `many` is the same for many streams.
"""

from newnormal.tabular.columns import Long as Long
from newnormal.tabular.files import read as read
from newnormal.tabular.frames import to_table as to_table
from newnormal.tabular.many.splitting import StreamTables as StreamTables
from newnormal.tabular.many.stream_files import read_tables as read_tables
from newnormal.tabular.many.stream_lines import LongLines as LongLines
from newnormal.tabular.many.stream_lines import StreamBatch as StreamBatch
from newnormal.tabular.many.stream_lines import StreamLines as StreamLines
from newnormal.tabular.many.stream_lines import StreamRows as StreamRows
from newnormal.tabular.many.streams import to_tables as to_tables
from newnormal.tabular.parsing.blocks import ParsedSamples as ParsedSamples
from newnormal.tabular.parsing.blocks import Sample as Sample
from newnormal.tabular.parsing.lines import LineParser as LineParser
from newnormal.tabular.parsing.time_columns import parse_times as parse_times
from newnormal.tabular.reading import InputProfile as InputProfile
from newnormal.tabular.reading import Reading as Reading
from newnormal.tabular.samples import Problem as Problem
from newnormal.tabular.samples import to_sample as to_sample
from newnormal.tabular.table import Table as Table
from newnormal.tabular.table import default_channels as default_channels
from newnormal.tabular.times import parse_time as parse_time
