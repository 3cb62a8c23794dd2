"""Trains a vision tower on what drawings show, then a bundled target with it, on drawings and its own text in turns.

Names for what is drawn teach a tower in minutes what answers alone teach it in hours; text keeps what the target knew.
Knows neither files of text nor llama.cpp.
"""

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import jinja2
import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional
from transformers import LlamaForCausalLM

from ..data import Document, packed_batches
from ..schedule import TrainingClock, WarmupHoldDecay
from ..specs import ModelSpec
from ..train import TrainSettings, log, make_optimizers
from .drawings import LABELS, SIDE, Asked, Drawing, draw
from .tower import Tower

HERE = "\x00"  # where the picture stands in a rendered conversation
QUESTIONS = 3  # about a picture, at most
PICTURES, LENGTH = 24, 104  # of a batch; tokens behind a picture
TEXT_LENGTH = 1024
ALONE_SHARE = 0.2  # of the time the tower learns alone, from names
NAMES_WEIGHT = 0.3  # of the names' loss beside the answers'
LANGUAGE_RATE = 0.3  # of the tower's: more, and it forgets its text


class Seeing(nn.Module):
    """tower: pictures to rows of the language model's width; language: what reads them."""

    def __init__(self, language: LlamaForCausalLM, tower: Tower) -> None:
        super().__init__()
        self.language, self.tower = language, tower
        self.names = nn.Sequential(nn.LayerNorm(4 * tower.spec.out), nn.Linear(4 * tower.spec.out, sum(LABELS)))

    def names_loss(self, rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of LABELS, told from the means of each quarter's `rows` (pictures, patches, width)."""
        side = SIDE // self.tower.spec.patch // 2
        quarters = rows.unflatten(1, (2, side, 2, side)).mean((2, 4)).flatten(1)
        told = self.names(quarters).split(LABELS, 1)
        return sum(functional.cross_entropy(one, labels[:, at]) for at, one in enumerate(told)) / len(LABELS)

    def loss(
        self, seen: torch.Tensor | None, before: torch.Tensor, ids: torch.Tensor, learned: torch.Tensor
    ) -> torch.Tensor:
        """Mean cross-entropy of `ids` (rows, n) where `learned`; behind the ids `before` (n,) and the rows of a picture
        each, if any are `seen`."""
        embed = self.language.get_input_embeddings()
        parts = [embed(ids)]
        if seen is not None:
            parts = [embed(before).expand(len(ids), -1, -1), seen, *parts]
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.language.model(inputs_embeds=torch.cat(parts, 1), use_cache=False).last_hidden_state
            behind = hidden[:, -ids.shape[1] :][:, :-1][learned[:, 1:]]
            logits = self.language.lm_head(behind)
        return functional.cross_entropy(logits.float(), ids[:, 1:][learned[:, 1:]])


class Pictures:
    """Batches of drawings with conversations about them."""

    def __init__(self, spec: ModelSpec, tokenizer: Tokenizer, seed: int) -> None:
        self._spec, self._tokenizer, self._rng = spec, tokenizer, random.Random(seed)
        self._template = jinja2.Environment().from_string(spec.template)
        self.before = torch.tensor(self._ids(self._render([("", "")]).split(HERE)[0]))

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def _render(self, turns: Sequence[tuple[str, str]]) -> str:
        said = []
        for at, (question, answer) in enumerate(turns):
            said += [{"role": "user", "content": f"{HERE}\n{question}" if at == 0 else question}]
            said += [{"role": "assistant", "content": answer}]
        return self._template.render(messages=said, bos_token=self._spec.bos)

    def conversation(self, asked: Sequence[Asked]) -> tuple[list[int], list[bool]]:
        """The ids behind the picture, and which of them are learned: answers with their end."""
        rendered = self._render([(one.question, one.answer) for one in asked]).split(HERE)[1]
        ids: list[int] = []
        learned: list[bool] = []
        for one in asked:
            asks, rendered = (
                rendered.split(one.answer + self._spec.eos, 1) if one.answer in rendered else (rendered, "")
            )
            for text, is_learned in ((asks, False), (one.answer + self._spec.eos, True)):
                part = self._ids(text)
                ids += part
                learned += [is_learned] * len(part)
        return ids, learned

    def _chosen(self, drawing: Drawing) -> list[Asked]:
        """Of a drawing's questions a few, in any order; places always, as comparing takes more examples than naming."""
        mixed = self._rng.sample(drawing.asked, len(drawing.asked))
        first = sorted(mixed, key=lambda one: one.kind != "place")[:QUESTIONS]
        return self._rng.sample(first, len(first))

    def batch(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """pixels (PICTURES, SIDE, SIDE, 3), labels (PICTURES, len(LABELS)), ids and learned (PICTURES, LENGTH)."""
        drawings = [draw(self._rng) for _ in range(PICTURES)]
        ids = torch.zeros((PICTURES, LENGTH), dtype=torch.long)
        learned = torch.zeros((PICTURES, LENGTH), dtype=torch.bool)
        for row, drawing in enumerate(drawings):
            found, marks = self.conversation(self._chosen(drawing))
            count = min(len(found), LENGTH)
            ids[row, :count], learned[row, :count] = torch.tensor(found[:count]), torch.tensor(marks[:count])
        pixels = torch.from_numpy(np.stack([drawing.pixels for drawing in drawings]))
        return pixels, torch.tensor([drawing.labels for drawing in drawings]), ids, learned


def train(
    model: Seeing, pictures: Pictures, texts: Sequence[Document], out: Path, settings: TrainSettings, alone_share: float
) -> None:
    """Train for `settings.minutes` of the processor, a share of them the tower alone; `out` receives log.jsonl and
    checkpoint.pt."""
    sees = make_optimizers(nn.ModuleDict({"tower": model.tower, "names": model.names}), settings)
    optimizers = [(one, 1.0) for one in sees]
    optimizers += [(one, LANGUAGE_RATE) for one in make_optimizers(model.language, settings)]
    schedule = WarmupHoldDecay(settings.minutes * 60, settings.warmup_steps, settings.decay_share)
    clock = TrainingClock("cpu", torch.get_num_threads())
    reading = _texts(texts)
    seen, told, kept, step = {"names": 0.0, "pictures": 0.0, "text": 0.0}, 0.0, 0.0, 0
    while (scale := schedule.scale(step, elapsed := clock.elapsed_s())) is not None:
        alone = elapsed < alone_share * settings.minutes * 60
        for name, loss in _losses(model, pictures, reading, alone):
            loss.backward()
            seen[name] = 0.95 * (seen[name] or loss.item()) + 0.05 * loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, share in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * scale * share
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        if elapsed >= told:
            told = elapsed + settings.log_every_s
            losses = {name: round(loss, 4) for name, loss in seen.items()}
            log(out, {"minutes": round(elapsed / 60, 2), "step": step, **losses, "rate": round(scale, 3),
                       "clock": time.strftime("%H:%M:%S")})  # fmt: skip
        if elapsed >= kept + settings.checkpoint_every_s:
            kept = elapsed
            torch.save(model.state_dict(), out / "checkpoint.partial")
            (out / "checkpoint.partial").replace(out / "checkpoint.pt")


def _losses(
    model: Seeing, pictures: Pictures, reading: Iterator[tuple[torch.Tensor, torch.Tensor]], alone: bool
) -> Iterator[tuple[str, torch.Tensor]]:
    """Of one step: of names, unless `alone` of answers about pictures with a share of the names, and of text."""
    pixels, labels, ids, learned = pictures.batch()
    rows = model.tower(pixels)
    names = model.names_loss(rows, labels)
    if alone:
        yield "names", names
        return
    yield "pictures", model.loss(rows, pictures.before, ids, learned) + NAMES_WEIGHT * names
    yield "text", model.loss(None, pictures.before, *next(reading))


def _texts(documents: Sequence[Document]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for ids, learned in packed_batches(documents, 1, TEXT_LENGTH, 0):
        yield torch.from_numpy(ids).long(), torch.from_numpy(learned).bool()
