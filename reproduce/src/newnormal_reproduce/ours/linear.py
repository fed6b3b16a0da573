"""PCA with ten components, whatever the detector's `latent`."""

from __future__ import annotations

from newnormal.models import pca

COMPONENTS = 10


class PCA(pca.PCA):
    """`newnormal.models.pca` with ten components; streams of ten channels or fewer are left out."""

    def __init__(self, window: int, channels: int, latent: int) -> None:
        del latent
        super().__init__(window, channels, COMPONENTS)
