"""The fixtures of tests/serving.py."""

from tests.serving import make_server, server

__all__ = ["make_server", "server"]
