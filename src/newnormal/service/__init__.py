"""The service: streams that come over HTTP are fitted, watched and shown, and nothing is lost.

The log is the order of things: what happens is written to it first (`log`), then applied
(`engine`), and what follows from it is kept (`store`). `api` and `page` show it, `alerts` sends it.
"""
