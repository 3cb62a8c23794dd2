"""Fixtures every test may use: where the bundled models are, where the reference data may be."""

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

# Programs started in the background are told to ignore Ctrl-C; what the tests start must not inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
# Begun first, so that with two at a time neither is left alone with one of them at the end.
LONGEST = (
    "learning/test_learner.py", "learning/adapters/test_candidate.py", "test_same_text.py", "ui/test_messages.py",
    "prompting/test_every_template.py", "ui/test_chat_page.py", "crash/test_kills.py", "ui/test_first_minutes.py",
    "cli/test_cli.py", "ui/test_every_page.py", "ui/test_chat_texts.py", "ui/test_drift_page.py",
)  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    from omnidraft.backends.llama.kernels import library

    library.build()  # once a machine, in half a minute; the tests shall see the kernels that people do
    config.option.loadscopereorder = False  # pytest-xdist's own order goes by how many tests a file has


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in a browser, which mostly wait, stand among the others, which mostly compute."""
    place: dict[Path, float] = {}
    browser = {item.path for item in items if item.path.parent.name == "ui"}
    for files in (browser, {item.path for item in items} - browser):
        place |= {file: number / len(files) for number, file in enumerate(sorted(files))}
    longest = {ROOT / "tests" / name for name in LONGEST}
    items.sort(key=lambda item: (item.path not in longest, place[item.path]))


def pytest_collection_finish() -> None:
    """What tests import, torch and Gradio among it, is not looked through with every collection of garbage."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=200, help="how often the slow crash test kills what works")
    parser.addoption("--minutes", type=float, default=10.0, help="how long the slow load test asks")


@pytest.fixture(scope="session")
def models() -> Path:
    """The bundled models' folder."""
    return ROOT / "models"


@pytest.fixture
def home(tmp_path: Path):
    """A data home of the test's own."""
    from omnidraft.storage.paths import find_data_home

    return find_data_home(tmp_path / "home")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Reference vocabularies and data beside the checkout; the test is skipped where they are missing."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the reference folder ../shared is not beside this checkout")
    return folder


@pytest.fixture(autouse=True, scope="session")
def files_of_tests_are_trusted(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Opening each of hundreds of tiny models in a child first takes a second each; tests of that bring their own."""
    from omnidraft.storage.trial import TRIALS

    TRIALS.trust(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True, scope="session")
def what_stays_is_frozen() -> Iterator[None]:
    """Behind every load the app goes through all there is, which takes half a second of a processor beside torch."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gc, "unfreeze", lambda: None)
        yield
