"""The server's answers match its description; schemathesis makes the requests."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.e2e.serving import serve

pytest.importorskip("fastapi", reason="the server extra is not installed")
if find_spec("schemathesis") is None:
    pytest.skip(
        "schemathesis is not installed: requirements/e2e.txt", allow_module_level=True
    )

N_EXAMPLES = 15
"""Of each operation, beside those that try every field; `--max-examples 1000` by hand."""


def test_openapi_describes_every_answer(environment: dict[str, str]) -> None:
    with serve(environment, "--http", "127.0.0.1:0") as served:
        address = served.wait_for(r"serving at (http\S+)")
        process = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json",
             "--max-examples", str(N_EXAMPLES), "--seed", "1", "--no-color",
             # No schema describes a recording: other files are refused, and `null` in a form
             # is four bytes, which may be samples.
             "--exclude-checks", "positive_data_acceptance,negative_data_rejection"],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert process.returncode == 0, process.stdout[-4000:]
        assert served.end() == 0
    assert "Traceback" not in served.said
