"""The disk copy of a pair map: three integer arrays in an .npz, never a pickle.

Knows array shapes only. A copy that is missing, damaged or made for other sizes reads as None and is rebuilt.
"""

from __future__ import annotations

import logging
import zipfile
from pathlib import Path

import numpy as np

from omnidraft.storage.scratch import replacing

_FORMAT = 1
_log = logging.getLogger(__name__)


def save(path: Path, direct: np.ndarray, flat: np.ndarray, offsets: np.ndarray) -> None:
    """Write atomically. A folder that cannot be written only costs the next start some time, so it is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, format=np.int32(_FORMAT), direct=direct, flat=flat, offsets=offsets)
    except OSError as error:
        _log.info("the vocabulary map was not kept at %s: %s", path, error)


def load(path: Path, drafter_ids: int, target_ids: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(direct, flat, offsets), every id within its vocabulary; None if the file does not hold exactly that."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if int(file["format"]) != _FORMAT:
                return None
            direct, flat, offsets = file["direct"], file["flat"], file["offsets"]
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile):
        return None
    arrays = (direct, flat, offsets)
    if any(array.dtype != np.int32 or array.ndim != 1 for array in arrays):
        return None
    if len(direct) != drafter_ids or len(offsets) != target_ids + 1:
        return None
    if offsets[0] != 0 or offsets[-1] != len(flat) or np.any(np.diff(offsets) < 0):
        return None
    if np.any(direct < -1) or np.any(direct >= target_ids) or np.any(flat < 0) or np.any(flat >= drafter_ids):
        return None
    return arrays
