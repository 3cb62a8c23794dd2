"""Finding messages by words, whatever their case and accents: by reading all of them, which are held in memory as they
are compared, from the first search on.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from omnidraft.chats.titles import one_line

SNIPPET_CHARACTERS = 100
SNIPPET_WITHIN = 20_000  # characters from the first place on that are looked at for a better one
HELD = 128 << 20  # bytes of folded text that are kept in memory at most
FEW = 24  # different letters beyond ASCII, up to which each is replaced everywhere at once
_ASCII = bytes(range(128))
_OTHER = re.compile(rb"[\x80-\xff]+")

Found = tuple[str, str, str]  # conversation id, message id, snippet


class MessageTexts:
    """All messages as they are compared. Holds nothing of what was deleted, once it was told of that (`forget`)."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._texts: dict[int, bytes] | None = None
        self._version = -1

    def put(self, seq: int, content: str) -> None:
        """The message of this number says that now."""
        if self._texts is not None:
            self._texts[seq] = folded_bytes(content)

    def forget(self) -> None:
        self._texts = None

    def find(self, query: str, limit: int) -> list[Found]:
        """Messages that hold every word of `query`, also inside others; newest first."""
        words, found = query.replace("\0", " ").split(), []
        for seq in self._holding([folded_bytes(word) for word in words]) if words else ():
            rows = self._connection.execute("SELECT chat, id, content FROM messages WHERE seq = ?", (seq,))
            # Looked at again: a change that was taken back is not noticed.
            found += [row for row in rows if holds_words(row[2], " ".join(words))]
            if len(found) >= limit:
                break
        return [(chat, message, snippet(content, words[0])) for chat, message, content in found]

    def _holding(self, words: list[bytes]) -> Iterator[int]:
        """Numbers of messages that hold every word, newest first."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()  # another program's changes raise it
        if self._texts is None or version != self._version:
            self._texts, self._version = self._all(), version
        texts: Iterable[tuple[int, bytes]]
        if self._texts is None:  # too much to be held
            rows = self._connection.execute("SELECT seq, content FROM messages ORDER BY seq DESC")
            texts = ((seq, folded_bytes(content)) for seq, content in rows)
        else:
            texts = sorted(self._texts.items(), reverse=True)
        return (seq for seq, text in texts if all(word in text for word in words))

    def _all(self) -> dict[int, bytes] | None:
        found, size = {}, 0
        for seq, content in self._connection.execute("SELECT seq, content FROM messages"):
            found[seq] = folded_bytes(content)
            if (size := size + len(found[seq])) > HELD:
                return None
        return found


def snippet(text: str, word: str) -> str:
    """The part of `text` around the first place where a word begins with `word`, else that holds it, on one line."""
    within, wanted = folded(text), folded(word)  # folding can shift places a little; the window is wide enough
    at = max(0, within.find(wanted))
    if beginning := re.compile(r"(?<!\w)" + re.escape(wanted)).search(within, at, at + SNIPPET_WITHIN):
        at = beginning.start()
    start = max(0, at - SNIPPET_CHARACTERS // 2)
    end = start + SNIPPET_CHARACTERS
    return ("…" if start else "") + one_line(text[start:end]) + ("…" if end < len(text) else "")


def holds_words(text: str, query: str) -> bool:
    """Every word of `query` occurs in `text`, whatever the case and the accents."""
    within = folded(text)
    return all(word in within for word in folded(query).split())


def folded(text: str) -> str:
    """`text` without case and accents, for comparing."""
    return folded_bytes(text).decode()


def folded_bytes(text: str) -> bytes:
    """The same in UTF-8. Only what is not ASCII is looked at closely: a week's talk takes seconds otherwise."""
    data = text.encode("utf-8", "replace").lower()
    if text.isascii():
        return data
    others = set(data.translate(None, _ASCII).decode())
    if len(others) > FEW:
        return _OTHER.sub(lambda run: _folded_letters(run[0]), data)
    for letter in others:  # some accents and dashes: several times faster than looking for them one by one
        data = data.replace(letter.encode(), _folded_letters(letter.encode()))
    return data


@lru_cache(maxsize=50_000)
def _folded_letters(run: bytes) -> bytes:
    apart = unicodedata.normalize("NFKD", run.decode())
    return "".join(c for c in apart if not unicodedata.combining(c)).casefold().encode()


# Thoughts of answers, which a model writes in front of them: told by what it writes around them. marks: what begins
# thoughts ("" where the prompt did), what ends them, and what stands before an answer without any. They are stored
# with the answer, as the model that wrote it may be gone when it is shown again.


OPEN, CLOSE = "<think>", "</think>"


def parted(text: str, marks: Sequence[str]) -> tuple[str | None, str | None]:
    """(thoughts, answer) of a text; None for thoughts where there are none, and for an answer not yet begun."""
    begin, end, bare = marks
    written = text.lstrip()
    if begin and not written.startswith(begin):
        return None, written.removeprefix(bare) if bare and written.startswith(bare) else text
    thoughts, ended, answer = written.removeprefix(begin).partition(end)
    return thoughts, answer if ended else None


def in_tags(text: str, marks: Sequence[str]) -> str:
    """The text with its thoughts as most models spell them."""
    thoughts, answer = parted(text, marks)
    if thoughts is None:
        return answer or ""
    return f"{OPEN}{thoughts}" + ("" if answer is None else f"{CLOSE}\n\n{answer.lstrip()}")


def said(text: str, marks: Sequence[str] = (OPEN, CLOSE, "")) -> dict[str, str]:
    """What was said as a message for a later turn, its thoughts apart, so that a template can decide about them."""
    thoughts, answer = parted(text, marks)
    if thoughts is None:
        return {"role": "assistant", "content": answer or ""}
    return {"role": "assistant", "content": (answer or "").lstrip(), "reasoning_content": thoughts.strip()}
