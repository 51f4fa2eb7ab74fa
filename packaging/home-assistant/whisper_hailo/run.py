"""The add-on: its page's options become those of `whisper-hailo serve`; Home Assistant is told."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

OPTIONS = Path("/data/options.json")
WYOMING_PORT = 10300
SUPERVISOR = "http://supervisor/discovery"
HOME_ASSISTANT = "http://supervisor/core"
TOKEN_FILE = Path("/run/home-assistant-token")
PATIENCE_S = 900.0
"""Fetching and converting a model may take so long."""


def words(options: dict[str, Any]) -> list[str]:
    """The command for the options of the add-on's page."""
    found = ["whisper-hailo", "serve", "--http", "0.0.0.0:8000"]
    # Only Home Assistant reaches the port, and it leaves the end of a command to the server.
    found += ["--wyoming", f"tcp://0.0.0.0:{WYOMING_PORT}", "--endpointing"]
    options = dict(options)
    if options.pop("expect_names", False):
        found += ["--home-assistant", HOME_ASSISTANT]
        found += ["--home-assistant-token-file", str(TOKEN_FILE)]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            found.append(flag)
        elif value is not False and value != "":
            found += [flag, str(value)]
    return found


def announce(port: int = WYOMING_PORT, supervisor: str = SUPERVISOR) -> None:
    """Tell Home Assistant where the server is, once it serves."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.5)
            continue
        break
    told = {
        "service": "wyoming",
        "config": {"uri": f"tcp://{socket.gethostname()}:{port}"},
    }
    headers = {
        "Authorization": f"Bearer {os.environ['SUPERVISOR_TOKEN']}",
        "Content-Type": "application/json",
    }
    with urlopen(Request(supervisor, json.dumps(told).encode(), headers), timeout=30):  # noqa: S310
        pass


def main() -> None:
    """Become the server; a process of its own announces it meanwhile."""
    options = json.loads(OPTIONS.read_text(encoding="utf-8"))
    token = os.environ.get("SUPERVISOR_TOKEN")
    if token is None:
        options["expect_names"] = False
    else:
        # A file, since everybody who can list processes sees their options.
        TOKEN_FILE.touch(mode=0o600)
        TOKEN_FILE.write_text(token, encoding="utf-8")
    command = words(options)
    if token is not None and os.fork() == 0:
        try:
            announce()
        except OSError as error:
            sys.exit(
                f"Home Assistant was not told of the server ({error}); add it by hand"
            )
        os._exit(0)
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
