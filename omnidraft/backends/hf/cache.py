"""A KV cache for transformers' models that appends in place and is cut by moving a number.

The library's own growing cache copies all keys and values at every step; this one writes into buffers that double when
full and hands out views. All layers keep every token, also those with a sliding window: their attention mask already
hides what lies outside, and only so can any number of tokens be taken back. Layers that carry a state on have it copied
out and put back (`Rewinder`, "replay"). Imports torch; import it late.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from transformers.cache_utils import Cache, DynamicLayer, LinearAttentionLayer

_FIRST = 256  # tokens a buffer is made for at first


class CuttableLayer(DynamicLayer):
    """Keys and values of one layer, (batch, heads, tokens, head width), as views of buffers for up to `most` tokens."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._length, self._most = 0, most

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        first = min(_FIRST, self._most)
        self._keys = _buffer(key_states, first)
        self._values = _buffer(value_states, first)
        self.is_initialized = True
        self._show()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: object, **_options: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the new states; all of them, old and new."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self._length + key_states.shape[-2]
        if end > self._keys.shape[-2]:
            self._keys = _grown(self._keys, end, self._length, self._most)
            self._values = _grown(self._values, end, self._length, self._most)
        self._keys[..., self._length : end, :] = key_states
        self._values[..., self._length : end, :] = value_states
        self._length = end
        self._show()
        return self.keys, self.values

    def cut(self, length: int) -> None:
        """Keep the first `length` tokens; harmless if there are fewer."""
        if self.is_initialized and length < self._length:
            self._length = length
            self._show()

    def get_seq_length(self) -> int:
        return self._length

    def _show(self) -> None:
        self.keys = self._keys[..., : self._length, :]
        self.values = self._values[..., : self._length, :]


State = list[tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]]


class CuttableCache(Cache):
    """One `CuttableLayer` for `most` tokens per layer of the model, made as the model asks for them.

    states: for each layer whether it carries a state on instead, which is not cut but put back; [] where none does.
    """

    rollback = 0

    def __init__(self, most: int, states: Sequence[bool] = ()) -> None:
        if states:
            super().__init__(layers=[LinearAttentionLayer() if state else CuttableLayer(most) for state in states])
        else:
            super().__init__(layer_class_to_replicate=partial(CuttableLayer, most))
        self.has_state = any(states)

    def cut(self, length: int) -> bool:
        """Keep the first `length` tokens of every layer with keys and values."""
        for layer in self.layers:
            if isinstance(layer, CuttableLayer):
                layer.cut(length)
        return True

    @torch.inference_mode()
    def clear(self) -> None:
        """As before the first token."""
        self.cut(0)
        for layer in self._with_state():
            layer.reset()

    @torch.inference_mode()
    def save_state(self) -> State:
        """Copies of what the layers with a state carry on."""
        return [(_copies(layer.conv_states), _copies(layer.recurrent_states)) for layer in self._with_state()]

    @torch.inference_mode()
    def restore_state(self, state: State, length: int) -> bool:
        """Put back what `save_state` gave when there were `length` tokens."""
        self.cut(length)
        for layer, (convolved, recurrent) in zip(self._with_state(), state, strict=True):
            if not length:
                layer.reset()
                continue
            for kept, held in ((convolved, layer.conv_states), (recurrent, layer.recurrent_states)):
                for index, tensor in kept.items():
                    held[index].copy_(tensor)
        return True

    def _with_state(self) -> list[LinearAttentionLayer]:
        return [layer for layer in self.layers if isinstance(layer, LinearAttentionLayer)]


def _copies(states: dict[int, torch.Tensor | None]) -> dict[int, torch.Tensor]:
    return {index: tensor.clone() for index, tensor in states.items() if tensor is not None}


def _buffer(like: torch.Tensor, tokens: int) -> torch.Tensor:
    return like.new_empty((*like.shape[:-2], max(tokens, like.shape[-2]), like.shape[-1]))


def _grown(buffer: torch.Tensor, needed: int, held: int, most: int) -> torch.Tensor:
    larger = _buffer(buffer, max(needed, min(2 * buffer.shape[-2], most)))
    larger[..., :held, :] = buffer[..., :held, :]
    return larger
