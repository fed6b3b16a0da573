"""PyTorch models (the extra `deep`), one file each."""
