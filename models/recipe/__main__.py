"""Command line of the recipe: train one model of the set and leave its Hugging Face folder and GGUF.

    python -m models.recipe tiny-target-a --data DIR --out DIR --minutes 45 [--resume FOLDER]

`--out DIR/NAME` receives tokenizer.json, config.json, model.safetensors, NAME-f16.gguf, log.jsonl, checkpoint.pt.
To end early with a proper decay, send SIGTERM.
"""

import argparse
import os
from functools import partial
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from omnidraft.backends.gguf.convert import convert_folder

from .data import Document, Record, contents, encode_documents, is_held_out, read_records
from .export import save_folder
from .held_out import mean_loss
from .specs import SPECS, ModelSpec
from .start import start_from
from .tokenizers import train_tokenizer
from .train import Trainer, TrainSettings, new_model


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    defaults = TrainSettings()
    parser = argparse.ArgumentParser(prog="python -m models.recipe", description="Train one of the bundled models.")
    parser.add_argument("name", choices=sorted(SPECS))
    parser.add_argument("--data", type=Path, required=True, help="folder of *.jsonl conversations")
    parser.add_argument("--out", type=Path, required=True, help="a folder NAME is made in here")
    parser.add_argument("--minutes", type=float, default=defaults.minutes, help="training time (default: %(default)s)")
    parser.add_argument("--resume", type=Path, help="Hugging Face folder to start from; its tokenizer.json is kept")
    parser.add_argument(
        "--start", type=Path, help="checkpoint.pt of a like model whose weights and layers to start from"
    )
    parser.add_argument("--device", default=defaults.device, help="cpu, cuda or mps (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="CPU threads (default: all)")
    parser.add_argument("--rows", type=int, default=defaults.rows, help="sequences a step (default: %(default)s)")
    parser.add_argument("--length", type=int, default=defaults.length, help="tokens a sequence (default: %(default)s)")
    parser.add_argument("--learned-share", type=float, default=defaults.learned_share, help="of a step's tokens")
    parser.add_argument("--lr", type=float, default=defaults.learning_rate, help="peak rate (default: %(default)s)")
    parser.add_argument("--decay-share", type=float, default=defaults.decay_share, help="last part of the run")
    parser.add_argument("--fp32", action="store_true", help="no bfloat16 in matrix products")
    parser.add_argument("--eager", action="store_true", help="do not compile the loss")
    parser.add_argument("--continue", dest="take_up", action="store_true", help="go on from checkpoint.pt in --out")
    return parser.parse_args(argv)


def settings_from(args: argparse.Namespace) -> TrainSettings:
    return TrainSettings(
        minutes=args.minutes, device=args.device, bf16=not args.fp32, compiled=not args.eager, rows=args.rows,
        length=args.length, learned_share=args.learned_share,
        learning_rate=args.lr, decay_share=args.decay_share,
    )  # fmt: skip


def find_tokenizer(spec: ModelSpec, records: list[Record], out: Path, resume: Path | None) -> Tokenizer:
    """The tokenizer of a folder if one is given, else of the model this one shares it with, else a new one."""
    if resume is not None:
        return Tokenizer.from_file(str(resume / "tokenizer.json"))
    if spec.tokenizer_of is not None:
        return Tokenizer.from_file(str(out.parent / spec.tokenizer_of / "tokenizer.json"))
    return train_tokenizer(spec, contents([record for record in records if not is_held_out(record)]))


def build(
    spec: ModelSpec,
    data: Path,
    out: Path,
    settings: TrainSettings,
    resume: Path | None = None,
    take_up: bool = False,
    start: Path | None = None,
) -> Path:
    """Train `spec` on `data` and return the path of the exported GGUF inside `out`."""
    out.mkdir(parents=True, exist_ok=True)
    records = read_records(data, spec.tasks)
    kept = resume or (out if (out / "tokenizer.json").exists() else None)
    tokenizer = find_tokenizer(spec, records, out, kept)
    tokenizer.save(str(out / "tokenizer.json"))
    model = LlamaForCausalLM.from_pretrained(resume) if resume is not None else new_model(spec, tokenizer)
    if start is not None:
        start_from(spec, model, tokenizer, start)
    training = encode_documents(spec, tokenizer, [r for r in records if not is_held_out(r)])
    held_out = encode_documents(spec, tokenizer, [r for r in records if is_held_out(r)])
    describe(model, training, held_out)
    trainer = Trainer(model, training, settings, out, spec.seed, partial(mean_loss, documents=held_out))
    if take_up:
        trainer.load_checkpoint()
    model = trainer.run()
    save_folder(out, spec, tokenizer, model)
    return convert_folder(out, out / f"{spec.name}-f16.gguf", "F16", spec.name, spec.licence)


def describe(model: LlamaForCausalLM, training: list[Document], held_out: list[Document]) -> None:
    parameters = sum(p.numel() for p in model.parameters())
    tokens = sum(map(len, training))
    learned = sum(int(document.learned.sum()) for document in training)
    print(
        f"{parameters / 1e6:.2f}M parameters, {tokens / 1e6:.2f}M tokens, "
        f"{learned / 1e6:.2f}M of them learned, {len(held_out)} documents held out",
        flush=True,
    )


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    spec, out = SPECS[args.name], args.out / args.name
    print(build(spec, args.data, out, settings_from(args), args.resume, args.take_up, args.start))


if __name__ == "__main__":
    main()
