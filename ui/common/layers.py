"""Fields in two layers: those most people set, and below them, folded, those for experts (`Rule.expert`).

The page script opens a fold on a click, for a search, and for an address that names a field in it.
"""

from __future__ import annotations

import gradio as gr

LAYERS = "od-layers"  # class of what holds both layers
EXPERT = "od-expert"  # class of a field in the folded one


def fold() -> gr.HTML:
    """The button between both layers."""
    return gr.HTML(
        '<button type="button" class="od-unfold" data-od="layers" aria-expanded="false">Expert settings</button>'
    )
