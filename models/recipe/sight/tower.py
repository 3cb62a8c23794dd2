"""A small vision tower as llama.cpp's mtmd library runs it (projector type "mlp"), and the GGUF file it is written to.

Pre-norm transformer over patches (Dosovitskiy et al. 2021), whose last state a two-layer network takes to the width of
the language model (Liu et al. 2023, LLaVA-1.5). Knows nothing of language.
"""

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from .drawings import SIDE

EPSILON = 1e-5


@dataclass(frozen=True)
class TowerSpec:
    """out: width of the language model."""

    out: int
    patch: int = 8
    layers: int = 4
    width: int = 192
    heads: int = 6
    feed_forward: int = 512

    @property
    def patches(self) -> int:
        return (SIDE // self.patch) ** 2


class Block(nn.Module):
    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        self.heads = spec.heads
        self.ln1, self.ln2 = (nn.LayerNorm(spec.width, EPSILON) for _ in range(2))
        self.attn_q, self.attn_k, self.attn_v, self.attn_out = (nn.Linear(spec.width, spec.width) for _ in range(4))
        self.ffn_up = nn.Linear(spec.width, spec.feed_forward)
        self.ffn_down = nn.Linear(spec.feed_forward, spec.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(pictures, patches, width), before and behind."""
        h = self.ln1(x)
        q, k, v = (
            f(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.attn_q, self.attn_k, self.attn_v)
        )
        x = x + self.attn_out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.ffn_down(functional.gelu(self.ffn_up(self.ln2(x)), approximate="tanh"))


class Tower(nn.Module):
    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        self.spec = spec
        self.patch_embd = nn.Linear(3 * spec.patch**2, spec.width, bias=False)
        self.position_embd = nn.Parameter(0.02 * torch.randn(spec.patches, spec.width))
        self.layers = nn.ModuleList(Block(spec) for _ in range(spec.layers))
        self.post_ln = nn.LayerNorm(spec.width, EPSILON)
        self.mm_0 = nn.Linear(spec.width, spec.out)
        self.mm_2 = nn.Linear(spec.out, spec.out)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """(pictures, SIDE, SIDE, 3) uint8 to (pictures, patches, out)."""
        image = pixels.permute(0, 3, 1, 2).float() / 127.5 - 1
        x = self.patch_embd(functional.unfold(image, self.spec.patch, stride=self.spec.patch).transpose(1, 2))
        x = x + self.position_embd
        for block in self.layers:
            x = block(x)
        return self.mm_2(functional.gelu(self.mm_0(self.post_ln(x)), approximate="tanh"))


def export_projector(path: Path, name: str, tower: Tower) -> None:
    """Write `path`, whole or not at all: matrices in F16, all else in F32."""
    spec, partial = tower.spec, path.with_suffix(".partial")
    writer = gguf.GGUFWriter(str(partial), "clip")
    writer.add_type("mmproj")
    writer.add_name(name)
    writer.add_license("CC-BY-SA-4.0")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "mlp")
    writer.add_bool("clip.use_gelu", True)
    numbers = {
        "embedding_length": spec.width, "attention.head_count": spec.heads, "feed_forward_length": spec.feed_forward,
        "block_count": spec.layers, "projection_dim": spec.out, "image_size": SIDE, "patch_size": spec.patch,
    }  # fmt: skip
    for key, number in numbers.items():
        writer.add_uint32(f"clip.vision.{key}", number)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", EPSILON)
    writer.add_array("clip.vision.feature_layer", [spec.layers])  # the last state, instead of the one before it
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    for key, tensor in tower.state_dict().items():
        array = tensor.detach().float().numpy()
        if key == "patch_embd.weight":
            array = array.reshape(spec.width, 3, spec.patch, spec.patch)
        is_matrix = array.ndim > 1 and key != "position_embd"
        writer.add_tensor(_gguf_name(key), np.ascontiguousarray(array, np.float16 if is_matrix else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.replace(path)


def read_projector(path: Path, spec: TowerSpec) -> Tower:
    """The tower of a file that `export_projector` wrote."""
    stored = {tensor.name: torch.from_numpy(tensor.data.astype(np.float32)) for tensor in gguf.GGUFReader(path).tensors}
    tower = Tower(spec)
    tower.load_state_dict({key: stored[_gguf_name(key)].reshape(to.shape) for key, to in tower.state_dict().items()})
    return tower


def _gguf_name(key: str) -> str:
    """Of a weight in the state of a `Tower`."""
    if key.startswith("mm_"):
        return key.replace("_", ".", 1)
    return "v.position_embd.weight" if key == "position_embd" else f"v.{key.replace('layers', 'blk')}"
