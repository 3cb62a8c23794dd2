"""Tokenization in the middle of a text, with exactly the bytes asked for.

Wraps any tokenizer (`Tokenizer`) and never trusts it: SentencePiece's space prefix is kept away with a sentinel
character, invalid UTF-8 is spelled with byte pieces, and an answer whose bytes do not add up is repaired. Knows
nothing of files or of control tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

_SPACE_MARK = "\u2581".encode()  # SentencePiece writes a space as this character, so a literal one needs byte pieces
_BATCH = 256  # pieces joined into one tokenizer call: some begin by making their patterns anew, for 40 us
# What joins them where nothing marks words: cutting a text into words, all known tokenizers take digits apart from
# letters, signs and the spaces behind them. So what lies between two digits is cut as if it stood alone.
_DIGIT = b"1"
# Characters that text rarely holds and vocabularies rarely merge; the first one in no ordinary piece is taken.
_SENTINELS = [chr(c) for c in (*range(1, 9), *range(14, 32), 127, *range(0xE000, 0xE040))]


class Tokenizer(Protocol):
    """Plain tokenization of whole texts: special parsing off, no beginning-of-sequence token."""

    marks_words: bool  # SentencePiece style: spaces are U+2581 and the start of a text may gain one

    def tokenize(self, data: bytes) -> list[int]:
        """data: valid UTF-8."""
        ...


class ExactEncoder:
    """Encodes bytes to ids of ordinary tokens whose pieces concatenate to exactly those bytes.

    pieces: bytes per id (b"" where the id stands for no text); by_bytes: the preferred id of a byte string.
    """

    def __init__(self, tokenizer: Tokenizer, pieces: list[bytes], by_bytes: dict[bytes, int], merged: list[bytes]):
        self._tokenizer = tokenizer
        self._pieces = pieces
        self._by_bytes = by_bytes
        self._lengths = sorted({len(piece) for piece in by_bytes}, reverse=True)
        self._sentinel = self._between = b""
        self._prefix: list[int] = []
        self._separator = -1  # the id that is between what is joined; there may be none
        self.adds_space, self._adds_once = False, False
        if tokenizer.marks_words:
            self._choose_sentinel(merged)
            self._learn_space_prefix()
        else:
            self._between, self._separator = _DIGIT, by_bytes.get(_DIGIT, -1)

    def start_prefix(self, data: bytes) -> bytes:
        """What the tokenizer puts before `data` at the beginning of a text: b" " or nothing."""
        if not data or not self.adds_space or (self._adds_once and data.startswith(b" ")):
            return b""
        return b" "

    def encode(self, data: bytes) -> list[int]:
        """Ids for any bytes, as the tokenizer writes them mid-text. ValueError if a byte cannot be spelled."""
        ids: list[int] = []
        for run, literal in self._runs(data):
            ids += self.greedy(run) if literal else self._exact(self._raw(run), run)
        return ids

    def encode_many(self, items: Sequence[bytes]) -> list[list[int] | None]:
        """`encode` for many short byte strings, several times faster; None where one cannot be spelled."""
        answers: list[list[int] | None] = [None] * len(items)
        easy = []
        for index, data in enumerate(items):
            if self._is_plain(data):
                easy.append(index)
            else:
                answers[index] = self._try(self.encode, data)
        for index, ids in zip(easy, self._raw_many([items[i] for i in easy]), strict=True):
            data = items[index]
            parts = [self._pieces[i] for i in ids]
            fits = b"".join(parts) == data and all(parts)
            answers[index] = ids if fits else self._try(lambda d, ids=ids: self._exact(ids, d), data)
        return answers

    def greedy(self, data: bytes) -> list[int]:
        """Longest known piece first. ValueError if a byte has no piece."""
        ids, position = [], 0
        while position < len(data):
            for length in self._lengths:
                found = self._by_bytes.get(data[position : position + length])
                if found is not None and position + length <= len(data):
                    ids.append(found)
                    position += length
                    break
            else:
                raise ValueError(f"this vocabulary has no token for the byte 0x{data[position]:02X}")
        return ids

    def _exact(self, ids: list[int], data: bytes) -> list[int]:
        """`ids` if their bytes are `data`; else the longest faithful stretches, the gaps spelled greedily."""
        parts = [self._pieces[i] for i in ids]
        if b"".join(parts) == data and all(parts):
            return ids
        return self._repair(ids, data)

    def _repair(self, ids: list[int], data: bytes) -> list[int]:
        repaired, position = [], 0
        for token in ids:
            piece = self._pieces[token]
            if piece and data.startswith(piece, position):
                repaired.append(token)
            elif piece[:1] == b" " and data.startswith(piece[1:], position):
                piece = piece[1:]  # a space the tokenizer made up, as behind an added token
                repaired += self.greedy(piece)
            else:
                break
            position += len(piece)
        return repaired + self.greedy(data[position:])

    def _raw(self, data: bytes) -> list[int]:
        if not self._sentinel:
            return self._tokenizer.tokenize(data)
        ids = self._tokenizer.tokenize(self._sentinel + data)
        start = len(self._prefix)
        return ids[start:] if ids[:start] == self._prefix else []

    def _raw_many(self, items: list[bytes]) -> Iterator[list[int]]:
        """Plain items: a batch of them is one text, cut apart at the id of what is between them."""
        if self._separator < 0:
            yield from map(self._raw, items)
            return
        between = self._between
        for start in range(0, len(items), _BATCH):
            batch = items[start : start + _BATCH]
            ids = self._tokenizer.tokenize(between + between.join(batch) + between)
            cuts = np.flatnonzero(np.array(ids, dtype=np.int32) == self._separator).tolist()
            if len(cuts) == len(batch) + 1:
                yield from (ids[left + 1 : right] for left, right in pairwise(cuts))
            else:
                yield from map(self._raw, batch)

    def _is_plain(self, data: bytes) -> bool:
        """Valid UTF-8 that the batch may hold as it is."""
        if self._sentinel and (self._sentinel in data or _SPACE_MARK in data):
            return False
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return False
        if self._sentinel:
            return True
        # Spaces at the end belong to what follows, and digits to each other.
        return bool(text) and not (text[-1].isspace() or text[-1].isnumeric() or text[0].isnumeric())

    def _runs(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Cut into (bytes, literal): literal runs (invalid UTF-8, U+2581 in SentencePiece) bypass the tokenizer."""
        while data:
            try:
                data.decode()
                valid, broken, data = data, b"", b""
            except UnicodeDecodeError as error:
                valid, broken, data = data[: error.start], data[error.start : error.end], data[error.end :]
                while data and 0x80 <= data[0] < 0xC0:  # stray continuation bytes belong to the same broken run
                    broken, data = broken + data[:1], data[1:]
            if self._sentinel:
                for number, part in enumerate(valid.split(_SPACE_MARK)):
                    if number:
                        yield _SPACE_MARK, True
                    if part:
                        yield part, False
            elif valid:
                yield valid, False
            if broken:
                yield broken, True

    def _choose_sentinel(self, merged: list[bytes]) -> None:
        """Take the first candidate that no piece holds; `merged` are all pieces but the byte tokens."""
        haystack = b"".join(merged)
        for candidate in map(str.encode, _SENTINELS):
            if candidate in haystack:
                continue
            once, twice = (self._tokenizer.tokenize(candidate * n) for n in (1, 2))
            if once and twice[: len(once)] == once:
                self._sentinel, self._prefix = candidate, once
                self._between, self._separator = candidate, twice[-1] if len(twice) == len(once) + 1 else -1
                return
        raise ValueError("no character is free to tokenize behind in this vocabulary")

    def _learn_space_prefix(self) -> None:
        def bare(data: bytes) -> bytes:
            return b"".join(self._pieces[i] for i in self._tokenizer.tokenize(data))

        self.adds_space = bare(b"a") == b" a"
        self._adds_once = self.adds_space and bare(b" a") == b" a"

    @staticmethod
    def _try(encode, data: bytes) -> list[int] | None:
        try:
            return encode(data)
        except ValueError:
            return None


# Cached n-grams as a trie over drafter pieces. Knows ids only. A node is a dict from piece to node; under the key END
# it holds the target id whose expansion ends there. Plain dicts keep a lookup below a microsecond, and it runs for
# every drafted piece.


END = -1
Node = dict[int, Any]  # of nodes, and a target id under END


class Trie:
    """Longest-match lookup of piece sequences."""

    def __init__(self) -> None:
        self._root: Node = {}

    def insert(self, pieces: Sequence[int], target_id: int) -> None:
        node = self._root
        for piece in pieces:
            node = node.setdefault(piece, {})
        node[END] = target_id

    def remove(self, pieces: Sequence[int]) -> None:
        """Take out a sequence that is in the trie, and the nodes only it needed."""
        path = [self._root]
        for piece in pieces:
            path.append(path[-1][piece])
        del path[-1][END]
        for piece, parent, node in zip(reversed(pieces), reversed(path[:-1]), reversed(path[1:]), strict=True):
            if node:
                return
            del parent[piece]

    def matches(self, pieces: Sequence[int], start: int) -> list[tuple[int, int]]:
        """(length, target id) of every stored sequence that `pieces` holds at `start`, longest first.

        Stored sequences are two ids or longer, so a single piece never matches; `start` < len(pieces).
        """
        found: list[tuple[int, int]] = []
        node = self._root.get(pieces[start])
        if node is None:  # by far the most frequent case
            return found
        for position in range(start + 1, len(pieces)):
            node = node.get(pieces[position])
            if node is None:
                break
            target_id = node.get(END)
            if target_id is not None:
                found.append((position - start + 1, target_id))
        found.reverse()
        return found

    def could_grow(self, pieces: Sequence[int], start: int) -> bool:
        """Whether `pieces[start:]`, not empty, is a proper prefix of a stored sequence."""
        node: Any = self._root
        for position in range(start, len(pieces)):
            node = node.get(pieces[position])
            if node is None:
                return False
        return start < len(pieces) and len(node) > (END in node)

    def beginning(self, pieces: Sequence[int]) -> list[int]:
        """Target ids of every stored sequence that begins with `pieces`."""
        node: Any = self._root
        for piece in pieces:
            node = node.get(piece)
            if node is None:
                return []
        found: list[int] = []
        waiting = [node]
        while waiting:
            node = waiting.pop()
            found += [child for piece, child in node.items() if piece == END]
            waiting += [child for piece, child in node.items() if piece != END]
        return found
