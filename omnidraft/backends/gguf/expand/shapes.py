"""The shapes a small model can be expanded to. Numbers only: knows neither files nor weights."""

from __future__ import annotations

from dataclasses import dataclass

from omnidraft.errors import SettingsError

BLOCK = 32  # weights that share one scale in Q8_0 and Q4_0


@dataclass(frozen=True)
class Shape:
    """Everything that decides what a pass of a Llama model costs."""

    name: str
    width: int  # length of the residual stream
    layers: int
    heads: int  # query heads
    kv_heads: int  # key/value heads, each shared by heads / kv_heads query heads
    head_dim: int
    ffn: int  # neurons of the feed-forward block
    vocab: int  # rows of the embedding and of the output layer

    def __post_init__(self) -> None:
        for field in ("width", "layers", "heads", "kv_heads", "head_dim", "ffn", "vocab"):
            if getattr(self, field) < 1:
                raise SettingsError(f"The shape's {field} must be at least 1, not {getattr(self, field)}.")
        for field in ("width", "head_dim", "ffn"):
            if getattr(self, field) % BLOCK:
                raise SettingsError(f"The shape's {field} must be a multiple of {BLOCK}, not {getattr(self, field)}.")
        if self.heads % self.kv_heads:
            raise SettingsError(f"The shape's heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads}).")

    @property
    def key(self) -> str:
        """The numbers alone, for file names and metadata: equal keys mean equal shapes."""
        numbers = (self.width, self.layers, self.heads, self.kv_heads, self.head_dim, self.ffn, self.vocab)
        return "x".join(map(str, numbers))


# Heads of 32 as in the bundled models. The total width of queries, keys and values decides the cost, not its division
# into heads; and heads that keep their size keep the cached keys' rounding: with heads of 64 a quantized expansion
# differs from its original by 0.1 to 0.2 in the logits, with heads of 32 mostly by nothing.
SHAPES = {
    shape.name: shape
    for shape in (
        # GPT-2 small's, with its feed-forward block gated
        Shape("0.1b", width=768, layers=12, heads=24, kv_heads=24, head_dim=32, ffn=2048, vocab=50_272),
        Shape("0.5b", width=1536, layers=16, heads=48, kv_heads=48, head_dim=32, ffn=4096, vocab=128_256),
        # Llama-3.2-1B's, its 32 heads of 64 halved
        Shape("1b", width=2048, layers=16, heads=64, kv_heads=16, head_dim=32, ffn=8192, vocab=128_256),
        # Llama-68M's, the drafter of the published experiments, its 12 heads of 64 halved
        Shape("68m", width=768, layers=2, heads=24, kv_heads=24, head_dim=32, ffn=3072, vocab=32_000),
        # Llama-160M's, the larger drafter there
        Shape("160m", width=768, layers=12, heads=24, kv_heads=24, head_dim=32, ffn=3072, vocab=32_000),
    )
}


def find_shape(name: str) -> Shape:
    """The shape of that name; SettingsError naming the known ones if there is none."""
    shape = SHAPES.get(name.lower())
    if shape is None:
        raise SettingsError(f"Unknown shape {name!r}; known shapes: {', '.join(SHAPES)}.")
    return shape
