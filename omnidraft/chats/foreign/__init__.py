"""Conversations exported by other programs: ChatGPT, Open WebUI, LM Studio."""

from omnidraft.chats.foreign.items import is_zip
from omnidraft.chats.foreign.reading import Brought, read_foreign

__all__ = ["Brought", "is_zip", "read_foreign"]
