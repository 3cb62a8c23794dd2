"""axe-core on an open page: what keeps people from using it, light and dark. Only the tests install it."""

from __future__ import annotations

import pytest

BAD = ("serious", "critical")
# Painted in place: the same page, as the theme's cookie has it.
PAINT = "scheme => { document.cookie = `omnidraft_theme=${scheme};path=/`; window.odPaint(); }"
# What Gradio writes and nothing here can mend: (rule, selector that begins the target) -> why. None is left.
UNMENDABLE: dict[tuple[str, str], str] = {}


def violations(page) -> list[str]:
    """What axe finds serious or critical: the rule, where, and the element's beginning."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = []
    for rule in axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]:
        for node in rule["nodes"]:
            target = str(node["target"][0])
            if rule["impact"] in BAD and not any(rule["id"] == r and target.startswith(s) for r, s in UNMENDABLE):
                found.append(f"{rule['id']} at {target}: {node['html'][:160]}")
    return found


def no_barriers(page) -> None:
    """Nothing of that in both colour schemes; the page is left dark."""
    page.emulate_media(reduced_motion="reduce")  # nothing is measured on its way from one colour to another
    found = []
    for scheme in ("light", "dark"):
        page.evaluate(PAINT, scheme)
        page.wait_for_timeout(100)
        found += [f"{scheme}: {one}" for one in violations(page)]
    assert not found, "\n".join(found)
