"""Colours and type of all pages, and the cookie that says which a profile has chosen: the page script paints from it
before anything else is drawn. Knows nothing of what pages show.
"""

from __future__ import annotations

import gradio as gr
from gradio.themes.utils import colors

SANS = ("ui-sans-serif", "system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif")
MONO = ("ui-monospace", "SF Mono", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")
COOKIE = "omnidraft_theme"
COOKIE_LASTS = "path=/;max-age=31536000;samesite=strict"


def _colour(name: str, shades: str) -> colors.Color:
    return colors.Color(*shades.split(), name=name)


PINE = _colour("pine", "#eef6f4 #d7ebe6 #b0d7ce #82bdb1 #539f92 #2f8276 #1d6a60 #18554e #15443f #123935 #08211f")
STONE = _colour("stone-warm", "#faf9f7 #f3f1ee #e6e3de #d3cfc8 #a8a39a #7a756d #5c5852 #45423d #2c2a27 #1f1d1b #161513")
# In light, and in dark where that differs.
COLOURS = {
    # Pages, blocks and text.
    "body_background_fill": ("*neutral_50", "*neutral_950"),
    "body_text_color": ("*neutral_900", "#e9e6e1"),
    "body_text_color_subdued": ("*neutral_600", "#a8a39a"),
    "background_fill_primary": ("white", "*neutral_900"),
    "background_fill_secondary": ("*neutral_100", "*neutral_800"),
    "border_color_primary": ("*neutral_200", "#383530"),
    "block_background_fill": ("transparent", "transparent"),
    "block_border_width": ("0px", "0px"),
    "block_shadow": ("none", "none"),
    "block_label_background_fill": ("transparent", "transparent"),
    "block_title_text_weight": ("500",),
    "block_title_text_size": ("*text_sm",),
    "block_info_text_size": ("*text_sm",),
    "block_info_text_color": ("*neutral_600", "*neutral_400"),
    "link_text_color": ("*primary_700", "*primary_300"),
    # What one types into, ticks or drags.
    "input_background_fill": ("white", "*neutral_900"),
    "input_border_color": ("*neutral_300", "#45423d"),
    "input_border_color_focus": ("*primary_500", "*primary_400"),
    "input_placeholder_color": ("*neutral_500", "#8f8a82"),
    "input_border_width": ("1px",),
    "input_shadow_focus": (
        "0 0 0 3px color-mix(in srgb, *primary_500 18%, transparent)",
        "0 0 0 3px color-mix(in srgb, *primary_400 22%, transparent)",
    ),
    "checkbox_border_color": ("#8a857c", "#7a756d"),
    "checkbox_border_color_hover": ("*primary_600", "*primary_400"),
    "checkbox_background_color_selected": ("*primary_600", "*primary_500"),
    "slider_color": ("*primary_600", "*primary_400"),
    # Buttons.
    "button_primary_background_fill": ("*primary_600", "*primary_500"),
    "button_primary_background_fill_hover": ("*primary_700", "*primary_600"),
    "button_primary_text_color": ("white", "white"),
    "button_secondary_background_fill": ("white", "*neutral_800"),
    "button_secondary_background_fill_hover": ("*neutral_100", "#383530"),
    "button_secondary_border_color": ("*neutral_300", "#45423d"),
    "button_border_width": ("1px",),
    "button_transform_hover": ("none",),
    "button_large_text_weight": ("500",),
    "button_medium_text_weight": ("500",),
    "button_small_text_weight": ("500",),
}


def theme() -> gr.themes.Base:
    """Quiet surfaces, one accent, thin lines."""
    base = gr.themes.Base(
        primary_hue=PINE,
        secondary_hue=PINE,
        neutral_hue=STONE,
        radius_size=gr.themes.sizes.radius_md,
        font=[gr.themes.Font(name) for name in SANS],
        font_mono=[gr.themes.Font(name) for name in MONO],
    )
    dark = {f"{name}_dark": of[1] for name, of in COLOURS.items() if len(of) > 1}
    return base.set(**{name: of[0] for name, of in COLOURS.items()}, **dark)


UNSET = "system"  # without a cookie a page follows the system's colours
