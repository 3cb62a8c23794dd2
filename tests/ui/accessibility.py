"""axe-core on an open page: what keeps people from using it, light and dark. Only the tests install it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

BAD = ("serious", "critical")
# Painted in place: the same page, as the theme's cookie has it.
PAINT = "scheme => { document.cookie = `omnidraft_theme=${scheme};path=/`; window.odPaint(); }"


def violations(page, rules: Sequence[str] = ()) -> list[str]:
    """What axe finds serious or critical, by these rules or all: the rule, where, and the element's beginning."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page, options={"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})})
    return [
        f"{rule['id']} at {node['target'][0]}: {node['html'][:160]}"
        for rule in found.response["violations"]
        if rule["impact"] in BAD
        for node in rule["nodes"]
    ]


def no_barriers(page) -> None:
    """Nothing of that in both colour schemes, which differ in their contrasts alone; the page is left dark."""
    page.emulate_media(reduced_motion="reduce")  # nothing is measured on its way from one colour to another
    found = []
    for scheme, rules in (("light", ()), ("dark", ("color-contrast",))):
        page.evaluate(PAINT, scheme)
        page.wait_for_timeout(100)
        found += [f"{scheme}: {one}" for one in violations(page, rules)]
    assert not found, "\n".join(found)
