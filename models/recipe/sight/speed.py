"""What drafting gains behind drawings, and for the same words without them, at the cost of a larger target.

    python -m models.recipe.sight.speed FILE.gguf [--shape 0.5b] [--type F32] [--questions 24] [--teach 64]

The drafter learns at the bundled size; target and projector are enlarged so that they say the same. Plain decoding and
the app's own way answer in turns.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from omnidraft.backends.gguf.expand.cache import expanded_model
from omnidraft.backends.gguf.expand.model import DTYPES
from omnidraft.backends.gguf.expand.padding import correct_norms
from omnidraft.backends.gguf.expand.shapes import SHAPES, Shape
from omnidraft.backends.gguf.expand.source import LlamaFile
from omnidraft.backends.projectors import projector_beside
from omnidraft.bench.pairs import PLAIN, Pair, Way
from omnidraft.bench.runner import in_turns
from omnidraft.lab import statistics as stats
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.paths import DataHome

from .check import DRAFTER, asking, questions, teach
from .tower import Tower, TowerSpec, export_projector, read_projector

ADAPTIVE = Way("adaptive")


def enlarged(file: Path, folder: Path, shape: Shape, dtype: str) -> Path:
    """The target at another shape, and beside it a projector whose rows are as wide."""
    large, small, projector = expanded_model(folder, file, shape, dtype), LlamaFile(file), projector_beside(file)
    if projector is None:
        raise SystemExit(f"No projector lies beside {file}.")
    tower = read_projector(projector, TowerSpec(small.shape.width))
    export_projector(large.with_name(f"mmproj-{large.name}"), file.stem, widened(tower, shape.width, small.epsilon))
    return large


def widened(tower: Tower, width: int, epsilon: float) -> Tower:
    """Rows of `width` numbers that the enlarged model reads like the small one those of `tower`; `epsilon` is the
    small model's, whose reserved number every row holds (`expand/padding.py`)."""
    small = tower.spec.out
    wide = Tower(TowerSpec(width))
    state = wide.state_dict()
    for name, weight in tower.state_dict().items():
        to = torch.zeros_like(state[name])
        to[tuple(slice(length) for length in weight.shape)] = weight
        state[name] = to
    state["mm_2.bias"][small] = correct_norms(small, width, epsilon).constant
    wide.load_state_dict(state)
    return wide


def compared(pair: Pair, asked: Sequence, seen: bool) -> dict:
    """Speed of drafting over plain decoding, and how many answers have the same ids."""
    pair.forget()  # what was said before would be copied
    prompts = [asking(pair, picture, one, seen) for picture, one in asked]
    found = in_turns([PLAIN, ADAPTIVE], prompts, lambda way, number, prompt: pair.answer(way, *prompt))
    plain, drafted = found[PLAIN], found[ADAPTIVE]
    return {
        "speedup": asdict(stats.speedup(plain, drafted)),
        "plain tokens/s": sum(one.tokens for one in plain) / sum(one.decode for one in plain),
        "accepted": sum(one.accepted for one in drafted) / max(1, sum(one.proposed for one in drafted)),
        "same": sum(one.ids == other.ids for one, other in zip(plain, drafted, strict=True)),
        "answers": len(plain),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m models.recipe.sight.speed", description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="0.5b")
    parser.add_argument("--type", choices=DTYPES, default="F32")
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--teach", type=int, default=64, help="answers that the drafter learns from")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = DataHome(folder)
        with Pair(home, args.file, DRAFTER, ModelSettings(threads=1)) as small:
            adapter = teach(small, args.teach, folder)
        large = enlarged(args.file, folder, SHAPES[args.shape], args.type)
        with Pair(home, large, DRAFTER, ModelSettings()) as pair:
            pair.draft_with(None, adapter)
            pair.engine.forcing = False
            asked = [one for one in questions(8 * args.questions) if one[1].kind == "description"][: args.questions]
            for seen in (True, False):
                said = compared(pair, asked, seen)
                print(json.dumps({"seen" if seen else "the same words without a drawing": said}), flush=True)


if __name__ == "__main__":
    main()
