"""What is gone around in Gradio was looked at with the version that is there, and still does what it is for."""

from __future__ import annotations

import gradio
import pytest
from starlette.testclient import TestClient

from omnidraft.app.sessions import Sessions
from omnidraft.storage.paths import find_data_home
from ui import gradio_ways
from ui.server import build, make_app


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    made = Sessions(find_data_home(tmp_path_factory.mktemp("home")), "ada")
    yield made
    made.close()


@pytest.fixture(scope="module")
def pages(sessions):
    return build(sessions)


def test_it_was_looked_through_with_this_version():
    assert gradio.__version__ == gradio_ways.VERSION, "go through ui/gradio_ways.py, then name the new version there"


def test_no_event_is_public_or_has_its_outputs_drawn_once_more_while_it_is_handled(pages):
    events = [event.get_config() for event in pages.fns.values()]
    assert len(events) > 100
    for event in events:
        assert event["api_visibility"] == "private"
        assert event["show_progress_on"] == [], event


def test_html_goes_out_with_more_in_it_and_its_links_start_at_the_root(pages):
    made = gradio_ways.with_more(
        '<html\n lang="en"><head><base href="./" /></head><body\n id="b">.</body>', "H", "B", "m"
    )
    assert made == '<html class="m"\n lang="en"><head>H<base href="/" /></head><body\n id="b">B.</body>'


def test_a_mistyped_address_is_a_page_to_a_person_and_json_to_a_program(sessions):
    client = TestClient(make_app(sessions), base_url="http://127.0.0.1")
    seen = client.get("/modells", headers={"accept": "text/html,*/*"})
    assert (seen.status_code, seen.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no page at this address" in seen.text
    assert '<a href="/">' in seen.text
    assert client.get("/modells").json() == {"detail": "Not Found"}
