"""Trains the drafter on what targets wrote; it may be stopped at any time and goes on from its last checkpoint."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear
from transformers import LlamaForCausalLM

from .rows import Batch, Row, Rows, batch

_DRAFT = 4  # pieces


class Training:
    """A model, its optimizer, and how long they have been at it: FOLDER/checkpoint.pt. FOLDER/log.jsonl tells more."""

    def __init__(self, model: LlamaForCausalLM, folder: Path, minutes: float, rate: float = 1.8e-3) -> None:
        self.model, self.folder, self.minutes, self.rate = model, folder, minutes, rate
        embedding = model.model.embed_tokens.weight  # trained already, and every step changes it: it goes slower
        rest = [p for p in model.parameters() if p is not embedding]
        groups = [{"params": rest, "scale": 1.0}, {"params": [embedding], "scale": 0.2}]
        self.optimizer = torch.optim.AdamW(groups, rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
        self.steps, self.learned, self.seconds = 0, 0, 0.0
        self.path = folder / "checkpoint.pt"
        if self.path.exists():
            state = torch.load(self.path, weights_only=True)
            model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.steps, self.learned, self.seconds = state["progress"]

    @property
    def done(self) -> float:
        """The share of the minutes that are over."""
        return self.seconds / 60 / self.minutes

    def run(self, rows: Rows, export: Callable[[], None], size: int = 1024, every: float = 300) -> None:
        """Train with `size` pieces a step for the minutes there are; every so many seconds all that is kept is kept."""
        kept, losses = self.seconds, []
        while self.done < 1:
            rows.read()
            plain = max(0.0, 0.7 - 1.4 * self.done)  # the language first, then more and more what targets write
            for part in rows.batches(np.random.default_rng(self.steps), size, plain):
                losses.append(self._step(part))
                if self.seconds >= kept + every or self.done >= 1:
                    self._keep(losses, rows)
                    export()
                    kept, losses = self.seconds, []
                    break

    def _step(self, part: Batch) -> float:
        started = time.monotonic()
        for group in self.optimizer.param_groups:
            group["lr"] = group["scale"] * self.rate * min(1.0, (self.steps + 1) / 20, (1 - self.done) / 0.6)
        self.model.train()
        loss = self.loss(part)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps, self.learned = self.steps + 1, self.learned + len(part.at)
        self.seconds += time.monotonic() - started
        return float(loss.detach())

    def loss(self, part: Batch) -> Tensor:
        """Cross-entropy with what the target might have written."""
        logits = self._logits(part)
        return (logits.logsumexp(1) - (logits.gather(1, part.likely) * part.chances).sum(1)).mean()

    def _logits(self, part: Batch) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.model.model(input_ids=part.ids, use_cache=False).last_hidden_state
            return linear(hidden.flatten(0, 1)[part.at], self.model.model.embed_tokens.weight).float()

    @torch.no_grad()
    def held_out(self, rows: list[Row]) -> tuple[float, float]:
        """How often its likeliest piece is the text's, and what share of drafts of four pieces would stand."""
        self.model.eval()
        right, accepted, drafts = [False], 0, 0
        for part in map(batch, ([row] for row in rows)):
            stands = (self._logits(part).argmax(1) == part.ids.flatten()[part.at + 1]).tolist()
            right += stands
            while stands:
                run = [*stands[:_DRAFT], False].index(False)
                accepted, drafts, stands = accepted + run, drafts + 1, stands[run + 1 :]
        return sum(right) / len(right), accepted / max(_DRAFT * drafts, 1)

    def _keep(self, losses: list[float], rows: Rows) -> None:
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state | {"progress": [self.steps, self.learned, self.seconds]}, self.path.with_suffix(".new"))
        os.replace(self.path.with_suffix(".new"), self.path)
        agreed, accepted = self.held_out(rows.held_out[:150])
        line = {
            "minutes": round(self.seconds / 60, 1), "steps": self.steps, "pieces": self.learned, "rows": len(rows.training),
            "loss": round(float(np.mean(losses)), 4), "agreement": round(agreed, 4), "acceptance": round(accepted, 4),
        }  # fmt: skip
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
