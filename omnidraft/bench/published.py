"""What the paper (OmniDraft, arXiv 2507.02659 v3) reports, and where its models and prompts are found. Data only.

Names of repositories and data sets are as they were known when this was written, without a network to look them up.
"""

from __future__ import annotations

from typing import NamedTuple

DRAFTER = "JackFram/llama-68m"
TARGETS = (
    "llama3=bartowski/Meta-Llama-3-8B-Instruct-GGUF:Q8_0",
    "qwen2=Qwen/Qwen2-7B-Instruct-GGUF:Q8_0",
    "vicuna=TheBloke/vicuna-7B-v1.5-GGUF:Q8_0",
)


class Source(NamedTuple):
    """Rows of a data set from `offset` on; form: the question they make."""

    dataset: str
    config: str
    split: str
    form: str
    offset: int = 0


_SUMMARY = "Summarize this article in one sentence.\n\n{document}"
_ALPACA = Source("tatsu-lab/alpaca", "default", "train", "{instruction}\n\n{input}")
SOURCES: dict[str, dict[str, tuple[Source, ...]]] = {
    "gsm8k": {part: (Source("openai/gsm8k", "main", part, "{question}"),) for part in ("train", "test")},
    "code": {
        "train": (Source("google-research-datasets/mbpp", "full", "train", "{text}"),),
        "test": (
            Source("google-research-datasets/mbpp", "full", "test", "{text}"),
            Source("openai/openai_humaneval", "openai_humaneval", "test", "Complete this function.\n\n{prompt}"),
        ),
    },
    "alpaca": {"train": (_ALPACA,), "test": (_ALPACA._replace(offset=50_000),)},
    "xsum": {part: (Source("EdinburghNLP/xsum", "default", part, _SUMMARY),) for part in ("train", "test")},
}

Figures = tuple[float, float]  # acceptance, speedup over plain decoding
# The direct map alone, L_DM, L_DM + lambda L_N, and that with LoRA, which is how ours learns. Vicuna has the drafter's
# vocabulary: speculative decoding, and distillation alone.
FIGURES: dict[str, dict[str, dict[str, Figures]]] = {
    "llama3": {
        "gsm8k": {"direct": (0.10, 0.94), "dm": (0.32, 1.58), "hybrid": (0.42, 1.70), "hybrid, LoRA": (0.37, 1.59)},
        "code": {"direct": (0.09, 1.03), "dm": (0.22, 1.26), "hybrid": (0.27, 1.33), "hybrid, LoRA": (0.19, 1.28)},
        "alpaca": {"direct": (0.09, 0.96), "dm": (0.16, 1.25), "hybrid": (0.20, 1.30), "hybrid, LoRA": (0.17, 1.21)},
        "xsum": {"direct": (0.11, 0.91), "dm": (0.20, 1.20), "hybrid": (0.24, 1.24), "hybrid, LoRA": (0.23, 1.21)},
    },
    "qwen2": {
        "gsm8k": {"direct": (0.14, 1.04), "dm": (0.33, 1.50), "hybrid": (0.37, 1.61), "hybrid, LoRA": (0.31, 1.41)},
        "code": {"direct": (0.09, 0.91), "dm": (0.22, 1.29), "hybrid": (0.26, 1.36), "hybrid, LoRA": (0.21, 1.21)},
        "alpaca": {"direct": (0.13, 1.01), "dm": (0.17, 1.25), "hybrid": (0.20, 1.30), "hybrid, LoRA": (0.18, 1.25)},
        "xsum": {"direct": (0.12, 0.96), "dm": (0.19, 1.16), "hybrid": (0.22, 1.22), "hybrid, LoRA": (0.22, 1.21)},
    },
    "vicuna": {
        "gsm8k": {"direct": (0.21, 1.44), "dm": (0.42, 2.20)},
        "code": {"direct": (0.14, 1.22), "dm": (0.35, 1.92)},
        "alpaca": {"direct": (0.20, 1.44), "dm": (0.25, 1.57)},
        "xsum": {"direct": (0.20, 1.42), "dm": (0.23, 1.53)},
    },
}
