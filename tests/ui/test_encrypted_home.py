"""A data home that is encrypted is used like any other one, and its files tell nothing."""

from __future__ import annotations

import sys

import pytest

from tests.ui.chatting import answers, arrived, ask, new_chat, tab

QUESTION = "Which colour is the ripest banana of Zanzibar?"
PASSPHRASE = "seven quiet horses"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="encryption is offered on Linux only")


@pytest.mark.browser_slow
def test_a_conversation_in_an_encrypted_home_is_there_again_and_nowhere_in_its_files(make_server, pages):
    server = make_server("--encrypt", OMNIDRAFT_PASSPHRASE=PASSPHRASE)
    page = pages.open(server)
    new_chat(page)
    tab(page, "Options")
    page.fill("#od-system textarea", "Speak of Pemba only.")
    ask(page, QUESTION)
    said = answers(page)[-1]
    assert server.stop() == 130
    assert "encrypted" in server.log
    home = server.data / "home"
    kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    for text in ("banana", "Zanzibar", "Pemba", said[:24]):
        assert text.encode() not in kept
    server.arguments = []
    server.start()  # it says itself that it is encrypted
    page.reload()
    arrived(page)
    page.click("#od-rows .od-row >> text=Which colour")
    page.wait_for_selector(f"#od-chat >> text={QUESTION}")
    assert answers(page) == [said]
