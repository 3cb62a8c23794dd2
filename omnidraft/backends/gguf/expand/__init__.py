"""Function-preserving enlargement of a small Llama GGUF and of its LoRA adapters.

The large model says what the small one says and costs what a model of its own shape costs, so that speed can be
measured at realistic cost offline. It knows files only: no model is loaded here, no text is produced. Training on an
expanded model would train another model than the small one: learn at the small size, time at the large one.
"""

from omnidraft.backends.gguf.expand.adapter import expand_adapter
from omnidraft.backends.gguf.expand.cache import expanded_adapter, expanded_model, expanded_path
from omnidraft.backends.gguf.expand.model import DTYPES, expand_model
from omnidraft.backends.gguf.expand.quantize import quantize_model
from omnidraft.backends.gguf.expand.shapes import SHAPES, Shape, find_shape

__all__ = [
    "DTYPES",
    "SHAPES",
    "Shape",
    "expand_adapter",
    "expand_model",
    "expanded_adapter",
    "expanded_model",
    "expanded_path",
    "find_shape",
    "quantize_model",
]
