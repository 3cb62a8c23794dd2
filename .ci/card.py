"""What `.ci/card` prints: tables of one machine and its graphics card as one JSON object.

costs: seconds of passes of 1 to 16 rows; steps: a drafter's step on the card and on the processor; speed: tokens per
second, tokens per pass and how many texts differ from plain decoding's; bits: the widths that compute the same bits;
layers: how many of a model went to the card, and the memory told before against what it took.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from omnidraft.app.assistant import Assistant
from omnidraft.backends.llama.devices import local_cards
from omnidraft.backends.llama.model import LlamaDrafter, LlamaTarget
from omnidraft.backends.llama.widths import WIDTHS, rows_read_by, width_class
from omnidraft.decoding.measuring import measure_pace, step_seconds
from omnidraft.errors import OmniDraftError
from omnidraft.lab import statistics as stats
from omnidraft.lab.experiment import DEFAULT, Pair, answers, same_ids, sampling_of
from omnidraft.lab.prompts import load_prompts
from omnidraft.settings.config import CacheSettings, ModelSettings
from omnidraft.storage.paths import DataHome
from omnidraft.storage.trial import TRIALS
from tests.forms import requantized
from tests.hollow import SHAPES, write_hollow

ROOT = Path(__file__).resolve().parent.parent
BUNDLED = ROOT / "models" / "smol-drafter-q5_0.gguf"
SMOL, QWEN = "SmolLM2-135M-Instruct-Q4_1", "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M"
FORMS = ("Q4_K_M", "Q8_0", "F16")
WAYS = ("plain", "adaptive", "fixed:4")
Rows = list[dict[str, Any]]


def costs(models: list[Path]) -> Rows:
    """A model's own passes, and its width class as it was found at loading."""
    rows = []
    for path in models:
        with LlamaTarget.open(path, ModelSettings(n_ctx=1024)) as target:
            pace = measure_pace(target, None, 10.0)
            widths = [n for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16) if n <= target.widest]
            rows.append({"model": path.stem, **{f"C({n})": pace.plain_seconds + pace.extra(n) for n in widths}})
    return rows


def steps(drafters: list[Path]) -> Rows:
    """Where no card is, both columns are the processor's."""
    rows = []
    for path in drafters:
        row: dict[str, Any] = {"drafter": path.stem}
        for place, layers in (("card", -1), ("processor", 0)):
            with LlamaDrafter.open(path, ModelSettings(n_ctx=1024, n_gpu_layers=layers)) as drafter:
                row[place] = step_seconds(drafter)
        rows.append(row)
    return rows


def speed(home: DataHome, target: Path, drafter: Path, prompts: int, tokens: int) -> Rows:
    """Both samplings, every way in turns on the same prompts."""
    asked = [prompt for task in ("math", "code") for prompt in load_prompts(task)[: prompts // 2]]
    rows = []
    with Pair(home, target, drafter, ModelSettings(n_ctx=2048)) as pair:
        for column in (0.0, DEFAULT):
            found = answers(pair.answer, WAYS, asked, column, 0, tokens)
            for way, said in found.items():
                rows.append({
                    "target": target.stem, "drafter": drafter.stem, "temperature": sampling_of(column).temperature,
                    "way": way,
                    "tokens_per_second": stats.per_second(said), "tokens_per_pass": stats.per_pass(said),
                    "answers": len(said), "differ": len(said) - same_ids(found["plain"], said),
                })  # fmt: skip
    return rows


def bits(models: list[Path]) -> Rows:
    """least and widest rows of the passes that compute the same bits."""
    rows = []
    for path in models:
        with LlamaTarget.open(path, ModelSettings(n_ctx=1024)) as target:
            widths = [width for width in WIDTHS if width <= target.max_rows]
            found = width_class(partial(rows_read_by, target), widths)
            rows.append({"model": path.stem, "least": found.least, "widest": found.widest})
    return rows


def layers(home: DataHome, models: list[Path]) -> Rows:
    """Each model in the place of the one before, and the first again at the end."""
    rows, assistant = [], Assistant(home, ephemeral=True)
    try:
        for path in [*models, models[0]]:
            before, began = sum(card.free for card in local_cards()), time.perf_counter()
            said = assistant.load(path, None, ModelSettings(n_ctx=4096), CacheSettings())
            took = before - sum(card.free for card in local_cards())
            rows.append({"model": path.stem, "seconds": time.perf_counter() - began, "card_bytes_more": took,
                         "said": said})  # fmt: skip
    finally:
        assistant.close()
    return rows


def forms(model: Path, folder: Path, small: bool) -> list[Path]:
    return [requantized(model, form, folder) for form in (FORMS[1:2] if small else FORMS)]


def tables(folder: Path, models: Path, small: bool) -> Iterator[tuple[str, Rows]]:
    home = DataHome(folder / "home")
    for known in (models, folder):  # by whoever measures: no child need open them first
        TRIALS.trust(known)
    real = [path for name in (SMOL, QWEN) if (path := models / f"{name}.gguf").exists()]
    real = real or [ROOT / "models" / "tiny-target-a-f16.gguf"]
    drafters = [BUNDLED, *real[:1]]
    every = [form for model in (real[:1] if small else real) for form in forms(model, folder, small)]
    shapes = {} if small else {name: SHAPES[name] for name in ("1B", "8B", "14B")}
    hollow = [write_hollow(folder / f"{n}-{form}.gguf", shape, form) for n, shape in shapes.items() for form in FORMS]
    yield "costs", costs([*real, *every, *hollow])
    yield "steps", steps(drafters)
    prompts, tokens = (2, 16) if small else (16, 128)
    yield "speed", [row for form in every for row in speed(home, form, BUNDLED, prompts, tokens)]
    yield "bits", bits([*real, *every])
    yield "layers", layers(home, [*real, *every[-1:]])


def _stop(*_: object) -> NoReturn:
    raise OmniDraftError("It was stopped; the tables that were done stand here.")


def main() -> None:
    parser = argparse.ArgumentParser(prog=".ci/card", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a minute, for tests")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    found: dict[str, Any] = {"cards": [f"{card.name}: {card.description}" for card in local_cards()]}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name, rows in tables(Path(folder), Path(os.environ.get("OMNIDRAFT_MODELS", folder)), args.small):
                found[name] = rows
                print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
        except OmniDraftError as error:
            found["failed"] = str(error)
    print(json.dumps(found | {"seconds": round(time.perf_counter() - began)}, indent=1))
    sys.exit("failed" in found)


if __name__ == "__main__":
    main()
