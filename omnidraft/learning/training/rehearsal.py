"""What the drafter knew before is kept: in training it is held to itself on text it draws itself.

Trained on one topic's answers alone, an adapter drifts everywhere else: what comes up first is learned at the expense
of what comes up next. No one's text is needed against that (pseudo-rehearsal, Robins 1995; learning without forgetting,
Li and Hoiem 2016): the bare drafter draws some, and the adapted one is to give it the same probabilities. Such a text
is a window like any other, in which the bare drafter is the target: KL(bare || adapted) over its KEPT likeliest pieces
and "other", and by the drawn piece over what lies in "other" (`losses.divergence`).
"""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch

from omnidraft.errors import StorageError
from omnidraft.learning.training.alignment import Outcomes, Teaching
from omnidraft.learning.training.batches import Window
from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.storage.files import read, write_atomically

DRAWN = 8  # texts for one update
SETS = 4  # of them; which one an update takes is up to its seed
LENGTH = 96  # pieces of one text
ROWS = 2  # texts of one optimizer step
KEPT = 64  # pieces a position


@dataclass(frozen=True)
class Texts:
    """Of the bare drafter. ids: (texts, 1 + LENGTH) int64; likeliest, p: (texts, LENGTH, KEPT), the pieces it gives
    most to at each position and their probabilities, int64 and float32; served: (texts, LENGTH) float32, that of the
    piece drawn."""

    ids: np.ndarray
    likeliest: np.ndarray
    p: np.ndarray
    served: np.ndarray

    def windows(self) -> list[Window]:
        """A window for each text; each piece behind the first is a token of its own."""
        n = self.ids.shape[1] - 1
        ones, no, made = np.ones(n, np.int64), np.zeros(n, bool), []
        for ids, likeliest, p, served in zip(self.ids, self.likeliest, self.p, self.served, strict=True):
            node = Outcomes(likeliest[..., None], p, np.maximum(1 - p.sum(1), 0))
            made.append(Window(ids, Teaching(ids[1:], np.arange(n), 0 * ones, ones, no, ~no, served, node, node)))
        return made


@torch.no_grad()
def draw(drafter: TorchDrafter, seed: int, drawn: int = DRAWN) -> Texts:
    """Texts drawn at temperature 1. Nobody else's random numbers are used up."""
    generator, past, found = torch.Generator().manual_seed(seed), None, []
    ids = torch.full((drawn, 1), drafter.first_id)
    with drafter.model.disable_adapter():
        for _ in range(LENGTH):  # behind the end of a text begins another one
            given = drafter.base.get_decoder()(input_ids=ids[:, -1:], past_key_values=past, use_cache=True)
            past = given.past_key_values
            q = drafter.output.log_probabilities(given.last_hidden_state[:, -1]).exp()
            piece = draw_pieces(q, generator)
            found.append((*q.topk(min(KEPT, drafter.output.size)), q.gather(1, piece)))
            ids = torch.cat([ids, piece], 1)
    p, likeliest, served = (torch.stack(part, 1).numpy() for part in zip(*found, strict=True))
    return Texts(ids.numpy(), likeliest, p, served[..., 0])


def draw_pieces(q: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A piece of each row, (N, size) -> (N, 1); `multinomial` draws a number for every piece there is."""
    total = q.cumsum(1)
    place = torch.rand(len(q), 1, generator=generator) * total[:, -1:]
    return torch.searchsorted(total, place, right=True).clamp_max(q.shape[1] - 1)


def drawn_once(drafter: TorchDrafter, number: int, folder: Path) -> Texts:
    """A set of texts, from `folder` if it was drawn before; the folder is this drafter's."""
    file = folder / f".rehearsal-{number}.npz"
    with suppress(OSError, StorageError, ValueError, KeyError, EOFError, BadZipFile):
        stored = np.load(io.BytesIO(read(file)), allow_pickle=False)
        return Texts(stored["ids"], stored["likeliest"], stored["p"], stored["served"])
    texts, data = draw(drafter, number, DRAWN), io.BytesIO()
    np.savez(data, **vars(texts))
    with suppress(OSError, StorageError):  # it is drawn again next time
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(file, data.getvalue())
    return texts
