"""Routes that take samples."""

from __future__ import annotations

from fastapi import FastAPI

__all__ = ["mount_decoders"]


def mount_decoders(app: FastAPI, prefix: str) -> None:
    """Mount all decoders."""
