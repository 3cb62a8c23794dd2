"""How well a target sees drawings it never had, and how well is drafted behind them.

    python -m models.recipe.sight.check FILE.gguf [--questions 200] [--same 100] [--teach 64] [--wrong]

The projector lies beside the file. Runs through the program's own engine with its bundled drafter, which learns from
answers about other drawings; then what is accepted behind drawings is set beside what is of the same words without.
"""

import argparse
import hashlib
import json
import random
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnidraft.backends.pictures import Picture
from omnidraft.backends.prompting.picture_marks import with_pictures
from omnidraft.bench.answering import records
from omnidraft.bench.learn import live
from omnidraft.bench.pairs import PLAIN, Pair, Way
from omnidraft.learning.material.expansions import ExpansionTable
from omnidraft.learning.training.stream import StreamLearner
from omnidraft.settings.config import LearningSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import BUNDLED_MODELS, DataHome

from .drawings import Asked, draw

DRAFTER = BUNDLED_MODELS / "tiny-drafter-f16.gguf"
DRAFTED = Way("fixed:4")
SEED = 10_000_000  # training draws with 1 and 7
LONGEST = 60  # tokens of an answer


def questions(count: int, seed: int = SEED) -> list[tuple[Picture, Asked]]:
    """Drawings that training never had, with one question each."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        drawing = draw(rng)
        height, width, _ = drawing.pixels.shape
        pixels = drawing.pixels.tobytes()
        picture = Picture(hashlib.sha256(pixels).hexdigest(), width, height, pixels)
        found.append((picture, rng.choice(drawing.asked)))
    return found


def message(picture: Picture, question: str) -> list[dict[str, Any]]:
    return [{"role": "user", **with_pictures(question, [picture])}]


def right_by_kind(pair: Pair, asked: Sequence[tuple[Picture, Asked]]) -> tuple[dict[str, list[bool]], list[dict]]:
    """Whether each answer at T = 0 is the expected one, word for word, by kind; and the wrong ones."""
    found: dict[str, list[bool]] = defaultdict(list)
    wrong = []
    for picture, one in asked:
        text = _text(pair, pair.answer(PLAIN, message(picture, one.question), _sampling(0.0)).ids)
        found[one.kind].append(text == one.answer)
        if text != one.answer:
            wrong.append({"kind": one.kind, "question": one.question, "answer": text, "right": one.answer})
    return found, wrong


def same_text(pair: Pair, asked: Sequence[tuple[Picture, Asked]]) -> dict[str, int]:
    """How many answers have plain decoding's ids with drafts of four, at T = 0 and T = 1."""
    same = {"T=0": 0, "T=1": 0}
    for seed, (picture, one) in enumerate(asked):
        for name, temperature in (("T=0", 0.0), ("T=1", 1.0)):
            sampling = _sampling(temperature, seed)
            plain, drafted = (pair.answer(way, message(picture, one.question), sampling) for way in (PLAIN, DRAFTED))
            same[name] += plain.ids == drafted.ids
    return same


def teach(pair: Pair, count: int, folder: Path) -> Path | None:
    """The adapter that the drafter learned from answers about `count` other drawings; None if it was refused."""
    table = folder / "table.npz"
    ExpansionTable.from_pair(pair.pair).save(table)
    learner = StreamLearner(folder, DRAFTER, LearningSettings(), threads=1)
    vocabulary = pair.pair.target.fingerprint
    learner.switched(vocabulary, "seen", {vocabulary: str(table)})
    others = enumerate(questions(count, SEED + 1))
    asked = ((f"seen {i}", "qa", message(picture, one.question)) for i, (picture, one) in others)
    adapter = None
    for update in live(learner, list(records(pair, asked, 1.0, LONGEST))):
        adapter = update.version.adapter if update.version else None
    return adapter


def acceptance(pair: Pair, asked: Sequence[tuple[Picture, Asked]], seen: bool) -> float:
    """Accepted of what is proposed for the target's words about drawings; not `seen`: for the same words, which a form
    makes it say, where the question stands alone."""
    accepted = proposed = 0
    pair.engine.forcing = False  # what a form leaves no choice about is not the drafter's
    for picture, one in asked:
        trace = pair.answer(DRAFTED, *asking(pair, picture, one, seen))
        accepted, proposed = accepted + trace.accepted, proposed + trace.proposed
    pair.engine.forcing = True
    return accepted / proposed


def asking(pair: Pair, picture: Picture, one: Asked, seen: bool) -> tuple[list[dict[str, Any]], SamplingSettings]:
    """(messages, sampling) at T = 0; not `seen`: for what is said of the drawing, without it."""
    messages, sampling = message(picture, one.question), _sampling(0.0)
    if seen:
        return messages, sampling
    said = _text(pair, pair.answer(PLAIN, messages, sampling).ids)
    return [{"role": "user", "content": one.question}], replace(sampling, form=f"root ::= {json.dumps(said)}")


def _text(pair: Pair, ids: Sequence[int]) -> str:
    eog = pair.pair.target.eog
    return pair.pair.target.decode([id for id in ids if id not in eog]).decode(errors="replace").strip()


def _sampling(temperature: float, seed: int = 1) -> SamplingSettings:
    return SamplingSettings.unfiltered(temperature=temperature, seed=seed, max_tokens=LONGEST)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m models.recipe.sight.check", description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--same", type=int, default=100, help="answers compared at each temperature")
    parser.add_argument("--teach", type=int, default=64, help="answers that the drafter learns from")
    parser.add_argument("--wrong", action="store_true", help="print the wrong answers too")
    args = parser.parse_args()
    asked = questions(args.questions)
    with tempfile.TemporaryDirectory() as folder, Pair(
        DataHome(Path(folder)), args.file, DRAFTER, ModelSettings(threads=1)
    ) as pair:  # fmt: skip
        found, wrong = right_by_kind(pair, asked)
        for entry in wrong if args.wrong else ():
            print(json.dumps(entry))
        every = [right for kind in found.values() for right in kind]
        shares = {kind: f"{sum(right)}/{len(right)}" for kind, right in sorted(found.items())}
        said: dict[str, Any] = {"right": f"{sum(every)}/{len(every)}", **shares}
        said["same"] = same_text(pair, asked[: args.same])
        for name in ("untaught", "taught")[: 2 if args.teach else 1]:
            if name == "taught":
                pair.draft_with(None, teach(pair, args.teach, Path(folder)))
            said[name] = {
                "behind drawings": round(acceptance(pair, asked, True), 3),
                "the same words without": round(acceptance(pair, asked, False), 3),
            }
        print(json.dumps(said))


if __name__ == "__main__":
    main()
