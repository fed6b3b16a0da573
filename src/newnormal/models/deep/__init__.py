"""PyTorch models (the extra `deep`), one file each."""

from newnormal.errors import MissingExtraError

try:
    import torch  # noqa: F401 - here, so that each model reports a missing torch alike
except ImportError:
    raise MissingExtraError.of("deep", "torch") from None
