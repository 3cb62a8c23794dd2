"""How long a person waits for the pages: `python -m tests.ui.responsive` prints figures, and one JSON line last.

Ready: from going to a page until one can write on it (or, beside the chat, until the server has filled it), at a
browser's first visit and at its second. While an answer streams at full speed (measure's endless model): from a click
or key to what it changes, drawn; and what the handlers took on the server, as Gradio tells the browser. The times are
of the machine and of what else it does, so nothing is asserted about them (needs Chromium).
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from omnidraft.chats import ChatStore
from tests.ui.chatting import arrived, new_chat, tab, wait_idle
from tests.ui.conftest import ARGUMENTS, CHROMIUM, ROOT, Server, write_settings
from tests.ui.measure import endless

SETTINGS = """[model]
threads = 1

n_ctx = 4096

[sampling]
temperature = 0.8
seed = 11
max_tokens = 3900
"""
FILLED = {
    "/": "#od-marks",
    "/models": ".od-card",
    "/drift-lab": "#od-drift-progress p",
    "/learning": "#od-learning-state p",
    "/settings": "#od-cache p, .od-facts",
    "/profiles": ".od-card",
}
CHATS = 60
ROUNDS = 3
# Does something, and waits, frame by frame, until a condition holds: milliseconds.
TIMED = """async ([act, until]) => {
  const [begin, done] = [new Function(act), new Function(`return ${until}`)];
  const start = performance.now();
  begin();
  while (!done() && performance.now() - start < 60000) await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""
# Which handler each event belongs to, and what it took: read from what the page asks and is told.
LISTEN = """(() => {
  const asked = window.fetch, names = new Map();
  window.odHandlers = [];
  const read = async (stream) => {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ''; ;) {
      const {value, done} = await reader.read();
      if (done) return;
      const parts = (text + value).split('\\n\\n');
      text = parts.pop();
      for (const part of parts) {
        const told = JSON.parse(part.slice(part.indexOf('{')));
        if (told.msg === 'process_completed' && told.output)
          window.odHandlers.push([names.get(told.event_id), 1000 * told.output.duration]);
      }
    }
  };
  window.fetch = async (...given) => {
    const reply = await asked(...given);
    const url = String(given[0]?.url ?? given[0]);
    if (url.includes('/queue/data') && reply.body) read(reply.clone().body);
    if (url.includes('/queue/join')) {
      const index = JSON.parse(given[1].body).fn_index;
      const {event_id} = await reply.clone().json();
      names.set(event_id, window.gradio_config.dependencies.find((one) => one.id === index)?.api_name ?? index);
    }
    return reply;
  };
})()"""
FOLLOWING = ("follow", "ended")  # as long as an answer takes, and what comes behind it
TYPE = "const b = document.querySelector('#od-box textarea'); b.focus(); document.execCommand('insertText', false, 'x')"


def ready(browser, origin: str, path: str) -> tuple[float, float]:
    """Seconds at a browser's first visit, and at its second."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    took = []
    for _ in range(2):
        page = context.new_page()
        begun = time.perf_counter()
        page.goto(origin + path, wait_until="commit")
        page.wait_for_selector(FILLED[path], state="attached", timeout=240_000)
        if path == "/":
            page.wait_for_selector("#od-box textarea", state="visible")
        took.append(time.perf_counter() - begun)
        page.close()
    context.close()
    return took[0], took[1]


def streaming(page, handlers: list[list]) -> dict[str, float]:
    """Milliseconds of what one does while an answer is being written in the conversation shown first.

    handlers: where the names of the handlers go, and what each took.
    """
    page.evaluate("window.odHandlers = []")
    timed: Callable[[str, str], float] = lambda act, until: page.evaluate(TIMED, [act, until])  # noqa: E731
    click = "document.querySelector(`{}`).click()".format
    shown = "document.querySelector('#od-chat .user-row .message')?.innerText.trim() === '{}'".format
    row = "[...document.querySelectorAll('#od-rows .od-row')].find((e) => e.innerText.includes('{}')).click()".format
    new_chat(page)
    page.fill("#od-box textarea", "Tell me a very long story")
    page.press("#od-box textarea", "Enter")
    page.wait_for_selector("#od-stop", state="visible")
    page.wait_for_function("(document.querySelector('#od-chat .bot-row .message')?.innerText || '').length > 20")
    found = {
        "a letter in the box": timed(TYPE, "document.querySelector('#od-box textarea').value.endsWith('x')"),
        "options": timed(click("#od-tabs button[role=tab]:nth-of-type(3)"),
                         "document.querySelector('#od-system')?.offsetParent"),
        "drafting off": timed(click("#od-spec input"), "true"),
        "another conversation": timed(row("Conversation 31"), shown("Question 31")),
        "a search": timed("const q = document.querySelector('#od-search :is(input, textarea)'); q.focus();"
                          " document.execCommand('insertText', false, 'Question 17')",
                          "document.querySelectorAll('#od-rows .od-row').length === 1"),
        "back to the answer": 0.0,
    }  # fmt: skip
    timed("const q = document.querySelector('#od-search :is(input, textarea)'); q.focus(); q.select();"
          " document.execCommand('delete')", "document.querySelectorAll('#od-rows .od-row').length > 1")  # fmt: skip
    found["back to the answer"] = timed(row("Tell me a very long story"), shown("Tell me a very long story"))
    found["still streaming"] = float(page.is_visible("#od-stop"))
    page.wait_for_timeout(500)
    handlers.extend(page.evaluate("window.odHandlers"))
    begun = time.perf_counter()
    page.goto(page.url.rstrip("/") + "/settings", wait_until="commit")
    page.wait_for_selector(FILLED["/settings"], state="attached")
    found["the settings page"] = 1000 * (time.perf_counter() - begun)
    page.go_back()
    arrived(page)
    if page.is_visible("#od-stop"):
        page.click("#od-stop")
    wait_idle(page)
    tab(page, "Speed")
    return found


def measure(folder: Path) -> dict:
    from playwright.sync_api import sync_playwright

    model = endless(ROOT / "models/tiny-target-a-f16.gguf", folder / "endless.gguf")
    server = Server(folder / "app", ["--target", str(model)])
    write_settings(server, SETTINGS)
    with ChatStore(server.data / "home/profiles/default/chats.sqlite") as store:
        for number in range(CHATS):
            chat = store.create(f"Conversation {number}")
            store.append(chat.id, "user", f"Question {number}")
            store.append(chat.id, "assistant", f"Answer {number}. " * 40)
    server.start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            pages = {path: [round(s, 2) for s in ready(browser, server.origin, path)] for path in FILLED}
            print(f"seconds until ready, first and second visit: {pages}", flush=True)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.add_init_script(LISTEN)
            page.goto(server.origin)
            handlers: list[list] = []
            rounds = [streaming(page, handlers) for _ in range(ROUNDS)]
        finally:
            browser.close()
            server.kill()
    medians = {name: round(statistics.median(one[name] for one in rounds), 1) for name in rounds[0]}
    took = {str(name): [] for name, _ in handlers if not str(name).startswith(FOLLOWING)}
    for name, milliseconds in handlers:
        took.get(str(name), []).append(round(milliseconds, 1))
    slowest = {name: max(times) for name, times in took.items()}
    return {"ready_seconds": pages, "milliseconds_while_streaming": medians, "slowest_handler_milliseconds": slowest}


def main() -> int:
    if CHROMIUM is None:
        print("There is no Chromium on this machine: set CHROMIUM to its path.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
