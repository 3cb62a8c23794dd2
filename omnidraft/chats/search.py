"""Finding messages by words: through SQLite's full-text index where the build has one, else by reading.

The index is a rebuildable by-product of the messages table. It knows word beginnings only, so writing without spaces
(Chinese, Japanese, Thai) and what the index does not find is looked for as plain substrings.
"""

from __future__ import annotations

import sqlite3
import unicodedata

from omnidraft.chats.titles import one_line

SNIPPET_WORDS = 16
SNIPPET_CHARACTERS = 100

Found = tuple[str, str, str]  # conversation id, message id, snippet


class MessageIndex:
    """The full-text index, written along with the messages (triggers would need SQLite to trust the file's schema).

    Made inside a transaction. Without FTS5 it only reads, and leaves a note that the index must be written anew.
    """

    def __init__(self, connection: sqlite3.Connection, full_text: bool = True) -> None:
        self._connection = connection
        self.full_text = full_text and _has_fts5(connection)
        connection.create_function("holds", 2, _holds, deterministic=True)
        if not self.full_text:
            connection.execute("INSERT OR IGNORE INTO chores VALUES ('index')")
            return
        known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'message_index'").fetchone()
        stale = connection.execute("SELECT 1 FROM chores WHERE name = 'index'").fetchone()
        if not known:
            connection.execute(
                "CREATE VIRTUAL TABLE message_index USING fts5("
                "content, content='messages', content_rowid='seq', tokenize='unicode61 remove_diacritics 2')"
            )
        if stale or not known:
            self.rebuild()
            connection.execute("DELETE FROM chores WHERE name = 'index'")

    def add(self, seq: int, content: str) -> None:
        if self.full_text:
            self._connection.execute("INSERT INTO message_index(rowid, content) VALUES (?, ?)", (seq, content))

    def change(self, seq: int, old: str, new: str) -> None:
        if self.full_text and old != new:
            self._connection.execute(
                "INSERT INTO message_index(message_index, rowid, content) VALUES ('delete', ?, ?)", (seq, old)
            )
            self.add(seq, new)

    def rebuild(self) -> None:
        """Write the index anew: a deletion alone would leave the deleted words in its older segments."""
        if self.full_text:
            self._connection.execute("INSERT INTO message_index(message_index) VALUES ('rebuild')")

    def find(self, query: str, limit: int) -> list[Found]:
        """Messages that hold every word of `query`, or words that begin so; newest first."""
        words = query.replace("\0", " ").split()
        if not words:
            return []
        if self.full_text and not any(map(_spaceless, query)) and (found := self._indexed(words, limit)):
            return found
        rows = self._connection.execute(
            "SELECT chat, id, content FROM messages WHERE holds(content, ?) ORDER BY seq DESC LIMIT ?",
            (" ".join(words), limit),
        )
        return [(chat, message, snippet(content, words[0])) for chat, message, content in rows]

    def _indexed(self, words: list[str], limit: int) -> list[Found]:
        # Quoted, a word is only ever text to FTS5, whatever operators or quotes it holds; the star asks for a prefix.
        quoted = ['"' + word.replace('"', '""') + '"*' for word in words if any(c.isalnum() for c in word)]
        if len(quoted) < len(words):
            return []  # punctuation alone is not in the index
        rows = self._connection.execute(
            f"""SELECT messages.chat, messages.id, snippet(message_index, 0, '', '', '…', {SNIPPET_WORDS})
            FROM message_index JOIN messages ON messages.seq = message_index.rowid
            WHERE message_index MATCH ? ORDER BY message_index.rowid DESC LIMIT ?""",
            (" AND ".join(quoted), limit),
        )
        return [(chat, message, one_line(text)) for chat, message, text in rows]


def snippet(text: str, word: str) -> str:
    """The part of `text` around the first place that holds `word`, on one line."""
    at = max(0, folded(text).find(folded(word)))  # folding can shift places a little; the window is wide enough
    start = max(0, at - SNIPPET_CHARACTERS // 2)
    end = start + SNIPPET_CHARACTERS
    return ("…" if start else "") + one_line(text[start:end]) + ("…" if end < len(text) else "")


def holds_words(text: str, query: str) -> bool:
    """Every word of `query` occurs in `text`, whatever the case and the accents."""
    within = folded(text)
    return all(word in within for word in folded(query).split())


def folded(text: str) -> str:
    """`text` without case and accents, for comparing."""
    if text.isascii():
        return text.lower()
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).casefold()


def _holds(text: str, query: str) -> int:
    return int(holds_words(text, query))


def _spaceless(character: str) -> bool:
    """Letters from Thai onwards that have no case: nearly all of their scripts are written without spaces."""
    return character >= "\u0e00" and unicodedata.category(character) == "Lo"


def _has_fts5(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone() is not None
