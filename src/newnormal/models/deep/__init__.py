"""PyTorch models (the extra `deep`), one file each."""

from newnormal.errors import MissingExtraError

try:
    import torch  # noqa: F401 - here, so that a missing torch is told the same way by each model
except ImportError:
    raise MissingExtraError.of("deep", "torch") from None
