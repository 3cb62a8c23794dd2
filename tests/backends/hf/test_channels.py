"""A model that answers in channels, in a folder: what ends its thoughts does not end the answer."""

from itertools import pairwise
from pathlib import Path

import pytest

from omnidraft.backends.hf.target import HfTarget
from omnidraft.settings.config import ModelSettings, SamplingSettings
from tests.answering import PLAIN, answered, loaded
from tests.backends.hf_folders import add_tokens, change_config, write_tokenizer

TEMPLATE = """{%- for m in messages %}
{{- '<|start|>' + m.role + ('<|channel|>final' if m.role == 'assistant' else '') }}
{{- '<|message|>' + m.content + '<|end|>' }}
{%- endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"""
# What follows what. Nothing else is known, so that thoughts follow on thoughts.
CHAIN = ("<|start|>", "assistant", "<|channel|>", "analysis", "<|message|>", "hm", "<|end|>", "<|start|>")


def write_channels(folder: Path, controls: tuple[str, ...]) -> Path:
    """A model whose next token follows from the last one alone, as in `CHAIN`."""
    import torch
    import transformers

    folder.mkdir()
    write_tokenizer(folder, controls=("<|first|>",))
    ids = add_tokens(folder, controls, special=True)
    ids |= add_tokens(folder, ("assistant", "analysis", "hm"), special=False)
    size = max(ids.values()) + 1
    config = transformers.LlamaConfig(
        vocab_size=size, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=256, tie_word_embeddings=False, bos_token_id=None, eos_token_id=ids["<|return|>"],
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "norm" not in name:
                weights.zero_()
        for row, (token, following) in enumerate(pairwise(CHAIN)):
            model.model.embed_tokens.weight[ids[token], row] = 1.0
            model.lm_head.weight[ids[following], row] = 10.0
    model.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    change_config(folder, bos_token_id=None)
    return folder


@pytest.mark.parametrize("more", [(), ("<|call|>",)])
def test_the_end_of_the_analysis_is_not_the_end_of_the_answer(more: tuple[str, ...], models: Path, tmp_path: Path):
    controls = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", *more)
    folder = write_channels(tmp_path / "channels", controls)
    with HfTarget.open(folder, ModelSettings(threads=1, n_ctx=128, device="cpu")) as target:
        assert (target.vocabulary.controls["<|end|>"] in target.vocabulary.eog) == (not more)
    settings = ModelSettings(threads=1, n_ctx=128)
    with loaded(tmp_path / "home", folder, models / "tiny-drafter-f16.gguf", settings) as assistant:
        written, _ = answered(assistant, "Hi", SamplingSettings(temperature=0.0, max_tokens=20), PLAIN)
    assert len(written) == 20
