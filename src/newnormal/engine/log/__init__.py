"""The log of the service: entries, and the SQLite database that keeps them in order."""
