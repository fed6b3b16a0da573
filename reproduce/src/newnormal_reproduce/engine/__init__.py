"""The engine: from trials to results on disk, several processes at a time."""
