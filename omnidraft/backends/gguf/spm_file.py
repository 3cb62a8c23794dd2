"""Reads a SentencePiece tokenizer.model: a protocol buffer of which a handful of fields matter.

Knows the wire format as far as needed (varints, fixed words, nested messages) and the field numbers of SentencePiece's
ModelProto; tokenizes nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnidraft.errors import ModelError

# SentencePiece.Type, which GGUF's token types continue.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_UNIGRAM, _BPE = 1, 2
_FIXED = {1: 8, 5: 4}  # bytes of the wire types with a fixed length


@dataclass(frozen=True, slots=True)
class SpmFile:
    """pieces: text with U+2581 for spaces. types as SentencePiece numbers them. bos and eos: ids, None if unset."""

    pieces: list[str]
    scores: list[float]
    types: list[int]
    bos: int | None
    eos: int | None
    adds_space: bool


def read_spm(path: Path) -> SpmFile:
    """ModelError if the file is missing, damaged, or not a byte-pair model."""
    try:
        return _model(path, path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, IndexError, struct.error):
        raise ModelError(f"{path} is not a SentencePiece model or is damaged; download it again.") from None


def _model(path: Path, data: bytes) -> SpmFile:
    pieces: list[str] = []
    scores: list[float] = []
    types: list[int] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for number, value in _fields(data):
        if number == 1:
            piece = dict(_fields(value))
            pieces.append(piece[1].decode() if 1 in piece else "")
            scores.append(struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0)
            types.append(piece.get(3, NORMAL))
        elif number == 2:
            trainer = dict(_fields(value))
        elif number == 3:
            normalizer = dict(_fields(value))
    if not pieces:
        raise ValueError("no pieces")
    if trainer.get(3, _UNIGRAM) != _BPE:
        raise ModelError(f"{path} is not a byte-pair model (BPE), the only kind of SentencePiece model Llama uses.")
    bos, eos = _id(trainer.get(41, 1), types), _id(trainer.get(42, 2), types)
    return SpmFile(pieces, scores, types, bos, eos, bool(normalizer.get(3, 1)))


def _id(number: int, types: list[int]) -> int | None:
    """A declared id, if it is a control token; an unset one is written as -1 in 64 bits."""
    return number if number < len(types) and types[number] == CONTROL else None


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, value) pairs: ints for varints, bytes for everything else."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == 0:
            value, position = _varint(data, position)
            yield key >> 3, value
            continue
        if kind == 2:
            length, position = _varint(data, position)
        else:
            if kind not in _FIXED:
                raise ValueError(f"wire type {kind}")
            length = _FIXED[kind]
        if position + length > len(data):
            raise ValueError("cut short")
        yield key >> 3, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
