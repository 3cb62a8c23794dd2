"""Encryption at rest of a data home: one key, wrapped by a passphrase; homes are converted to it and back."""

from omnidraft.storage.encryption.opening import change_passphrase, make_plain, open_home

__all__ = ["change_passphrase", "make_plain", "open_home"]
