"""Writes small Hugging Face folders with random weights, complete with tokenizer and template."""

import json
from collections.abc import Sequence
from pathlib import Path

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_TEXT = [
    "The quick brown fox jumps over the lazy dog, and the dog says: hello there, how are you today?",
    "def add(a, b):\n    return a + b\n\nprint(add(12, 30))  # forty-two",
    "Once upon a time there was a king who had three daughters, and the youngest was the cleverest of them all.",
] * 3
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def write_tokenizer(folder: Path, size: int = 400, controls: Sequence[str] = tuple(CONTROLS)) -> int:
    """A byte-level BPE tokenizer.json of at most `size` tokens; how many it has."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size - 3, initial_alphabet=sorted(alphabet), show_progress=False, min_frequency=2
    )
    tokenizer.train_from_iterator(_TEXT, trainer)
    tokenizer.add_special_tokens(list(controls))
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer.get_vocab_size()


def write_folder(
    folder: Path, config_class: str = "LlamaConfig", *, padding: int = 13, seed: int = 0, **settings
) -> Path:
    """A folder with a random model of `config_class`; `padding` rows more than the tokenizer has tokens.

    The weights are drawn wider than usual, so that next tokens are neither all alike nor all equally likely.
    """
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    tokens = write_tokenizer(folder)
    sizes = {
        "vocab_size": tokens + padding, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.15,
        "bos_token_id": tokens - 3, "eos_token_id": tokens - 1, "pad_token_id": None,
    }  # fmt: skip
    torch.manual_seed(seed)
    loader = transformers.AutoModelForCausalLM
    if "vision_config" in settings:  # a text model inside of one that reads pictures
        inner = {"text_config": sizes | settings.pop("text_config"), **settings}
        config, loader = getattr(transformers, config_class)(**inner), transformers.AutoModelForImageTextToText
    else:
        config = getattr(transformers, config_class)(**sizes | settings)
    model = loader.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def change_config(folder: Path, **values: object) -> None:
    """Overwrite entries of config.json."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def add_tokens(folder: Path, texts: tuple[str, ...], *, special: bool) -> dict[str, int]:
    """Append added tokens to a tokenizer.json of either kind; their ids."""
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text())
    used = [*content["model"]["vocab"].values(), *(token["id"] for token in content["added_tokens"])]
    ids = {text: max(used) + 1 + number for number, text in enumerate(texts)}
    content["added_tokens"] += [
        {"id": token, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": special} for text, token in ids.items()
    ]  # fmt: skip
    file.write_text(json.dumps(content))
    return ids
