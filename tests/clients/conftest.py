"""Today's clients of OpenAI's API, each at its own defaults: `make lab NAME=clients`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.serving import serve

ROOT = Path(__file__).parents[2]
CLIENTS = Path(os.environ.get("WHISPER_HAILO_CLIENTS", ROOT / ".venv-clients"))
"""Environment with the clients."""


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return that of a user without network."""
    home = tmp_path_factory.mktemp("home")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "WHISPER_HAILO_CACHE": str(home / "cache"),
        "HF_HUB_OFFLINE": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


@pytest.fixture(scope="session")
def address(environment: dict[str, str]) -> Iterator[str]:
    """Return the address of a server without any alias."""
    with serve(environment, "--http", "127.0.0.1:0") as server:
        yield server.wait_for(r"serving at (http://\S+)")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate for this machine, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert = folder / "cert.pem"
    key = folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "1", "-keyout", key, "-out", cert, "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@pytest.fixture(scope="session")
def secure_address(
    environment: dict[str, str], certificate: tuple[Path, Path]
) -> Iterator[str]:
    """Return the address of a server with TLS."""
    cert, key = certificate
    words = ("--http", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
    with serve(environment, *words) as server:
        yield server.wait_for(r"serving at (https://\S+)")
