"""Data of many streams: by the column that names the stream, long, or a file each."""
