"""Public prompts of the paper (OmniDraft, arXiv 2507.02659 v3), by the names their data sets had. Data only."""

from __future__ import annotations

from typing import NamedTuple


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
