"""Makes the screenshots of every page (needs Chromium).

`python -m tests.ui.screenshots FOLDER` takes each page wide and narrow, light and dark, as `page-width-scheme.png`;
with `--readme` only those the README shows, as `page.png`. It starts the app with a fresh data folder, races, talks to
the bundled model, lets the drafter learn from that twice, and runs a drift schedule: a few minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.ui.chatting import arrived, ask, new_chat, write
from tests.ui.conftest import ARGUMENTS, CHROMIUM, ROOT, SETTINGS, Server, write_settings

PAGES = {
    "chat": "/",
    "models": "/models",
    "drift-lab": "/drift-lab",
    "learning": "/learning",
    "settings": "/settings",
    "profiles": "/profiles",
}
SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
SHAPES = [(size, scheme) for size in SIZES for scheme in ("light", "dark")]
MATH = "Tom has {} apples and buys {} more. How many does he have?"
CODE = "Write a Python function that adds {} to a number."  # an answer long enough to be judged by
LAST = ["What is OmniDraft?", "What is 23 + 45?"]
USED = SETTINGS + "\n[learning]\ncpu_percent = 100\ninterval = 100\n"
# Paths of the machine that takes the pictures say nothing to others.
PLACES = """(pairs) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) for (const [from, to] of pairs)
    walker.currentNode.data = walker.currentNode.data.replaceAll(from, to);
}"""
PATIENCE = 600_000  # milliseconds for an update or a drift run on a busy machine


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="screenshots")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("screenshots"))
    parser.add_argument("--readme", action="store_true", help="wide and light only, named by the page alone")
    args = parser.parse_args(arguments)
    if CHROMIUM is None:
        print("There is no Chromium on this machine: set CHROMIUM to its path.", file=sys.stderr)
        return 2
    from playwright.sync_api import sync_playwright

    args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, sync_playwright() as playwright:
        server = Server(Path(data))
        write_settings(server, USED)
        server.start()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            _race(browser, server, args.folder / "race.png")
            _prepare(browser, server)
            for name, path in PAGES.items():
                for size, scheme in SHAPES[:1] if args.readme else SHAPES:
                    file = f"{name}.png" if args.readme else f"{name}-{size}-{scheme}.png"
                    _take(browser, server.origin + path, args.folder / file, SIZES[size], scheme)
        finally:
            browser.close()
            server.stop()
    return 0


def _prepare(browser, server: Server) -> None:
    """Conversations, two versions of the drafter, and a drift run, so that no page is empty."""
    page = browser.new_page()
    for version, count in enumerate((20, 16), 1):
        page.goto(server.origin)
        arrived(page)
        new_chat(page)
        for number in range(count):
            ask(page, MATH.format(10 * version + number, 3 + number))
            ask(page, CODE.format(10 * version + number))
        _learn(page, server, f"v{version:06d}")
    page.goto(server.origin)
    arrived(page)
    new_chat(page)
    for question in LAST:
        ask(page, question)
    _drift(page, server)
    page.close()


def _race(browser, server: Server, file: Path) -> None:
    """The whole race of the empty chat page's button: before and after the lesson."""
    page = browser.new_page(viewport={"width": 1440, "height": 1100})
    page.goto(server.origin + "/drift-lab?race=go")
    page.wait_for_selector(".od-race[data-phase=raced]", timeout=PATIENCE)
    page.click("#od-race-teach")
    page.wait_for_selector(".od-race[data-phase=taught]", timeout=PATIENCE)
    page.wait_for_timeout(1000)
    page.locator(".od-race").screenshot(path=str(file))
    page.close()


def _learn(page, server: Server, version: str) -> None:
    page.goto(server.origin + "/learning")
    page.click("#od-learning-train")
    page.wait_for_selector(f"tr[data-version={version}]", timeout=PATIENCE)


def _drift(page, server: Server) -> None:
    page.goto(server.origin + "/drift-lab")
    page.wait_for_selector("#od-drift-progress p")
    write(page, "#od-count input", "24")
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
