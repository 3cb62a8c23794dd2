"""Conversations exported by other programs: ChatGPT, Open WebUI, LM Studio."""

from omnidraft.chats.foreign.reading import Brought, is_zip, read_foreign

__all__ = ["Brought", "is_zip", "read_foreign"]
