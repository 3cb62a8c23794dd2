"""Chat formats of the big model families, each as a template in its own words, with a vocabulary that has its tokens.

The templates follow the formats the families document; a real model's own template comes with its file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.hf_vocab import read_tokenizer_json
from tests.backends.hf_folders import write_tokenizer
from tests.backends.spm_tokenizers import add_tokens, invent_pieces, write_json


@dataclass(frozen=True)
class Family:
    """controls: special tokens; plain: added tokens that count as text; spm: SentencePiece style, else byte-level.

    expected: the first prompt of a conversation with system message; rewrites: whether later turns change earlier text.
    """

    template: str
    controls: tuple[str, ...]
    bos: str | None
    eos: str
    expected: str
    plain: tuple[str, ...] = ()
    spm: bool = False
    rewrites: bool = False


LLAMA_3 = """{{- bos_token }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""

QWEN_25 = """{%- if messages[0].role != 'system' %}{{ '<|im_start|>system\nYou are a helper.<|im_end|>\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

# Thoughts of earlier turns are taken out; those behind the last question stay.
QWEN_3 = """{%- set ns = namespace(last=0) %}
{%- for message in messages %}
{%- if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
{%- set content = message.content %}
{%- if message.role == 'assistant' and loop.index0 < ns.last and '</think>' in content %}
{%- set content = content.split('</think>')[-1].lstrip('\n') %}
{%- endif %}
{{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}
{%- endif %}"""

GEMMA = """{{ bos_token }}
{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for message in messages %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}
{%- set role = 'model' if message.role == 'assistant' else message.role %}
{{- '<start_of_turn>' + role + '\n' + message.content | trim + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"""

# The system message stands before the last question, so it moves from turn to turn.
MISTRAL = """{%- if messages[0].role == 'system' %}
{%- set system = messages[0].content %}{% set turns = messages[1:] %}
{%- else %}{% set turns = messages %}{% endif %}
{{- bos_token }}
{%- for message in turns %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}
{%- if message.role == 'user' %}
{%- if loop.last and system is defined %}{{ '[INST] ' + system + '\n\n' + message.content + '[/INST]' }}
{%- else %}{{ '[INST] ' + message.content + '[/INST]' }}{% endif %}
{%- else %}{{ ' ' + message.content + eos_token }}{% endif %}
{%- endfor %}"""

PHI = """{% for message in messages %}{{ '<|' + message.role + '|>\n' + message.content + '<|end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"""

DEEPSEEK = """{{ bos_token }}
{%- for message in messages %}
{%- if message.role == 'system' %}{{ message.content }}{% endif %}
{%- if message.role == 'user' %}{{ '<｜User｜>' + message.content }}{% endif %}
{%- if message.role == 'assistant' %}
{%- set content = message.content %}
{%- if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}
{{- '<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}"""

_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
FAMILIES = {
    "llama 3": Family(
        LLAMA_3,
        ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        "<|begin_of_text|>", "<|eot_id|>",
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi there<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "qwen 2.5": Family(
        QWEN_25, _CHATML, None, "<|im_end|>",
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n",
    ),
    "qwen 3": Family(
        QWEN_3, _CHATML, None, "<|im_end|>",
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n",
        plain=("<think>", "</think>"), rewrites=True,
    ),
    "gemma": Family(
        GEMMA, ("<pad>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"), "<bos>", "<end_of_turn>",
        "<bos><start_of_turn>user\nBe brief.\n\nHi there<end_of_turn>\n<start_of_turn>model\n", spm=True,
    ),
    "mistral": Family(
        MISTRAL, ("[INST]", "[/INST]"), "<s>", "</s>", "<s>[INST] Be brief.\n\nHi there[/INST]",
        spm=True, rewrites=True,
    ),
    "phi": Family(
        PHI, ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"), None, "<|end|>",
        "<|system|>\nBe brief.<|end|>\n<|user|>\nHi there<|end|>\n<|assistant|>\n",
    ),
    "deepseek": Family(
        DEEPSEEK, ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>",
        "<｜begin▁of▁sentence｜>Be brief.<｜User｜>Hi there<｜Assistant｜>",
        plain=("<think>", "</think>"), rewrites=True,
    ),
}  # fmt: skip


def build(family: Family, folder: Path) -> tuple[ChatTemplate, Vocabulary]:
    """The family's template over a small vocabulary of its kind, read as from a model's folder."""
    folder.mkdir()
    if family.spm:
        write_json(folder, invent_pieces(700))
    else:
        write_tokenizer(folder, controls=())
    ids = add_tokens(folder, family.controls, special=True) | add_tokens(folder, family.plain, special=False)
    ids |= {"<s>": 1, "</s>": 2} if family.spm else {}
    bos = "null" if family.bos is None else ids[family.bos]
    (folder / "config.json").write_text(f'{{"eos_token_id": {ids[family.eos]}, "bos_token_id": {bos}}}')
    add_bos = "false" if family.bos is None else "true"
    (folder / "tokenizer_config.json").write_text(f'{{"add_bos_token": {add_bos}}}')
    (folder / "chat_template.jinja").write_text(family.template)
    vocabulary = read_tokenizer_json(folder / "tokenizer.json")
    return ChatTemplate(family.template, vocabulary), vocabulary
