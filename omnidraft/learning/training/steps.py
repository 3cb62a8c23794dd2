"""One update: gradient steps on windows of replayed answers. It knows nothing of processes, stores or versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from omnidraft.errors import StorageError
from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.learning.training.evaluate import LOSSES, Loss, divergence
from omnidraft.learning.training.teaching import Batch, Outcomes, Teaching, Window, batches
from omnidraft.learning.update import PIECES_READ, WINDOWS_PER_STEP, Job, Update
from omnidraft.storage.files import pack_arrays, read_arrays, write_atomically

# What the drafter knew before is kept: in training it is held to itself on text it draws itself. Trained on one
# topic's answers alone, an adapter drifts everywhere else: what comes up first is learned at the expense of what comes
# up next. No one's text is needed against that (pseudo-rehearsal, Robins 1995; learning without forgetting, Li and
# Hoiem 2016): the bare drafter draws some, and the adapted one is to give it the same probabilities. Such a text is a
# window like any other, in which the bare drafter is the target: KL(bare || adapted) over its KEPT likeliest pieces
# and "other", and by the drawn piece over what lies in "other" (`evaluate.divergence`).


DRAWN = 8  # texts for one update
SETS = 4  # of them; which one an update takes is up to its seed
LENGTH = 96  # pieces of one text
ROWS = 1  # texts of one optimizer step
KEPT = 64  # pieces a position


@dataclass(frozen=True)
class Texts:
    """Of the bare drafter. ids: (texts, 1 + LENGTH) int64; likeliest, p: (texts, LENGTH, KEPT), the pieces it gives
    most to at each position and their probabilities, int64 and float32."""

    ids: np.ndarray
    likeliest: np.ndarray
    p: np.ndarray

    def windows(self) -> list[Window]:
        """A window for each text; each piece behind the first is a token of its own."""
        n = self.ids.shape[1] - 1
        ones, no, made = np.ones(n, np.int64), np.zeros(n, bool), []
        for ids, likeliest, p in zip(self.ids, self.likeliest, self.p, strict=True):
            node = Outcomes(likeliest[..., None], p, np.maximum(1 - p.sum(1), 0))
            made.append(Window(ids, Teaching(ids[1:], np.arange(n), 0 * ones, ones, no, ~no, no, node, node)))
        return made


@torch.no_grad()
def draw(drafter: TorchDrafter, seed: int) -> Texts:
    """Texts drawn at temperature 1. Nobody else's random numbers are used up."""
    generator, past, found = torch.Generator().manual_seed(seed), None, []
    ids = torch.full((DRAWN, 1), drafter.first_id)
    with drafter.model.disable_adapter():
        for _ in range(LENGTH):  # behind the end of a text begins another one
            given = drafter.base.get_decoder()(input_ids=ids[:, -1:], past_key_values=past, use_cache=True)
            past = given.past_key_values
            q = drafter.output.log_probabilities(given.last_hidden_state[:, -1]).exp()
            piece = draw_pieces(q, generator)
            found.append(q.topk(min(KEPT, drafter.output.size)))
            ids = torch.cat([ids, piece], 1)
    p, likeliest = (torch.stack(part, 1).numpy() for part in zip(*found, strict=True))
    return Texts(ids.numpy(), likeliest, p)


def draw_pieces(q: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A piece of each row, (N, size) -> (N, 1); `multinomial` draws a number for every piece there is."""
    total = q.cumsum(1)
    place = torch.rand(len(q), 1, generator=generator) * total[:, -1:]
    return torch.searchsorted(total, place, right=True).clamp_max(q.shape[1] - 1)


def drawn_once(drafter: TorchDrafter, job: Job) -> Texts:
    """The job's set of texts, from the drafter's folder if it was drawn before."""
    number, folder = job.seed % SETS, Path(job.store).parent
    file = folder / f".rehearsal-{number}.npz"
    with suppress(StorageError, KeyError):
        stored = read_arrays(file)
        return Texts(stored["ids"], stored["likeliest"], stored["p"])
    texts = draw(drafter, number)
    with suppress(OSError, StorageError):  # it is drawn again next time
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(file, pack_arrays(vars(texts)))
    return texts


PIECES_LEARNED = PIECES_READ // 2  # of one step: of long answers some tokens do
WARMUP = 2  # steps
LOOKED_AT = 256  # positions that tell which pieces are common


def _backward(drafter: TorchDrafter, batch: Batch, function: Loss, weight: float) -> float:
    """Add the gradient of `weight` times the loss; the loss."""
    hidden, at = drafter.rows(batch), batch.positions
    pieces, logq = drafter.output.estimate_log_probabilities(hidden, at.named)
    value = function(logq, at.among(pieces))
    (value * weight).backward()
    return value.item()


@torch.no_grad()
def _some_rows(drafter: TorchDrafter, parts: Sequence[Window]) -> Tensor:
    """Last hidden states at LOOKED_AT positions, or all there are."""
    found = list[Tensor]()
    for batch in batches(parts):
        if sum(map(len, found)) < LOOKED_AT:
            found.append(drafter.rows(batch))
    return torch.cat(found)[:LOOKED_AT]


def train(
    drafter: TorchDrafter, parts: Sequence[Window], job: Job, least: int, rehearsed: Sequence[Window], now: Update
) -> Iterator[Update]:
    """Train on all windows in random order, as often as the job says and on for `least` steps; the update after each.

    AdamW as in the paper, without decay: the adapter starts at zero. The rate falls to zero on the way: at a constant
    rate the last steps of a short update make as much noise as there is left to gain, and the adapter at the end of a
    stream is worse (measured). rehearsed: texts of the bare drafter, a few of which are added to every step with the
    job's weight for it, but not to what is told.
    """
    optimizer = torch.optim.AdamW(drafter.parameters(), lr=job.learning_rate, betas=(0.9, 0.999), weight_decay=0.0)
    drafter.output.note(_some_rows(drafter, parts))
    rng = np.random.default_rng(job.seed)
    groups = _groups(parts, rng, least, job.passes)
    for number, group in enumerate(groups, 1):
        chosen = learned(group, rng)
        positions, total = sum(len(batch.row) for batch in chosen), 0.0
        for batch in chosen:
            share = len(batch.row) / positions
            total += share * _backward(drafter, batch, LOSSES[job.loss], share)
        for batch in batches([rehearsed[i] for i in rng.permutation(len(rehearsed))[:ROWS]] if rehearsed else []):
            _backward(drafter, batch, divergence, job.rehearsal * len(batch.parts) / ROWS)
        for settings in optimizer.param_groups:
            settings["lr"] = job.learning_rate * (1 - (number - 1) / len(groups)) * min(1.0, number / WARMUP)
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses = (*now.losses, round(total, 4))
        now = replace(now, step=number, steps=len(groups), tokens=now.tokens + positions, losses=losses)
        yield now


def learned(group: Sequence[Window], rng: np.random.Generator) -> list[Batch]:
    """The step's batches without what is a loop; of long answers with some of their tokens, for what costs is the
    number of predictions, and those of one answer are alike."""
    found = [batch.only(~batch.positions.looped) for batch in batches(group)]
    share = PIECES_LEARNED / max(1, sum(len(batch.row) for batch in found))
    drawn = [torch.from_numpy(rng.random(batch.tokens) < share)[batch.positions.token] for batch in found]
    thinned = [batch.only(kept) for batch, kept in zip(found, drawn, strict=True)]
    return [batch for batch in thinned if len(batch.row)]


def _groups(parts: Sequence[Window], rng: np.random.Generator, least: int, passes: int) -> list[list[Window]]:
    """The windows of each step: pass after pass over all of them, each in an order of its own."""
    groups: list[list[Window]] = []
    while passes > 0 or len(groups) < least:
        group: list[Window] = []
        for i in rng.permutation(len(parts)):
            full = len(group) == WINDOWS_PER_STEP or sum(len(w.ids) for w in group) >= PIECES_READ
            if full:
                groups.append(group)
                group = []
            group.append(parts[i])
        groups.append(group)
        passes -= 1
    return groups
