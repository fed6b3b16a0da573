"""Many streams in one process: fitted in parallel, judged by one compiled call a tick.

`Fleet` is the shell; `group` has the streams of one shape, `stream` one of them.
"""
