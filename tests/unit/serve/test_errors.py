"""Errors of requests: their outcome in one word, and messages without the server's secrets."""

from __future__ import annotations

import errno

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.serve.errors import (
    BusyError,
    StorageFullError,
    outcome_of,
    sanitize_error,
    translate_full_storage,
)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(None, "done"), (BusyError("full"), "busy"), (ValueError("x"), "ValueError")],
)
def test_outcome_of_is_kind_or_class(error: Exception | None, outcome: str) -> None:
    assert outcome_of(error) == outcome


@pytest.mark.parametrize(
    ("message", "sanitized"),
    [
        ("cannot read /srv/models/a.onnx: no file", "cannot read ...: no file"),
        ("see https://example.org/a/b", "see https://example.org/a/b"),
        ("--max-new-tokens is 0", "max_new_tokens is 0"),
    ],
)
def test_sanitize_error_drops_paths_and_dashes(message: str, sanitized: str) -> None:
    assert sanitize_error(OptionError(message)) == sanitized


def test_sanitize_error_hides_messages_of_other_libraries() -> None:
    assert "secret" not in sanitize_error(RuntimeError("secret"))
    assert "secret" not in sanitize_error(TimeoutError("secret"))
    assert sanitize_error(BusyError("/v1 is busy")) == "/v1 is busy"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_translate_full_storage_finds_the_cause(number: int) -> None:
    error = ValueError("bad sound")
    error.__cause__ = RuntimeError("write failed")
    error.__cause__.__context__ = OSError(number, "full")
    translated = translate_full_storage(error)
    assert isinstance(translated, StorageFullError)
    assert translated.status == 507


def test_translate_full_storage_returns_other_errors() -> None:
    error = ValueError("bad sound")
    error.__cause__ = OSError(errno.EACCES, "denied")
    assert translate_full_storage(error) is error
