"""PyTorch models (the extra `deep`), one file each."""

from newnormal.errors import extra

with extra("deep", "torch"):
    import torch  # noqa: F401 - here, so that each model reports a missing torch alike
