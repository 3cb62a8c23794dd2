"""Averages the weights of a model before and behind a further stage: new things learned, old ones not forgotten.

    python -m models.recipe.average NAME BEFORE.gguf BEHIND.gguf OUT.gguf --share 0.5

Weights that one run led to from the others lie in one basin, where what is between them is often better at both ends'
tasks than either end (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models", equation 1).
"""

import argparse
from pathlib import Path

from .export import export_gguf
from .specs import SPECS, ModelSpec
from .unpack import read_model, read_tokenizer


def average(spec: ModelSpec, before: Path, behind: Path, share: float, out: Path) -> None:
    """Write (1 - share) of `before` and `share` of `behind`; ValueError if their vocabularies differ."""
    tokenizer = read_tokenizer(spec, before)
    if tokenizer.get_vocab() != read_tokenizer(spec, behind).get_vocab():
        raise ValueError(f"{before.name} and {behind.name} have different vocabularies")
    model, weights = read_model(before), read_model(behind).state_dict()
    model.load_state_dict({name: value.lerp(weights[name], share) for name, value in model.state_dict().items()})
    export_gguf(out, spec, tokenizer, model)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m models.recipe.average", description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=sorted(name for name, spec in SPECS.items() if spec.vocabulary != "spm"))
    parser.add_argument("before", type=Path)
    parser.add_argument("behind", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--share", type=float, required=True, help="of the weights behind the stage, 0 to 1")
    args = parser.parse_args()
    average(SPECS[args.name], args.before, args.behind, args.share, args.out)


if __name__ == "__main__":
    main()
