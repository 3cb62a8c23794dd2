"""PDF and Office files as text, read in a process of its own that a bad file can crash, hang or fill without harm."""

from omnidraft.app.documents.reading import MAX_FILE, MAX_TEXT, SUFFIXES, Unreadable, text_of

__all__ = ["MAX_FILE", "MAX_TEXT", "SUFFIXES", "Unreadable", "text_of"]
