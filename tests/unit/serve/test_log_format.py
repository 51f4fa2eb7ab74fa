"""Lines of a server's log."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest

from whisper_hailo.serve.log_format import formatted_log, quote_value
from whisper_hailo.serve.logs import log_request
from whisper_hailo.serve.request import Caller

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return where the root logger writes."""
    stream = io.StringIO()
    monkeypatch.setattr(
        logging.getLogger(), "handlers", [logging.StreamHandler(stream)]
    )
    logging.getLogger("whisper_hailo").setLevel(logging.INFO)
    return stream


def test_formatted_log_lines_have_time_and_quoted_values(
    stream: io.StringIO,
) -> None:
    with formatted_log(as_json=False):
        log_request(Caller("1.2.3.4", "test"), None, text='He said: "a=b"', segments=2)
    fields = (
        r'api=test client=1\.2\.3\.4 outcome=done text="He said: \\"a=b\\"" segments=2'
    )
    assert re.fullmatch(f"{TIME} {fields}\n", stream.getvalue())
    stream.truncate(0)
    logging.getLogger("whisper_hailo").warning("as before")
    assert stream.getvalue().strip("\0") == "as before\n"


def test_formatted_log_json_has_fields_and_messages(stream: io.StringIO) -> None:
    with formatted_log(as_json=True):
        log_request(Caller("1.2.3.4", "test"), ValueError("odd"), took_s=0.5)
        logging.getLogger("whisper_hailo").warning("a\nline of %s", "two")
    request, message = map(json.loads, stream.getvalue().splitlines())
    assert re.fullmatch(TIME, request.pop("time"))
    assert "ValueError: odd" in request.pop("traceback")
    assert request == {
        "level": "error",
        "api": "test",
        "client": "1.2.3.4",
        "outcome": "ValueError",
        "took_s": 0.5,
    }
    assert message["level"] == "warning"
    assert message["message"] == "a\nline of two"


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("plain", "plain"),
        (0.5, "0.5"),
        ("", '""'),
        ("a b", '"a b"'),
        ("a\nb", r'"a\nb"'),
    ],
)
def test_quote_value_quotes_what_would_not_end(value: object, quoted: str) -> None:
    assert quote_value(value) == quoted
