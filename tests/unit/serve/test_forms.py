"""Forms of uploads: bounded fields, freed memory."""

from __future__ import annotations

import gc
import io
import socket
from collections.abc import Iterator

import numpy as np
import pytest
import soundfile
from starlette.testclient import TestClient

from tests.fakes.micro_service import (
    DEMO,
    LONG,
    TRANSCRIPTIONS,
    MicroService,
    client,
    run_server,
    transcribe,
)
from tests.patience import PATIENCE_S, wait_for
from whisper_hailo.audio import load_audio
from whisper_hailo.serve.forms import MAX_FIELD_BYTES
from whisper_hailo.transcription.longform.windows_ahead import OpenedAudio


@pytest.fixture(scope="module")
def web(micro: MicroService) -> Iterator[TestClient]:
    with client(micro) as opened:
        yield opened


@pytest.mark.parametrize(
    "fields",
    [
        {f"f{n}": "x" for n in range(100)},
        {"prompt": "x".ljust(MAX_FIELD_BYTES + 1, "x")},
    ],
    ids=["many", "large"],
)
def test_upload_too_many_or_large_fields_are_400(
    micro: MicroService, fields: dict[str, str]
) -> None:
    files = {"file": ("a.wav", b"")}
    answer = client(micro).post(TRANSCRIPTIONS, data=fields, files=files)
    assert answer.status_code == 400
    assert "aximum" in answer.json()["error"]["message"]


def test_upload_of_departed_client_is_freed_without_gc() -> None:
    audio = np.tile(load_audio(LONG[0]), 20)
    sound = io.BytesIO()
    soundfile.write(sound, audio, 16_000, format="FLAC")
    head = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.flac"\r\n\r\n'
    )
    body = head + sound.getvalue() + b"\r\n--x--\r\n"
    request = (
        f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\n\r\n"
    ).encode()

    def is_open() -> bool:
        return any(type(thing) is OpenedAudio for thing in gc.get_objects())

    with MicroService() as micro, run_server(micro) as web:
        gc.disable()
        try:
            for _ in range(3):
                with socket.create_connection(
                    ("127.0.0.1", web.port), PATIENCE_S
                ) as talking:
                    talking.sendall(request + body)
                    assert wait_for(lambda: bool(micro.model.queue.n_unfinished))
                    assert is_open()
                assert wait_for(lambda: not is_open())
        finally:
            gc.enable()


def test_fields_of_a_form_are_bounded_together(web: TestClient) -> None:
    keyword_of_1_mib = "x".ljust(1 << 20, "x")
    fields = {"keywords[]": [keyword_of_1_mib] * 13}
    answer = transcribe(web, DEMO, **fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
