"""White space between JSON's signs, as an answer has written it so far: what it will write is likely the same.

A grammar lets white space stand between all signs; whoever guesses what follows must know how this answer does it.
"""

from __future__ import annotations

BLANK = b" \t\r\n"
_OPENING, _CLOSING = b"{[", b"}]"
_BEHIND, _BEFORE = b"{[,:", b"}],:"  # signs that have white space of their own behind, or before them

_BEHIND_COLON, _BEHIND_COMMA = (ord(":"), 0), (ord(","), 0)


class Spacing:
    """Fed with the answer's bytes, it says what white space to expect between the last sign and the next one."""

    def __init__(self) -> None:
        self._seen = {_BEHIND_COLON: b" "}  # as most programs write it
        self._indent: bytes | None = None  # of one level, where lines are broken
        self._depth = 0
        self._last = 0
        self._blank = b""
        self._quoted = self._escaped = False

    def copy(self) -> Spacing:
        other = Spacing.__new__(Spacing)
        other.__dict__.update(self.__dict__)
        other._seen = dict(self._seen)
        return other

    def feed(self, data: bytes) -> None:
        """`data` has been written."""
        for byte in data:
            if self._quoted:
                self._quoted = self._escaped or byte != ord('"')
                self._escaped = byte == ord("\\") and not self._escaped
            elif byte in BLANK:
                self._blank += bytes([byte])
            else:
                self._sign(byte)

    def expected(self, sign: int) -> bytes | None:
        """What is still to come before `sign` (a byte) if that is next; None where no sign of JSON is near, and where
        the white space already begun is another."""
        if self._last not in _BEHIND and sign not in _BEFORE:
            return None
        usual = self._usual(sign)
        return usual[len(self._blank) :] if usual.startswith(self._blank) else None

    def _usual(self, sign: int) -> bytes:
        if self._indent is not None and self._broken(sign):
            return b"\n" + self._indent * (self._depth - (sign in _CLOSING))
        key = self._key(sign)
        return self._seen.get(_BEHIND_COLON if key == _BEHIND_COMMA and key not in self._seen else key, b"")

    def _broken(self, sign: int) -> bool:
        """Whether a line may be broken before `sign`."""
        return self._last != ord(":") and (self._last in b"{[," or sign in _CLOSING)

    def _sign(self, byte: int) -> None:
        inner = self._depth - (byte in _CLOSING)
        if self._last in _BEHIND or byte in _BEFORE:
            self._seen[self._key(byte)] = self._blank
            if self._broken(byte) and inner > 0:
                lines = self._blank.startswith(b"\n")
                self._indent = self._blank[1 : 1 + len(self._blank) // inner] if lines else None
        self._depth = max(0, self._depth + (byte in _OPENING) - (byte in _CLOSING))
        self._quoted, self._escaped, self._blank, self._last = byte == ord('"'), False, b"", byte

    def _key(self, sign: int) -> tuple[int, int]:
        return self._last if self._last in _BEHIND else 0, sign if sign in _BEFORE else 0
