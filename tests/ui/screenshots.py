"""Makes the screenshots of every page: `python -m tests.ui.screenshots FOLDER` (needs Chromium).

Starts the app with a fresh data folder, asks the bundled model something, and takes each page wide and narrow, light
and dark, as `page-width-scheme.png`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.ui.chatting import arrived, ask
from tests.ui.conftest import ARGUMENTS, CHROMIUM, SETTINGS, Server, write_settings

PAGES = {"chat": "/", "models": "/models", "drift-lab": "/drift-lab", "settings": "/settings", "profiles": "/profiles"}
SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
QUESTIONS = ["Tom has 12 apples and buys 7 more. How many does he have?", "Tell me about your day."]


def main(folder: Path) -> int:
    if CHROMIUM is None:
        print("There is no Chromium on this machine: set CHROMIUM to its path.", file=sys.stderr)
        return 2
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, sync_playwright() as playwright:
        server = Server(Path(data))
        write_settings(server, SETTINGS)
        server.start()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            _prepare(browser, server)
            for name, path in PAGES.items():
                for size, scheme in ((s, c) for s in SIZES for c in ("light", "dark")):
                    _take(browser, server.origin + path, folder / f"{name}-{size}-{scheme}.png", SIZES[size], scheme)
        finally:
            browser.close()
            server.kill()
    return 0


def _prepare(browser, server: Server) -> None:
    """A conversation and a short drift run, so that no page is empty."""
    page = browser.new_page()
    page.goto(server.origin)
    arrived(page)
    for question in QUESTIONS:
        ask(page, question)
    page.goto(server.origin + "/drift-lab")
    page.wait_for_selector("#od-drift-progress p")
    page.click("#od-count input")
    page.keyboard.press("Control+a")
    page.keyboard.type("12")
    page.click("#od-drift-start")
    page.wait_for_selector(".od-run[data-status=finished]", timeout=300_000)
    page.close()


def _take(browser, url: str, file: Path, size: tuple[int, int], scheme: str) -> None:
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.goto(url)
    page.wait_for_selector("#od-head nav", state="attached")
    page.wait_for_timeout(1500)
    page.screenshot(path=str(file))
    page.close()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots")))
