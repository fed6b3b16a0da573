"""Compiled loops on plain arrays. Nothing else lives here."""
