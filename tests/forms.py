"""Other formats of a model's weights, by llama.cpp's own quantizer. A float form of a file knows no more than the file,
but passes over it cost what float weights cost."""

from __future__ import annotations

import os
from pathlib import Path

import llama_cpp

_NAMES = ("F16", "Q8_0", "Q4_0", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_XS")
FORMS = {name: getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{name}") for name in _NAMES}
FORMS["F32"] = llama_cpp.LLAMA_FTYPE_ALL_F32


def requantized(source: Path, form: str, folder: Path) -> Path:
    """The model at `source` with its matrices in `form`, one of FORMS, as `folder`/NAME-FORM.gguf."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{source.stem}-{form}.gguf"
    if not made.exists():
        parameters = llama_cpp.llama_model_quantize_default_params()
        parameters.ftype, parameters.allow_requantize = FORMS[form], True
        assert llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(made), parameters) == 0
    return made
