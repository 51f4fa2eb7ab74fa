"""`serve` as a process, with OpenAI's client, curl, and requests of its description."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPSConnection
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import DEMO, DEMO_TEXT, Command, one_line
from tests.e2e.serving import serve
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_lab.experiments.server_clients import (
    openai_client,
    realtime_client,
    wyoming_client,
)

openai = pytest.importorskip(
    "openai", reason="openai is not installed: requirements/dev.txt"
)
pytest.importorskip("fastapi", reason="the server extra is not installed")
GERMAN = sorted((unpack_clips() / "german").glob("*.ogg"))[0]
LONG = sorted((unpack_clips() / "long").glob("*.ogg"))[0]
KEY = "a key of this test"
if find_spec("schemathesis") is None:
    pytest.skip(
        "schemathesis is not installed: requirements/e2e.txt", allow_module_level=True
    )
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")
N_EXAMPLES = 15
"""Of each operation, beside those that try every field; `--max-examples 1000` by hand."""


@pytest.fixture(scope="module")
def server(environment: dict[str, str]) -> Iterator[str]:
    """Address of the server."""
    with serve(environment, "--http", "127.0.0.1:0", "--api-key", KEY) as served:
        yield served.wait_for(r"serving at (http\S+)")


@pytest.fixture(scope="module")
def client(server: str) -> Iterator[openai.OpenAI]:
    """OpenAI's client, which only has the address."""
    with openai.OpenAI(base_url=f"{server}/v1", api_key=KEY, max_retries=0) as opened:
        yield opened


@pytest.mark.parametrize(
    ("layout", "words"),
    [("text", ("-f", "txt")), ("srt", ("-f", "srt")), ("vtt", ("-f", "vtt"))],
)
def test_openai_client_formats_equal_the_command_s(
    client: openai.OpenAI, whisper_hailo: Command, layout: str, words: tuple[str, ...]
) -> None:
    printed = whisper_hailo(
        "transcribe", "--model", "micro", "--threads", "1", "-l", "auto", *words, LONG
    ).stdout
    answer = client.audio.transcriptions.create(
        file=LONG, model="whisper-1", response_format=layout
    )
    # The command has a line for each segment, OpenAI's API one in all.
    if layout == "text":
        printed = printed.removesuffix("\n").replace("\n", " ") + "\n"
    assert answer == printed


def test_openai_client_parses_json_and_verbose_json(client: openai.OpenAI) -> None:
    short = client.audio.transcriptions.create(
        file=DEMO, model="micro", include=["logprobs"]
    )
    assert short.text == DEMO_TEXT
    assert "".join(entry.token for entry in short.logprobs).strip() == DEMO_TEXT
    verbose = client.audio.transcriptions.create(
        file=GERMAN,
        model="whisper-1",
        language="de",
        prompt="Guten Tag.",
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
        temperature=0,
    )
    assert verbose.language == "german"
    assert [word.word for word in verbose.words] == verbose.text.split()
    assert verbose.segments[0].tokens
    with pytest.deprecated_call():
        english = client.audio.translations.create(file=GERMAN, model="whisper-1")
    assert english.text
    assert client.models.retrieve("micro").id == "micro"
    assert [model.id for model in client.models.list()] == ["micro", "whisper-1"]


@pytest.mark.parametrize(
    "model", ["gpt-transcribe", "gpt-4o-transcribe-diarize", "openai/whisper-micro"]
)
def test_openai_client_model_names_and_lists_are_accepted(
    client: openai.OpenAI, model: str
) -> None:
    with DEMO.open("rb") as file:
        answer = client.audio.transcriptions.create(
            file=file,
            model=model,
            keywords=["whisper"],
            languages=["en", "de"],
            chunking_strategy="auto",
        )
    assert answer.text
    assert answer.languages is not None
    assert [language.code for language in answer.languages] == ["en"]


def test_openai_client_stream_has_deltas_and_text(client: openai.OpenAI) -> None:
    whole = client.audio.transcriptions.create(file=LONG, model="whisper-1")
    events = list(
        client.audio.transcriptions.create(file=LONG, model="whisper-1", stream=True)
    )
    assert len(events) > 2
    assert "".join(event.delta for event in events[:-1]) == whole.text
    assert events[-1].text == whole.text


def test_openai_clients_at_once_get_their_own_text(server: str) -> None:
    async def ask() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server}/v1", api_key=KEY) as client:
            files = [DEMO, GERMAN, LONG] * 3
            requests = (
                client.audio.transcriptions.create(file=file, model="whisper-1")
                for file in files
            )
            streamed = await client.audio.transcriptions.create(
                file=DEMO, model="whisper-1", stream=True
            )
            texts = [answer.text for answer in await asyncio.gather(*requests)]
            *_, done = [event async for event in streamed]
            assert done.text == DEMO_TEXT
            return texts

    texts = asyncio.run(ask())
    assert texts[:3] * 3 == texts
    assert texts[0] == DEMO_TEXT
    assert len(set(texts)) == 3


def test_openai_client_errors_have_their_classes(
    client: openai.OpenAI, server: str
) -> None:
    with pytest.raises(openai.NotFoundError, match="another"):
        client.audio.transcriptions.create(file=DEMO, model="another")
    with pytest.raises(openai.BadRequestError, match=r"a\.wav"):
        client.audio.transcriptions.create(
            file=("a.wav", b"no sound at all"), model="micro"
        )
    with (
        openai.OpenAI(
            base_url=f"{server}/v1", api_key="guessed", max_retries=0
        ) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.audio.transcriptions.create(file=DEMO, model="micro")


def test_curl_request_of_the_documents_works(server: str) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    answer = subprocess.run(
        [curl, "-s", "-H", f"Authorization: Bearer {KEY}", "-F", f"file=@{DEMO}",
         "-F", "model=whisper-1", f"{server}/v1/audio/transcriptions"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(answer.stdout)["text"] == DEMO_TEXT


def test_serve_terminated_completes_running_requests(
    environment: dict[str, str],
) -> None:
    with serve(environment, "--http", "127.0.0.1:0", "--log-text") as served:
        address = served.wait_for(r"serving at (http\S+)")
        with openai.OpenAI(
            base_url=f"{address}/v1", api_key="none", max_retries=0
        ) as client:
            stream = client.audio.transcriptions.create(
                file=LONG, model="whisper-1", stream=True
            )
            first = next(iter(stream))
            served.process.terminate()
            served.wait_for("(shutting down)")
            rest = list(stream)
        assert rest[-1].text.startswith(first.delta)
        assert served.end(told=True) == 0
        assert f'text="{rest[-1].text}"' in served.said


def test_serve_sighup_ends_cleanly(environment: dict[str, str]) -> None:
    with serve(environment, "--wyoming", "tcp://127.0.0.1:0") as served:
        served.wait_for("(only Wyoming)")
        served.wait_for(r"serving at (tcp\S+)")
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("(shutting down)")
        assert served.end(told=True) == 0


def test_serve_log_has_no_text(environment: dict[str, str]) -> None:
    with serve(environment, "--http", "127.0.0.1:0") as served:
        address = served.wait_for(r"serving at (http\S+)")
        with openai.OpenAI(base_url=f"{address}/v1", api_key="none") as client:
            client.audio.transcriptions.create(file=DEMO, model="whisper-1")
        assert served.end() == 0
    (done,) = [line for line in served.said.splitlines() if "outcome=done" in line]
    assert "api=openai" in done
    assert "audio_s=14." in done
    assert "Oliver" not in served.said


def test_serve_log_has_times_from_the_start(environment: dict[str, str]) -> None:
    with serve(environment, "--http", "127.0.0.1:0") as served:
        served.wait_for(r"serving at (http\S+)")
        lines = served.said.splitlines()
    assert len(lines) > 1
    assert all(TIME.match(line) for line in lines), lines
    with serve(environment, "--http", "127.0.0.1:0", "--log-json") as served:
        served.wait_for(r"serving at (http[^\"]+)")
        entries = [json.loads(line) for line in served.said.splitlines()]
    assert all({"time", "level", "message"} <= entry.keys() for entry in entries)


def test_serve_used_address_is_one_line(whisper_hailo: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = whisper_hailo("serve", "--model", "no-such-model", "--http", address)
    assert result.returncode == 2
    assert f"http://{address}" in one_line(result), "before the model is loaded"


def test_serve_answers_over_tls(environment: dict[str, str], tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    cert = tmp_path / "cert.pem"
    key = tmp_path / "key.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", key,
         "-out", cert, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        capture_output=True, check=True,
    )  # fmt: skip
    keys = tmp_path / "keys"
    keys.write_text(KEY)
    words = (
        "--http",
        "127.0.0.1:0",
        "--tls-cert",
        cert,
        "--tls-key",
        key,
        "--api-key-file",
        keys,
    )
    with serve(environment, *words) as served:
        port = int(served.wait_for(r"serving at https://127.0.0.1:(\d+)"))
        trusted = ssl.create_default_context(cafile=cert)
        with closing(HTTPSConnection("localhost", port, context=trusted)) as connection:
            connection.request(
                "GET", "/v1/models", headers={"Authorization": f"Bearer {KEY}"}
            )
            answer = connection.getresponse()
            assert answer.status == 200
            assert json.load(answer)["data"][0]["id"] == "micro"
        assert served.end() == 0


def test_serve_invalid_certificate_is_one_line(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    wrong = tmp_path / "cert.pem"
    wrong.write_text("no certificate")
    result = whisper_hailo(
        "serve",
        "--model",
        "no-such-model",
        "--http",
        "127.0.0.1:0",
        "--tls-cert",
        wrong,
        "--tls-key",
        wrong,
    )
    assert result.returncode == 2
    assert "--tls-cert" in one_line(result)


def test_serve_three_apis_give_the_same_text(
    environment: dict[str, str],
) -> None:
    with serve(
        environment, "--http", "127.0.0.1:0", "--wyoming", "tcp://127.0.0.1:0"
    ) as served:
        http = served.wait_for(r"serving at (http\S+)")
        by_wyoming = wyoming_client(served.wait_for(r"serving at (tcp\S+)"))
        assert (
            openai_client(http)()
            == by_wyoming()
            == realtime_client(http)()
            == DEMO_TEXT
        )
        assert served.end() == 0


def test_serve_options_come_from_the_environment(
    environment: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "serve.toml"
    config.write_text('wyoming = "tcp://127.0.0.1:0"\nalias = ["house"]\n')
    variables = {
        "WHISPER_HAILO_SERVE_CONFIG": str(config),
        "WHISPER_HAILO_SERVE_HTTP": "127.0.0.1:0",
    }
    with serve({**environment, **variables}) as served:
        address = urlsplit(served.wait_for(r"serving at (http\S+)"))
        served.wait_for(r"serving at (tcp\S+)")
        with closing(HTTPConnection(address.netloc)) as connection:
            connection.request("GET", "/v1/models")
            models = json.load(connection.getresponse())["data"]
    assert [model["id"] for model in models] == ["micro", "whisper-1", "house"]


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
