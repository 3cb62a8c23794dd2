"""`python -m models.recipe --targets DIR --data DIR --out FILE`: may be stopped, and begun again, at any time."""

import argparse
from itertools import islice
from pathlib import Path

import torch

from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

from .answers import Writer, prompts, read_training
from .cut import export, new_model, read_model, read_vocabulary
from .train import Rows, Training

SOURCE = "SmolLM2-135M-Instruct-Q4_1.gguf"
WRITERS = {  # answers
    SOURCE: 10000,
    "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf": 7000,
    "Qwen2.5-Coder-1.5B-Instruct-Q4_K_M.gguf": 3000,
}
_TOKENS = 160
_RATE, _RATE_ON = 1.8e-3, 4e-4  # of a new drafter, and of one that is trained on: more would cost it what it knows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m models.recipe", description=__doc__)
    parser.add_argument("--targets", type=Path, required=True, help=f"has {', '.join(WRITERS)}")
    parser.add_argument("--data", type=Path, required=True, help="has pretrain/*.jsonl and stream/*.jsonl")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="the drafter; FILE.work beside it has what it came of",
    )
    parser.add_argument("--start", type=Path, help="a drafter to train on; then nothing but answers is learned")
    parser.add_argument("--minutes", type=float, default=74)
    parser.add_argument("--answers", type=float, default=1, help="times as many as usual")
    args = parser.parse_args()
    torch.set_num_threads(1)
    work, data = args.out.with_name(args.out.name + ".work"), read_training(args.data)
    work.mkdir(parents=True, exist_ok=True)
    files = {name: work / f"{Path(name).stem}.jsonl" for name in WRITERS}
    for name, path in files.items():
        have = path.read_bytes() if path.exists() else b""
        path.write_bytes(have[: have.rfind(b"\n") + 1])  # it may have been stopped within a line
        number = have.count(b"\n")
        if (missing := int(WRITERS[name] * args.answers) - number) > 0:
            asked = islice(prompts(data, number), missing)
            Writer(args.targets / name, _TOKENS).write(asked, path, number)
    vocabulary = read_vocabulary(args.targets / SOURCE)
    model = read_model(args.start) if args.start else new_model(args.targets / SOURCE, vocabulary)
    answers = {path: read_gguf_vocabulary(args.targets / name) for name, path in files.items()}
    rows = Rows(answers, vocabulary, [] if args.start else [one for kind in data.values() for one in kind])
    training = Training(model, work, args.minutes, _RATE_ON if args.start else _RATE)
    training.run(rows, lambda: export(args.out, vocabulary, model))


if __name__ == "__main__":
    main()
