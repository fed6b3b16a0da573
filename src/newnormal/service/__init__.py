"""The service: an engine with a port. `api` and `page` show it, `alerts` and sinks send it."""
