"""The settings, one small frozen dataclass per concern, each checked when it is made.

An instance that exists is valid. Every field carries one line of help and its accepted range (`describe`).
Knows nothing of files (file.py) and of who applies a setting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import Any, TypeVar

from omnidraft.errors import SettingsError
from omnidraft.settings.fields import (
    check,
    choice,
    describe,
    groups,
    integer,
    number,
    parse_addresses,
    parse_split,
    refusal,
    rules,
    switch,
    text,
    texts,
)

# Files that belong to a model, as people write them: "MODEL = FILE". Knows nothing of what is in them.


def named_file(entries: Sequence[str], model: str) -> str | None:
    """The file named for the model file or folder `model`, the last of several; None without any."""
    return dict(map(_parted, entries)).get(model)


def with_named_file(entries: Sequence[str], model: str, file: str) -> tuple[str, ...]:
    """The entries with `file` named for `model`; "" names none."""
    others = [entry for entry in entries if _parted(entry)[0] != model]
    return (*others, f"{model} = {file}") if file else tuple(others)


def _parted(entry: str) -> tuple[str, str]:
    name, _, file = entry.partition("=")
    return name.strip(), file.strip()


def _check_lines(setting: str, entries: Sequence[str], good: Callable[[str], object], like: str) -> None:
    for entry in entries:
        if not good(entry):
            raise SettingsError(f"The setting {setting} has {entry[:80]!r}, but must have lines like {like}.")


# What a browser calls a page's origin.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@*]+", re.IGNORECASE)

S = TypeVar("S")
MAX_CACHE_MB = 4096
MOST_ENTRIES = 10_000_000
AUTO_LAYERS = -1
MOST_TOKENS = 1_000_000  # of an answer
# Choices of earlier versions: files that have them load, with the default and a warning.
GONE = {"draft.mode": ("gamma",), "model.dtype": ("int8",), "learning.loss": ("dm_nll", "both_kl", "dm", "ngram")}
USUAL_LENGTH = 1024  # tokens after which an answer without thoughts has mostly lost its way


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How the next token is drawn from the target's distribution."""

    temperature: float = number(0.3, 0.0, 10.0, "Randomness: 0 always takes the most probable token, 1 samples as is.")
    top_k: int = integer(
        40, 0, 1_000_000, "Only the k most probable tokens may be drawn; 0 switches this off.", expert=True
    )
    top_p: float = number(
        0.95, 0.0, 1.0, "Only the most probable tokens that together reach this share; 1 is off.", expert=True
    )
    min_p: float = number(
        0.05, 0.0, 1.0, "Only tokens at least this fraction as probable as the best one; 0 is off.", expert=True
    )
    repeat_penalty: float = number(1.0, 0.5, 3.0, "Makes tokens of the last 64 less likely; 1 is off.", expert=True)
    presence_penalty: float = number(
        0.0, -2.0, 2.0, "Taken off the logit of what the answer said already; 0 is off.", expert=True
    )
    frequency_penalty: float = number(
        0.0,
        -2.0,
        2.0,
        "Taken off the logit of a token as often as the answer has said it; 0 is off.",
        expert=True,
    )
    seed: int | None = integer(
        None, 0, 2**63 - 1, "Same seed, same text; left empty, every answer gets a fresh one.", expert=True
    )
    max_tokens: int | None = integer(
        None, 1, MOST_TOKENS,
        "The answer ends after this many tokens at the latest; left empty, after 1,024, or if the model thinks before "
        "it answers, where the context ends.",
    )  # fmt: skip
    thinking: str = choice(
        "auto",
        ("auto", "on", "off", "low", "medium", "high"),
        "Whether a model thinks before it answers, or how much, where it can be told; auto leaves it to the model.",
    )
    stop: tuple[str, ...] = texts(
        "Texts that end the answer when they appear; they are not shown.", at_most=16, expert=True
    )

    def __post_init__(self) -> None:
        check(self, "sampling.")

    @property
    def longest(self) -> int:
        """Tokens of the longest answer."""
        return self.max_tokens or USUAL_LENGTH

    @classmethod
    def unfiltered(cls, **values: Any) -> SamplingSettings:
        """Draws from the target's whole distribution: no top-k, top-p or min-p unless `values` say so."""
        return cls(**{"top_k": 0, "top_p": 1.0, "min_p": 0.0, **values})


@dataclass(frozen=True, slots=True)
class DraftSettings:
    """Whether and how far the drafter drafts."""

    enabled: bool = switch(True, "Let the drafter propose tokens; off decodes plainly, with the same text.")
    mode: str = choice(
        "adaptive",
        ("adaptive", "fixed", "lookup"),
        "Draft length: by measured cost (adaptive), always the same (fixed), or no drafter and only copies of earlier "
        "text (lookup).",
        expert=True,
    )
    length: int = integer(4, 1, 64, "Drafter tokens per round in fixed mode.", expert=True)
    lookup: bool = switch(True, "Also propose continuations copied from earlier text.", expert=True)

    def __post_init__(self) -> None:
        check(self, "draft.")


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The n-gram cache that merges drafted pieces into the target's tokens."""

    enabled: bool = switch(True, "Merge drafted pieces into target tokens through the n-gram cache.", expert=True)
    capacity: int = integer(20_000, 1, MOST_ENTRIES, "Largest size of the cache, in the unit below.")
    unit: str = choice("entries", ("entries", "MB"), "What the capacity counts: entries or megabytes.")
    policy: str = choice(
        "lru",
        ("lru", "lfu", "lfu-aging"),
        "What goes first when the cache is full: what was not used for longest (lru), what was used least (lfu), or "
        "that, with old uses counting less (lfu-aging).",
    )
    seed: bool = switch(
        True,
        "Merge also what was not learned yet, by the two vocabularies, so that the first answer already merges.",
        expert=True,
    )

    def __post_init__(self) -> None:
        check(self, "cache.")
        if self.unit == "MB" and self.capacity > MAX_CACHE_MB:
            raise refusal(
                "cache.capacity", self.capacity, f"a whole number from 1 to {MAX_CACHE_MB:,} when counted in MB"
            )


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model is loaded; a change takes effect when it is loaded again."""

    n_ctx: int = integer(
        4096, 64, 16_777_216, "Context length in tokens, at most; 0 takes the model's own.", also=(0,), reload=True
    )
    threads: int = integer(0, 0, 1024, "Processor threads; 0 chooses by the machine.", reload=True, expert=True)
    n_gpu_layers: int = integer(
        AUTO_LAYERS, AUTO_LAYERS, 1000,
        "Layers computed on graphics cards; -1 as many as fit, 0 keeps all on the processor, 1000 takes all.",
        reload=True,
    )  # fmt: skip
    kv_type: str = choice(
        "f16", ("f16", "q8_0", "q4_0"), "Number format of the KV cache; q saves memory.", reload=True, expert=True
    )
    device: str = choice(
        "auto",
        ("auto", "cpu", "cuda", "mps"),
        "Where models in Hugging Face folders run; auto takes a GPU if there is one.",
        reload=True,
        expert=True,
    )
    dtype: str = choice(
        "auto",
        ("auto", "float32", "bfloat16", "float16"),
        "Number format of models in Hugging Face folders; auto takes float32 on the processor, half of it on a GPU.",
        reload=True,
        expert=True,
    )

    workers: str | None = text(
        None,
        "Workers that hold layers of the target, as host:port with commas between them.",
        reload=True,
        expert=True,
    )
    split: str | None = text(
        None,
        "Shares of the layers with commas, this machine first; left empty, by free memory.",
        reload=True,
        expert=True,
    )

    def __post_init__(self) -> None:
        check(self, "model.")
        parse_addresses(self.workers)
        parse_split(self.split)


@dataclass(frozen=True, slots=True)
class LearningSettings:
    """How the drafter learns from the answers while its owner is not waiting."""

    enabled: bool = switch(True, "Let the drafter learn from your answers in idle time.")
    loss: str = choice(
        "projected",
        ("projected", "hybrid"),
        "What training minimises; projected is ours, hybrid the paper's.",
        expert=True,
    )
    interval: int = integer(
        16, 1, 10_000, "Train after this many new answers, and on the first ones sooner.", expert=True
    )
    cpu_percent: int = integer(50, 1, 100, "Share of the processor's cores for training, in percent; one at least.")

    def __post_init__(self) -> None:
        check(self, "learning.")


@dataclass(frozen=True, slots=True)
class AppSettings:
    """Everything a profile remembers between starts."""

    target: str | None = text(None, "The target model's file or folder.", reload=True)
    drafter: str | None = text(
        None, "The drafter's file; left empty, the one at hand that is expected to be quickest.", reload=True
    )
    model_folders: tuple[str, ...] = texts("More folders to look for models in, or model files.", at_most=64)
    model_programs: tuple[str, ...] = texts(
        "Other programs whose models are listed: huggingface, lmstudio, ollama.", at_most=3
    )
    templates: tuple[str, ...] = texts(
        "Chat templates instead of those in the models' files: a model's file name, =, and a file with the template.",
        at_most=64,
        reload=True,
        expert=True,
    )
    projectors: tuple[str, ...] = texts(
        "What models see pictures through instead of the projector found beside them: a model's file name, =, and a "
        "projector's file, or none.",
        at_most=256,
        reload=True,
    )
    allowed_origins: tuple[str, ...] = texts(
        "Web pages that may use the API though they come from elsewhere, each as http://localhost:3000. Those of the "
        "profile that the app starts with count.",
        at_most=64,
        expert=True,
    )
    unload_after: float = number(
        60.0, 0.0, 100_000.0, "Minutes without a question after which the models leave memory; 0 keeps them."
    )
    theme: str = choice("system", ("system", "light", "dark"), "Colours of the pages.")
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    draft: DraftSettings = field(default_factory=DraftSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    learning: LearningSettings = field(default_factory=LearningSettings)

    def __post_init__(self) -> None:
        check(self)
        for name in ("templates", "projectors"):
            _check_lines(name, getattr(self, name), lambda entry: all(_parted(entry)), "model.gguf = FILE")
        _check_lines("allowed_origins", self.allowed_origins, _ORIGIN.fullmatch, "http://localhost:3000")


def to_dict(settings: Any) -> dict[str, Any]:
    """Plain values (str, int, float, bool, None, list, dict) of a settings object, for TOML and JSON."""
    return {name: _plain(value) for name, value in asdict(settings).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value


def from_dict(cls: type[S], data: Mapping[str, Any], prefix: str = "") -> tuple[S, list[str]]:
    """Build settings from plain values. Returns them and one warning per unknown key or choice that is gone, which are
    left out.

    Raises SettingsError for a value that its field refuses.
    """
    values: dict[str, Any] = {}
    warnings: list[str] = []
    for name, value in data.items():
        if name in groups(cls):
            if not isinstance(value, Mapping):
                raise refusal(prefix + name, value, "a group of settings")
            values[name], more = from_dict(groups(cls)[name], value, f"{prefix}{name}.")
            warnings += more
        elif name not in rules(cls):
            warnings.append(f"The setting {prefix}{name} is unknown and was ignored.")
        elif value in GONE.get(prefix + name, ()):
            warnings.append(f"The setting {prefix}{name} cannot be {value} any more; it has its default.")
        else:
            values[name] = value
    return cls(**values), warnings


def changed(settings: AppSettings, **values: Any) -> AppSettings:
    """A copy with some settings replaced, named as `describe` names them: changed(s, **{"sampling.top_k": 40}).

    Raises SettingsError for an unknown name or a refused value.
    """
    known = {setting.name for setting in describe(AppSettings)}
    found: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if name not in known:
            raise SettingsError(f"There is no setting named {name}.")
        section, _, inner = name.rpartition(".")
        found.setdefault(section, {})[inner] = value
    top = found.pop("", {})
    for section, inner_values in found.items():
        top[section] = replace(getattr(settings, section), **inner_values)
    return replace(settings, **top)


def value_of(settings: Any, name: str) -> Any:
    """The value behind a dotted name."""
    return attrgetter(name)(settings)
