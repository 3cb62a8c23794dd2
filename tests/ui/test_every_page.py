"""Every page, as it comes and in use: it stands at once, its words are explained, and light and dark axe-core finds
nothing serious."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from omnidraft.learning.material.history import History
from omnidraft.learning.update import Update
from tests.serving import served
from tests.ui.accessibility import no_barriers
from tests.ui.chatting import arrived, ask, import_talk, new_chat, race_and_run, tab
from ui.common.notes import MEANINGS

JUDGED = {"old": {"direct": 0.1, "greedy": 0.2, "overlap": 0.2, "tokens": 100},
          "new": {"direct": 0.1, "greedy": 0.6, "overlap": 0.4, "tokens": 300}}  # fmt: skip
TEXT = """<think>
What?
</think>
A [link](https://example.com/) and `code`:

```python
print(1)  # said
```

| a | b |
|---|---|
| 1 | 2 |
"""

# Sums what moved on the page without being asked, since it was first painted.
SHIFTS = """window.odShift = 0;
const add = (one) => { if (!one.hadRecentInput) window.odShift += one.value; };
new PerformanceObserver((list) => list.getEntries().forEach(add)).observe({type: 'layout-shift', buffered: true});"""
# Of what scrolls up and down, whether it scrolls sideways too.
TOO_WIDE = "[...document.querySelectorAll('html, #od-page, #od-main')].some((e) => e.scrollWidth > e.clientWidth + 1)"


def with_updates(profile: Path) -> None:
    """The drafter has learned twice, as the history says."""
    history = History(profile / "metrics.sqlite")
    for number, outcome in enumerate(("refused", "published"), 1):
        history.save("tiny-drafter/abc", Update(
            number, time.time() - 60, "tiny-drafter-f16", "tiny-target-a", "abc", outcome=outcome, reason="As it is.",
            version=f"v{number:06d}", step=2, steps=2, tokens=640, answers_new=6, losses=(3.0, 2.0), before=JUDGED,
            after=JUDGED, ended=time.time(), seconds=20.0, cpu_seconds=10.0))  # fmt: skip
    history.close()


server = served(before=with_updates)


@pytest.mark.browser_slow
def test_the_chat(server, pages, tmp_path):
    page = pages.open(server)
    new_chat(page)
    no_barriers(page)
    ask(page, "What is 23 + 45?")
    for name in ("Speed", "Tokens", "Options"):
        tab(page, name)
        no_barriers(page)
    import_talk(page, tmp_path, ("user", "Show me"), ("assistant", TEXT))
    page.wait_for_selector("#od-chat td")
    upload = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"word " * 3000}
    page.set_input_files("#od-composer input[type=file]", upload)
    page.wait_for_selector("#od-attached .od-bad")
    page.hover("#od-rows .od-item >> nth=0")
    page.click("#od-rows .od-item >> nth=0 >> [data-kind=ask-delete]")
    no_barriers(page)


@pytest.mark.browser_slow
def test_the_chat_on_a_phone(server, pages):
    page = pages.open(server, width=390, height=844)
    arrived(page)
    no_barriers(page)
    for name, shown in (("side", "#od-new"), ("aside", "#od-tabs")):
        page.click(f"[data-od={name}]")
        page.wait_for_selector(shown, state="visible")
        page.wait_for_timeout(300)  # it slides in
        no_barriers(page)
        page.keyboard.press("Escape")
        page.wait_for_selector(shown, state="hidden")


@pytest.mark.browser_slow
def test_the_drift_lab_with_a_race_and_a_run(server, pages):
    page = pages.open(server, "/drift-lab")
    race_and_run(page)
    no_barriers(page)


# The pages as they come, each drawn once for all that is asked of it; slowly with a finger as well.


THERE = {
    "/": ".od-empty", "/models": ".od-models li", "/drift-lab": "#od-drift-progress p",
    "/learning": "#od-learning-state p", "/settings": "#od-cache p, .od-facts", "/profiles": ".od-card",
}  # fmt: skip
WORDS = {"/": ("drafter", "target"), "/drift-lab": ("drafter", "n-gram cache"), "/learning": ("drafter",),
         "/settings": ("n-gram cache",)}  # fmt: skip
WAYS = [(path, False) for path in THERE] + [
    pytest.param((path, True), marks=pytest.mark.browser_slow, id=f"{path}-narrow") for path in THERE
]


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way[0])
def seen(request, server, kept_pages):
    """(page, its path, whether it is narrow and touched), as it stands a moment after it came."""
    path, touch = request.param
    context = kept_pages.context(server, **({"width": 390, "height": 844, "touch": True} if touch else {}))
    context.add_init_script(SHIFTS)
    page = kept_pages.empty(server, context)
    page.goto(server.origin + path, wait_until="commit")
    page.wait_for_selector("#od-frame", state="attached")
    page.wait_for_selector("#od-frame", state="detached", timeout=30_000)
    page.wait_for_selector("#od-shell", state="visible")
    page.wait_for_timeout(800)
    yield page, path, touch
    page.close()


def test_pages_stand_at_once_and_do_not_jump(seen):
    page, path, _ = seen
    assert page.evaluate("window.odShift") < 0.05
    page.wait_for_selector(THERE[path])
    page.wait_for_function(f"!{TOO_WIDE}", timeout=5_000)  # what is drawn late may be wider for a moment


def test_words_of_the_field_are_explained_where_they_stand(seen):
    page, path, touch = seen
    if path not in WORDS:
        pytest.skip("none of these words stands here")
    if path == "/" and touch:
        page.tap("[data-od=aside]")
    for word in WORDS[path]:
        place = page.locator(f'.od-tip[data-tip="{MEANINGS[word]}"] >> visible=true').first
        place.tap() if touch else place.hover()
        assert page.inner_text("#od-bubble") == MEANINGS[word], word


@pytest.mark.browser_slow
def test_pages_keep_nobody_out(seen):
    page, path, touch = seen
    if path in ("/", "/drift-lab") or touch:
        pytest.skip("looked at in use, above")
    no_barriers(page)
