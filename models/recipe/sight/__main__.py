"""Teach a target to see: train it with a vision tower, and write both files.

    python -m models.recipe.sight tiny-target-a2 --data DIR --out DIR --minutes 40 --resume FOLDER [--tower FILE]

`--resume` names a Hugging Face folder of the target, `--tower` a projector that an earlier run wrote.
"""

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from ..data import encode_documents, is_held_out, read_records
from ..export import export_gguf, save_folder
from ..specs import SPECS
from ..train import TrainSettings
from .tower import Tower, TowerSpec, export_projector, read_projector
from .train import ALONE_SHARE, Pictures, Seeing, train


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m models.recipe.sight", description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=sorted(SPECS))
    parser.add_argument("--data", type=Path, required=True, help="folder of *.jsonl conversations")
    parser.add_argument("--out", type=Path, required=True, help="a folder NAME is made in here")
    parser.add_argument("--resume", type=Path, required=True, help="Hugging Face folder of the target")
    parser.add_argument("--tower", type=Path, help="projector of an earlier run, whose tower has learned alone")
    parser.add_argument("--minutes", type=float, default=40.0, help="of the processor (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=1.5e-3, help="peak rate (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    spec, out = SPECS[args.name], args.out / args.name
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(args.resume / "tokenizer.json"))
    records = [record for record in read_records(args.data, spec.tasks) if not is_held_out(record)]
    language = LlamaForCausalLM.from_pretrained(args.resume)
    wanted = TowerSpec(language.config.hidden_size)
    model = Seeing(language, read_projector(args.tower, wanted) if args.tower else Tower(wanted)).train()
    settings = TrainSettings(minutes=args.minutes, learning_rate=args.lr, compiled=False)
    train(
        model,
        Pictures(spec, tokenizer, args.seed),
        encode_documents(spec, tokenizer, records),
        out,
        settings,
        0.0 if args.tower else ALONE_SHARE,
    )
    model.eval()
    save_folder(out, spec, tokenizer, language)
    export_gguf(out / f"{spec.name}-f16.gguf", spec, tokenizer, language)
    export_projector(out / f"mmproj-{spec.name}-f16.gguf", spec.name, model.tower)


if __name__ == "__main__":
    main()
