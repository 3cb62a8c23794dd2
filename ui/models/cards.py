"""The models found, as HTML cards, and the script that turns their buttons into the event `act` ({kind, path})."""

from __future__ import annotations

from html import escape
from pathlib import Path

from omnidraft.app import models_list
from omnidraft.app.hub import Download
from omnidraft.app.model_memory import context_of, estimate
from omnidraft.app.session import Session
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.errors import ModelError
from omnidraft.format import count, percent, short, size
from omnidraft.settings.config import ModelSettings

KINDS = {
    "vocabulary": "a vocabulary without weights",
    "encoder": "an encoder; it cannot write text",
    "adapter": "an adapter; it belongs to a drafter",
    "projector": "a projector for images; it cannot write text",
}
SCRIPT = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-kind]');
  if (button) trigger('act', {kind: button.dataset.kind, file: button.dataset.file || '', index: button.dataset.index});
});
"""


def cards(session: Session, coverage: dict[str, dict]) -> str:
    """One card per model file. `coverage` holds what was measured, by path."""
    models = models_list.scan(session.assistant)
    drafter = session.drafter_path()
    eyes = {m.path: models_list.projector_of(m) for m in models}
    shown = [
        _card(session, m, drafter, coverage.get(str(m.path)), eyes[m.path])
        for m in models if m.path not in eyes.values()
    ]  # fmt: skip
    if not shown:
        return '<p class="od-none">No model files found.</p>'
    return f'<h2 class="od-hidden">On this machine</h2><div class="od-cards">{"".join(shown)}</div>'


def _card(
    session: Session, model: ModelInfo, drafter: Path | None, coverage: dict | None, projector: Path | None = None
) -> str:
    loaded = session.loaded is not None and session.loaded.resolve() == model.path.resolve()
    drafts = drafter is not None and drafter.resolve() == model.path.resolve()
    tags = [word for word, on in (("loaded", loaded), ("drafter", drafts)) if on]
    tag = "".join(f'<span class="od-tag">{word}</span>' for word in tags)
    head = f"<h3>{escape(model.name)}{tag}</h3>"
    where = f'<p class="od-path">{escape(str(model.path))}</p>'
    if model.kind == "damaged":
        return (
            f'<article class="od-card">{head}<p class="od-note od-bad">{escape(model.error or "")}</p>{where}</article>'
        )
    if model.kind != "model":
        return f'<article class="od-card">{head}<p>{KINDS[model.kind]}</p>{where}</article>'
    body = _facts(session, model, coverage, projector) + where + _buttons(model, loaded, drafts)
    return f'<article class="od-card">{head}{body}</article>'


def _facts(session: Session, model: ModelInfo, coverage: dict | None, projector: Path | None) -> str:
    settings = session.settings.model
    facts = [
        ("architecture", escape(model.architecture)),
        ("parameters", short(model.parameters)),
        ("quantization", escape(model.quantization)),
        ("trained context", count(model.n_ctx_train) if model.n_ctx_train else "not said"),
        ("vocabulary", f"{escape(model.vocabulary_family)}, {count(model.vocabulary_size)}"),
        ("file", size(model.file_size)),
        ("memory, about", _memory(model, settings)),
    ]
    if projector is not None:
        facts.append(("sees pictures through", escape(projector.name)))
    if coverage is not None:
        share = coverage["direct"] / coverage["target_size"]
        facts.append(("direct with the drafter", f"{count(coverage['direct'])} tokens, {percent(share)}"))
    return "<dl>" + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts) + "</dl>"


def _memory(model: ModelInfo, settings: ModelSettings) -> str:
    """What it would take; a folder may have been emptied since it was listed, and the page is shown all the same."""
    try:
        return f"{size(estimate(model, settings))} at {count(context_of(model, settings))} tokens"
    except ModelError:
        return "not to be told: its files cannot be read"


def _buttons(model: ModelInfo, loaded: bool, drafts: bool) -> str:
    path = escape(str(model.path), quote=True)
    wanted = [("unload", "Unload")] if loaded else [("use", "Load")]
    if not drafts:
        wanted.append(("coverage", "Compare with the drafter"))
        if not model.path.is_dir():  # a folder can only be a target
            wanted.append(("draft", "Draft with it"))
    made = [f'<button type="button" data-kind="{kind}" data-file="{path}">{word}</button>' for kind, word in wanted]
    return f'<div class="od-card-buttons">{"".join(made)}</div>'


def downloads(running: list[Download]) -> str:
    """Progress of every download since the app started."""
    return "".join(_download(index, download) for index, download in enumerate(running))


def _download(index: int, download: Download) -> str:
    total = download.model.size
    share = min(download.done / total, 1.0) if total else 0.0
    words = {
        "running": f"{size(download.done)} of {size(total)}, {percent(share)}",
        "converting": "converting to GGUF",
        "done": f"done, {size(total)}",
        "cancelled": f"stopped at {size(download.done)} of {size(total)}",
        "failed": escape(download.error),
    }[download.state]
    stop = ("cancel", "Stop")
    act = {"running": stop, "converting": stop, "cancelled": ("resume", "Continue"), "failed": ("resume", "Try again")}
    kind = act.get(download.state)
    button = f'<button type="button" data-kind="{kind[0]}" data-index="{index}">{kind[1]}</button>' if kind else ""
    bad = " od-bad" if download.state == "failed" else ""
    name = escape(download.path.name)
    meter = f'role="progressbar" aria-label="{name}" aria-valuenow="{share:.0%}"'.replace("%", "")
    return (
        f'<div class="od-download{bad}" data-state="{download.state}"><div><b>{name}</b>'
        f'<span>{words}</span></div><div class="od-bar" {meter}><i style="width:{share:.1%}"></i></div>{button}</div>'
    )
