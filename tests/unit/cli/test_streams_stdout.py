"""Results on standard output."""

from __future__ import annotations

import io
import json
import math
import sys

import pytest

from whisper_hailo.cli.streams import emit, emit_json


def test_emit_flushes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With any buffer of standard output: a pipe's reader reads lines as they come."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(raw)))  # type: ignore[arg-type]
    emit("a line")
    assert raw.getvalue() == b"a line"


def test_emit_json_writes_ascii_object_per_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    emit_json({"text": "Grüße.\n\u2028"})
    emit_json({"a": [1]}, indent=2)
    first, rest = capsys.readouterr().out.split("\n", 1)
    assert first.isascii()
    assert json.loads(first) == {"text": "Grüße.\n\u2028"}
    assert json.loads(rest) == {"a": [1]}
    assert rest == '{\n  "a": [\n    1\n  ]\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        emit_json({"a": math.nan})
