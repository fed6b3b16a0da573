"""Many streams in one process: fitting them in parallel, and what they have in common."""
