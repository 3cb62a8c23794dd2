"""The models found, as a list of rows that unfold, whose buttons become the event `act` ({kind, file})."""

from __future__ import annotations

from html import escape

from omnidraft.app import models_list
from omnidraft.app.models_list import same_file
from omnidraft.app.outlook import ASSUMED, Outlook, drafters_of, known_speeds
from omnidraft.app.room import Room, context_of, needs
from omnidraft.app.session import Session
from omnidraft.backends.discovery import NO_PROJECTOR
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.format import count, rate, short, size
from omnidraft.processes.progress import Progress
from omnidraft.prompting.templates import NO_TEMPLATE
from omnidraft.settings.config import named_file
from ui.common.frame import script
from ui.common.notes import CLICKS, loading

KINDS = {
    "vocabulary": "a vocabulary without weights",
    "encoder": "an encoder; it cannot write text",
    "adapter": "an adapter; it belongs to a drafter",
    "projector": "a projector for images; it cannot write text",
}
_BASE = f"{NO_TEMPLATE.format('It')}, and answers questions poorly."
SCRIPT = CLICKS + script("models.js")


class _Here:
    """What the rows have in common: what is loaded, what is free, what was measured.

    target: the model that would answer; chosen: `AppSettings.projectors`.
    """

    def __init__(self, session: Session, found: list[ModelInfo]) -> None:
        self.settings, self.loading = session.model_settings, session.loading
        self.drafter, self.chosen = session.drafter_path(), session.settings.projectors
        self.eyes = {model.path: models_list.projector_of(model, self.chosen) for model in found}
        self.projectors = [model for model in found if model.kind == "projector"]
        self.speeds = known_speeds(session, found)
        loaded, self.target = (
            models_list.at([model for model in found if model.kind == "model"], path)
            for path in (session.loaded, session.target_or_none())
        )
        self.loaded = loaded.path if loaded else None
        self.room = Room.beside(session)


def models(session: Session) -> str:
    """One row per model file."""
    found = models_list.scan(session.assistant)
    here = _Here(session, found)
    paired = {*here.eyes.values(), *(models_list.projector_of(model) for model in found)}
    shown = [model for model in found if model.path not in paired]
    if not shown:
        return '<p class="od-none">No model files found.</p>'
    offered = _drafters(drafters_of(session, found), here)
    own, bundled = (_rows([m for m in shown if models_list.is_bundled(m.path) is with_it], here) for with_it in _BOTH)
    toys = f'<h2>Toys that come with the program</h2><p class="od-under">{_TOYS}</p>{bundled}' if bundled else ""
    return f'<h2 class="od-hidden">On this machine</h2>{own}{toys}{offered}'


_BOTH = (False, True)
_TOYS = "They know sums, small functions and OmniDraft, and one drafts for every model."


def _rows(shown: list[ModelInfo], here: _Here) -> str:
    rows = "".join(_row(model, here) if model.kind == "model" else _other(model) for model in shown)
    return f'<ul class="od-models">{rows}</ul>' if rows else ""


def _row(model: ModelInfo, here: _Here) -> str:
    loaded, drafts = model.path == here.loaded, same_file(model.path, here.drafter)
    chosen = here.loaded is None and here.target is not None and model.path == here.target.path
    tags = _tags(("loaded", loaded), ("chosen; the next question loads it", chosen), ("drafter", drafts))
    if not (model.chat_template or models_list.is_bundled_drafter(model)):
        tags += f'<span class="od-tag" title="{_BASE}">base model</span>'
    fits, said = _fits(model, here, loaded)
    speed, sees = here.speeds.get(model.path), here.eyes[model.path] is not None
    bad = "" if fits else ' class="od-bad"'
    facts = (
        f"<span>{size(model.file_size)}</span><span{bad}>{said}</span>"
        f"<span>{f'{rate(speed)} tokens/s' if speed else ''}</span>"
        f"<span>{'sees pictures' if sees else 'text only'}</span>"
    )
    main = _button("unload", "Unload", model) if loaded else _button("use", "Load", model)
    if models_list.is_bundled_drafter(model):
        main = "<span></span>"  # keeps the columns
    if here.loading is not None and same_file(here.loading.path, model.path):
        facts, main = _under_way(here.loading), "" if here.loading.final else _button("cancel", "Cancel", model)
    name = escape(model.name)
    return (
        f"<li><h3>{name}{tags}</h3><p>{facts}</p>{main}"
        f'<details data-file="{escape(str(model.path))}"><summary aria-label="More about {name}"></summary>'
        f"{_facts(model, here)}{_eyes(model, here)}{_path(model)}</details></li>"
    )


def _under_way(progress: Progress) -> str:
    """What takes the place of a row's facts while its model is loaded."""
    share = progress.share or 0.0
    meter = f'role="progressbar" aria-label="{escape(progress.path.stem)}" aria-valuenow="{100 * share:.0f}"'
    words = escape(loading(progress).partition(": ")[2])
    return f'<span class="od-doing">{words}<i class="od-bar" {meter}><i style="width:{share:.1%}"></i></i></span>'


def _tags(*tags: tuple[str, bool]) -> str:
    return "".join(f'<span class="od-tag">{tag}</span>' for tag, on in tags if on)


def _fits(model: ModelInfo, here: _Here, loaded: bool) -> tuple[bool, str]:
    needed = needs(model, here.settings, here.eyes[model.path])
    if loaded:
        return True, "in memory"
    if needed is None:
        return False, "its files cannot be read"
    return (True, "on workers") if here.settings.workers else here.room.fits(needed, folder=model.path.is_dir())


def _other(model: ModelInfo) -> str:
    """A file that cannot write text, with the reason."""
    if model.kind == "damaged":  # its sentence says where it lies
        why, bad, where = escape(model.error or ""), " od-bad", ""
    else:
        why, bad, where = KINDS[model.kind], "", _path(model)
    return (
        f'<li><h3>{escape(model.name)}</h3><div class="od-unusable"><p class="od-note{bad}">{why}</p>{where}</div></li>'
    )


def _facts(model: ModelInfo, here: _Here) -> str:
    needed = needs(model, here.settings, here.eyes[model.path])
    facts = [
        *([("calls itself", escape(model.title))] if model.title and model.title != model.name else []),
        ("architecture", escape(model.architecture)),
        ("parameters", short(model.parameters)),
        ("quantization", escape(model.quantization)),
        ("trained context", count(model.n_ctx_train) if model.n_ctx_train else "not said"),
        ("vocabulary", f"{escape(model.vocabulary_family)}, {count(model.vocabulary_size)}"),
    ]
    if needed is not None:
        facts.append(("memory, about", f"{size(needed)} at {count(context_of(model, here.settings))} tokens"))
    return "<dl>" + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts) + "</dl>"


def _eyes(model: ModelInfo, here: _Here) -> str:
    """What it sees pictures through, to be chosen where there is a choice."""
    named = named_file(here.chosen, model.path.name) or ""
    fitting = [one for one in here.projectors if models_list.fits_projector(model, one) or str(one.path) == named]
    if not fitting or model.path.is_dir():
        return ""
    beside = models_list.projector_of(model)
    offered = [("", f"automatic: {beside.name if beside else 'none found'}"), (NO_PROJECTOR, "none")]
    offered += [(str(one.path), one.path.name) for one in fitting]
    options = "".join(
        f'<option value="{escape(value)}"{" selected" * (value == named)}>{escape(word)}</option>'
        for value, word in offered
    )
    return (
        f'<label class="od-eyes">sees pictures through<select data-kind="projector" '
        f'data-file="{escape(str(model.path))}">{options}</select></label>'
    )


def _drafters(found: list[Outlook], here: _Here) -> str:
    """The models at hand that may draft for the one that answers, the best first."""
    if here.target is None or not found:
        return ""
    rows = "".join(_drafter(one, here) for one in found)
    return (
        f'<h2>Drafters for {escape(here.target.name)}</h2><p class="od-under">Expected, by what passes take here '
        "once that was measured undisturbed. Where nobody tried a pair, it is assumed that "
        f'{ASSUMED}.</p><ul class="od-models od-drafters">{rows}</ul>'
    )


def _drafter(one: Outlook, here: _Here) -> str:
    model, drafts = one.model, same_file(one.model.path, here.drafter)
    fits = one.memory is None or drafts or here.room.memory is None or one.memory <= here.room.memory
    times = f"{one.gain:.1f} times plain speed"
    pace = f"about {rate(one.speed)} tokens/s, {times}" if one.speed is not None else f"about {times}"
    takes = f"takes {size(one.memory)}" if one.memory is not None else ""
    bad = "" if fits else ' class="od-bad"'
    brings = pace if one.pays else f"no gain expected: {times}"
    facts = (
        f"<span>{short(model.parameters)}, {escape(model.quantization)}</span><span{bad}>{takes}</span>"
        f"<span>{brings}</span><span>{'tried here' if one.tried else ''}</span>"
    )
    button = "" if drafts else _button("draft", "Draft with it", model)
    return f"<li><h3>{escape(model.name)}{_tags(('drafter', drafts))}</h3><p>{facts}</p>{button}</li>"


def _button(kind: str, word: str, model: ModelInfo) -> str:
    path = escape(str(model.path))
    of = f' <span class="od-hidden">{escape(model.name)}</span>'
    return f'<button type="button" data-kind="{kind}" data-file="{path}">{word}{of}</button>'


def _path(model: ModelInfo) -> str:
    return f'<p class="od-path">{escape(str(model.path))}</p>'
