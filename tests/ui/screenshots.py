"""Makes the screenshots of every page (needs Chromium).

`python -m tests.ui.screenshots FOLDER` takes each page wide and narrow, light and dark, as `page-width-scheme.png`;
with `--readme` only those the README shows, as `page.png`. OMNIDRAFT_MODELS names a folder with SmolLM2-135M-Instruct
and Qwen2.5-Coder-1.5B. It starts the app with a fresh data folder on the latter and races; then on the former it asks
for lessons, lets the drafter learn from them twice, and runs a drift schedule: some ten minutes on a machine that does
nothing else.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import pairwise
from pathlib import Path

from PIL import Image

from omnidraft.lab.prompts import lesson_prompts
from tests.real import LARGE, SMOL
from tests.ui.chatting import arrived, ask, new_chat, write
from tests.ui.conftest import ARGUMENTS, CHROMIUM, ROOT, Server, write_settings

PAGES = {
    "chat": "/",
    "models": "/models",
    "drift-lab": "/drift-lab",
    "learning": "/learning",
    "settings": "/settings",
    "profiles": "/profiles",
}
SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
SHOWN = [(size, scheme) for size in SIZES for scheme in ("light", "dark")]
LESSONS = [prompt.messages[-1]["content"] for prompt in lesson_prompts("math", 64)]
LAST = [
    "Write a haiku about rain.",
    "Amy has 41 dollars and buys 3 plates at 8 dollars each. How much money has she left?",
]
USED = """[model]
threads = 2

[sampling]
temperature = 0.0
max_tokens = 96

[learning]
cpu_percent = 100
interval = 1000
"""
# Paths of the machine that takes the pictures say nothing to others.
PLACES = """(pairs) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) for (const [from, to] of pairs)
    walker.currentNode.data = walker.currentNode.data.replaceAll(from, to);
}"""
PATIENCE = 600_000  # milliseconds for an update or a drift run on a busy machine
EVERY, FRAME, LAST_FRAME = 2100, 320, 4000  # milliseconds between pictures of a race, and how long each is shown
SHADES = 32


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="screenshots")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("screenshots"))
    parser.add_argument("--readme", action="store_true", help="wide and light only, named by the page alone")
    args = parser.parse_args(arguments)
    if CHROMIUM is None:
        print("There is no Chromium on this machine: set CHROMIUM to its path.", file=sys.stderr)
        return 2
    from playwright.sync_api import sync_playwright

    given = Path(os.environ["OMNIDRAFT_MODELS"])
    args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            models = _models(given, Path(data, "models"))
            folders = f"model_folders = ['{models}']\n"
            with _app(Path(data, "fresh"), folders, "--target", str(models / LARGE)) as server:
                _race(browser, server, args.folder / "race.gif")
            with _app(Path(data, "used"), folders + USED, "--target", str(models / SMOL)) as server:
                _prepare(browser, server)
                for name, path in PAGES.items():
                    for size, scheme in SHOWN[:1] if args.readme else SHOWN:
                        file = f"{name}.png" if args.readme else f"{name}-{size}-{scheme}.png"
                        _take(browser, server.origin + path, args.folder / file, SIZES[size], scheme)
        finally:
            browser.close()
    return 0


@contextmanager
def _app(data: Path, settings: str, *arguments: str) -> Iterator[Server]:
    server = Server(data, list(arguments), {"OMP_NUM_THREADS": "2"})
    write_settings(server, settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _models(given: Path, folder: Path) -> Path:
    """A folder with the real models alone."""
    folder.mkdir()
    for name in (SMOL, LARGE):
        (folder / name).symlink_to((given / name).resolve())
    return folder


def _prepare(browser, server: Server) -> None:
    """Conversations, two versions of the drafter, and a drift run, so that no page is empty."""
    page = browser.new_page()
    for version, lessons in enumerate((LESSONS[:32], LESSONS[32:]), 1):
        page.goto(server.origin)
        arrived(page)
        for number, question in enumerate(lessons):
            if number % 10 == 0:
                new_chat(page)
            ask(page, question)
        _learn(page, server, f"v{version:06d}")
    page.goto(server.origin)
    arrived(page)
    new_chat(page)
    for question in LAST:
        ask(page, question)
    _drift(page, server)
    page.close()


def _race(browser, server: Server, file: Path) -> None:
    """The race of the empty chat page's button, as it moves, with the drafter as it comes."""
    page = browser.new_page(viewport={"width": 960, "height": 900})
    page.goto(server.origin + "/drift-lab?race=go")
    frames = [*_until(page, ".od-race[data-phase=raced]")]
    page.close()
    moved = [Image.open(BytesIO(one)) for before, one in pairwise([None, *frames]) if one and one != before]
    size = tuple(max(sides) for sides in zip(*(one.size for one in moved), strict=True))
    first, *others = (_on_canvas(one, size).quantize(SHADES) for one in moved)
    shown = [FRAME] * len(others) + [LAST_FRAME]
    first.save(file, save_all=True, append_images=others, duration=shown, loop=0)


def _on_canvas(picture: Image.Image, size: tuple[int, ...]) -> Image.Image:
    """The race grows as it goes on; the picture that moves does not."""
    canvas = Image.new("RGB", size, "white")
    canvas.paste(picture.convert("RGB"))
    return canvas


def _until(page, selector: str) -> Iterator[bytes]:
    """Pictures of the race until there is such an element, and the one with it."""
    deadline = time.monotonic() + PATIENCE / 1000
    found = False
    while not found:
        assert time.monotonic() < deadline, f"no {selector}"
        page.wait_for_timeout(EVERY)
        found = page.locator(selector).count() > 0
        if page.locator(".od-race").count():
            yield page.locator(".od-race").screenshot()


def _learn(page, server: Server, version: str) -> None:
    page.goto(server.origin + "/learning")
    page.click("#od-learning-train")
    page.wait_for_selector(f"tr[data-version={version}]", timeout=PATIENCE)


def _drift(page, server: Server) -> None:
    page.goto(server.origin + "/drift-lab")
    page.wait_for_selector("#od-drift-progress p")
    write(page, "#od-count input", "8")
    page.check("#od-drift-learning input")
    page.click("#od-drift-start")
    page.wait_for_selector(".od-run[data-status=finished]", timeout=PATIENCE)


def _take(browser, url: str, file: Path, size: tuple[int, int], scheme: str) -> None:
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.goto(url)
    page.wait_for_selector("#od-head nav", state="attached")
    page.wait_for_timeout(2500)
    page.evaluate(PLACES, [[str(ROOT), "~/omnidraft"], [tempfile.gettempdir(), "~"]])
    page.screenshot(path=str(file))
    page.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
