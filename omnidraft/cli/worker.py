"""`worker`: lends this machine's memory and processor to a main machine, for a target that one machine cannot hold.

Runs without the data home: no chat, profile or model file of this machine is opened.
"""

from __future__ import annotations

import argparse
import getpass
import re
import socket
import time
from pathlib import Path

from omnidraft.backends.remote.worker_process import Lending, WorkerProcess
from omnidraft.cli.interrupt import terminated
from omnidraft.errors import SettingsError, StorageError
from omnidraft.settings.fields import DEFAULT_PORT, Address, parse_address

_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
_SMALLEST = 64 * 10**6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        default=f"127.0.0.1:{DEFAULT_PORT}",
        metavar="HOST:PORT",
        help="where to wait (default: %(default)s)",
    )
    parser.add_argument("--threads", type=int, default=0, help="processor threads; 0: as the machine has cores")
    parser.add_argument("--device", metavar="NAME", help="what to lend (default: graphics cards, else the processor)")
    parser.add_argument("--memory", metavar="SIZE", help="lend at most this much, as 12GB (default: all free)")
    parser.add_argument("--cache-dir", type=Path, help="keep large tensors here, so that the next load sends less")
    parser.add_argument(
        "--trusted-network", action="store_true", help="listen to other machines too: nothing is encrypted, no password"
    )


def run(args: argparse.Namespace) -> int:
    lending = _lending(args)
    worker = WorkerProcess(lending)
    with terminated():
        try:
            lent = worker.start()
            print(f"Lending {lent} at {lending.listen}. Ctrl+C ends it.", flush=True)
            for event in worker.events():
                print(f"{time.strftime('%H:%M:%S')} {event}", flush=True)
        except KeyboardInterrupt:
            print("Ended.", flush=True)
        finally:
            worker.stop()
    return 0


def _lending(args: argparse.Namespace) -> Lending:
    if not 0 <= args.threads <= 1024:
        raise SettingsError(f"--threads is {args.threads}, but must be a whole number from 0 to 1024.")
    listen = parse_address(args.listen)
    if not args.trusted_network and not listen.is_loopback:
        raise SettingsError(_refusal(listen))
    if args.cache_dir is not None:
        try:
            args.cache_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"The folder {args.cache_dir} cannot be made: {error.strerror}.") from None
    return Lending(listen, args.threads, args.device, args.cache_dir, _bytes(args.memory))


def _refusal(listen: Address) -> str:
    port = listen.port
    return (
        f"At {listen} anybody in the network could use this worker, for its protocol has no password and no "
        "encryption. Leave --listen as it is, run on the main machine\n"
        f"    ssh -N -L {port}:127.0.0.1:{port} {getpass.getuser()}@{socket.gethostname()}\n"
        f"and name 127.0.0.1:{port} there as the worker; or add --trusted-network if nobody else is in that network."
    )


def _bytes(text: str | None) -> int | None:
    """12GB, 800 MB, 1.5TB."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([MGT]B)\s*", text, re.IGNORECASE)
    count = int(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if count < _SMALLEST:
        raise SettingsError(f"--memory is {text[:40]!r}, but must be a size of at least 64MB, for instance 12GB.")
    return count
