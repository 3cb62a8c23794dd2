"""How well a target sees drawings it never had, and whether it says the same of them with its drafter.

    python -m models.recipe.sight.check FILE.gguf [--questions 200] [--same 100] [--wrong]

The projector lies beside the file. Runs through the program's own engine with its bundled drafter.
"""

import argparse
import hashlib
import json
import random
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omnidraft.backends.pictures import Picture
from omnidraft.backends.prompting.picture_marks import with_pictures
from omnidraft.bench.pairs import PLAIN, Pair
from omnidraft.settings.config import ModelSettings, SamplingSettings
from omnidraft.storage.paths import BUNDLED_MODELS, DataHome

from .drawings import Asked, draw

DRAFTER = BUNDLED_MODELS / "tiny-drafter-f16.gguf"
DRAFTED = "fixed:4"
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
        print(json.dumps(said))


if __name__ == "__main__":
    main()
