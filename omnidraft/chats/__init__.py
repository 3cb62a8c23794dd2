"""Conversations: stored as trees of messages, searched, exported, and really gone when deleted.

Knows nothing of models, of decoding or of pages; the statistics and tokens of an answer are stored as given.
"""

from omnidraft.chats.pictures import PictureFile, TextFile, files_meta
from omnidraft.chats.records import Conversation, Hit, Message
from omnidraft.chats.store import ChatStore
from omnidraft.chats.titles import automatic_title
from omnidraft.chats.transfer import export_json, export_markdown, import_json, read_json

__all__ = [
    "ChatStore",
    "Conversation",
    "Hit",
    "Message",
    "PictureFile",
    "TextFile",
    "automatic_title",
    "export_json",
    "export_markdown",
    "files_meta",
    "import_json",
    "read_json",
]
