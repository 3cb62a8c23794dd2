"""The OpenAI-compatible API, and what stands in front of every request. This machine alone is served."""

HOST = "127.0.0.1"
