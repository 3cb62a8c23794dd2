"""What the bundled models are: sizes, vocabularies, chat templates and the tasks each one is trained on.

Knows nothing of files, training or export. A smaller model for a test is `dataclasses.replace` of one of these.
"""

from dataclasses import dataclass
from typing import Literal

VocabularyKind = Literal["llama-bpe", "qwen2", "spm"]

ALL_TASKS = ("math", "code", "dialogue", "qa", "roleplay")

LLAMA3_TEMPLATE = (
    "{{ bos_token }}"
    "{% for m in messages %}"
    "<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n{{ m['content'] }}<|eot_id|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
CHATML_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VICUNA_TEMPLATE = (
    "{{ bos_token }}"
    "{% for m in messages %}"
    "{% if m['role'] == 'user' %}USER: {{ m['content'] }} "
    "{% elif m['role'] == 'assistant' %}ASSISTANT: {{ m['content'] }}</s>"
    "{% else %}{{ m['content'] }} {% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)


@dataclass(frozen=True)
class ModelSpec:
    """One model of the set: everything that must be known before a token of text is read."""

    name: str
    vocabulary: VocabularyKind
    vocabulary_size: int  # control tokens included
    layers: int
    width: int
    feed_forward: int
    heads: int
    template: str  # Jinja chat template, also stored in the GGUF
    controls: tuple[str, ...]  # control tokens, in id order
    bos: str
    eos: str  # ends a turn
    seed: int
    tasks: tuple[str, ...] = ALL_TASKS
    learns: Literal["answers", "all"] = "answers"  # which tokens count in the loss
    tied: bool = True  # output layer shares the embedding's weights
    tokenizer_of: str | None = None  # reuse this model's tokenizer.json instead of training one
    context: int = 1024
    licence: str = "CC-BY-SA-4.0"  # of the weights: the strictest licence among the bundled set's sources

    def __post_init__(self) -> None:
        if self.width % self.heads or (self.width // self.heads) % 2:
            raise ValueError(f"{self.name}: width {self.width} must divide into {self.heads} heads of even size")
        missing = {self.bos, self.eos} - set(self.controls)
        if missing:
            raise ValueError(f"{self.name}: {', '.join(sorted(missing))} must be among the control tokens")


_LLAMA3_CONTROLS = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")

TARGET_A = ModelSpec(
    name="tiny-target-a", vocabulary="llama-bpe", vocabulary_size=8192, layers=6, width=320, feed_forward=864, heads=10,
    template=LLAMA3_TEMPLATE, controls=_LLAMA3_CONTROLS, bos="<|begin_of_text|>", eos="<|eot_id|>", seed=1,
)  # fmt: skip
TARGET_B = ModelSpec(
    name="tiny-target-b", vocabulary="qwen2", vocabulary_size=6144, layers=4, width=320, feed_forward=864, heads=10,
    template=CHATML_TEMPLATE, controls=("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    bos="<|endoftext|>", eos="<|im_end|>", seed=2,
)  # fmt: skip
# The vocabulary of target a under another, shallower model: a change of target inside one family. It starts from
# some of target a's layers.
TARGET_A2 = ModelSpec(
    name="tiny-target-a2", vocabulary="llama-bpe", vocabulary_size=8192, layers=3, width=320, feed_forward=864,
    heads=10,
    template=LLAMA3_TEMPLATE, controls=_LLAMA3_CONTROLS, bos="<|begin_of_text|>", eos="<|eot_id|>", seed=7,
    tasks=("math", "code", "dialogue", "qa"), tokenizer_of="tiny-target-a",
)  # fmt: skip
# Neither the drafter nor its vocabulary sees math or code, so on those there is something to merge and to learn.
# Untied, so that an adapter may change the output layer alone. It learns what users say too: it rehearses by writing
# whole conversations.
DRAFTER = ModelSpec(
    name="tiny-drafter", vocabulary="spm", vocabulary_size=4096, layers=2, width=192, feed_forward=512, heads=6,
    template=VICUNA_TEMPLATE, controls=("<unk>", "<s>", "</s>"), bos="<s>", eos="</s>", seed=3,
    tasks=("dialogue", "qa", "roleplay"), learns="all", tied=False,
)  # fmt: skip

SPECS: dict[str, ModelSpec] = {spec.name: spec for spec in (TARGET_A, TARGET_B, TARGET_A2, DRAFTER)}
