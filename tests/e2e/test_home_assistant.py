"""Home Assistant's Assist, with our server as its speech-to-text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.conftest import DEMO, Command
from tests.e2e.serving import serve

pytest.importorskip("wyoming", reason="the server extra is not installed")
pytest.importorskip("websockets", reason="the web extra is not installed")

from tests.e2e.home_assistant import (
    INSTALLATIONS,
    HomeAssistant,
    Installation,
    home_assistant,
)
from whisper_hailo.audio import load_audio
from whisper_hailo.serve.home_assistant import fetch_names
from whisper_hailo.serve.options import HomeAssistantOptions
from whisper_hailo_lab.clip_archives import unpack_clips

GERMAN = sorted((unpack_clips() / "german").glob("*.ogg"))[0]
PHRASE = sorted((unpack_clips() / "phrases").glob("*.ogg"))[0]
ENGINE = "stt.whisper_hailo"


def read_pcm(path: Path) -> bytes:
    """Return the samples of a recording as satellites send them."""
    return (load_audio(path) * 32767).round().astype("<i2").tobytes()


@pytest.fixture(
    scope="module", params=INSTALLATIONS, ids=lambda run_pipeline: run_pipeline.lane
)
def installed(request: pytest.FixtureRequest) -> Installation:
    """An older and today's Home Assistant, as far as they are installed."""
    installation: Installation = request.param
    if not installation.is_there:
        pytest.skip(
            f"Home Assistant is not installed: make lab NAME={installation.lane}"
        )
    return installation


@pytest.fixture(scope="module")
def port(environment: dict[str, str]) -> Iterator[int]:
    """Port of our Wyoming server."""
    address = ("--wyoming", "tcp://127.0.0.1:0", "--endpointing")
    with serve(environment, *address) as served:
        yield int(served.wait_for(r"serving at tcp://\S+:(\d+)"))


@pytest.fixture(scope="module")
def home(port: int, installed: Installation) -> Iterator[HomeAssistant]:
    """Home Assistant with our server added."""
    with home_assistant(installed) as opened:
        added = opened.add_wyoming("127.0.0.1", port)
        assert added["type"] == "create_entry", added
        yield opened


@pytest.fixture(scope="module")
def texts(whisper_hailo: Command) -> dict[str, str]:
    """Texts of the command, which prints a line for each window."""
    command = ("transcribe", "--model", "micro", "--threads", "1", "-l")
    return {
        language: " ".join(whisper_hailo(*command, language, path).stdout.split())
        for language, path in (("en", DEMO), ("de", GERMAN))
    }


def test_home_assistant_lists_engine_and_languages(home: HomeAssistant) -> None:
    engine = home.ask(f"/api/stt/{ENGINE}")
    assert {"en", "de"} <= set(engine["languages"])
    with home.talk() as talk:
        listed = talk.ask(type="stt/engine/list")["providers"]
    assert [run_pipeline["engine_id"] for run_pipeline in listed] == [ENGINE]


@pytest.mark.parametrize(("language", "path"), [("en", DEMO), ("de", GERMAN)])
def test_home_assistant_api_gives_the_command_s_text(
    home: HomeAssistant, texts: dict[str, str], language: str, path: Path
) -> None:
    answer = home.text_of(ENGINE, read_pcm(path), language)
    assert answer == {"text": texts[language], "result": "success"}


@pytest.mark.parametrize(("language", "path"), [("en", DEMO), ("de", GERMAN)])
def test_home_assistant_pipeline_gives_the_command_s_text(
    home: HomeAssistant, texts: dict[str, str], language: str, path: Path
) -> None:
    with home.talk() as talk:
        events = talk.run(talk.pipeline(ENGINE, language), read_pcm(path))
    assert [event["type"] for event in events] == [
        "run-start",
        "stt-start",
        "stt-end",
        "run-end",
    ]
    assert events[2]["data"]["stt_output"]["text"] == texts[language]


def test_home_assistant_spoken_command_ends_by_itself(
    home: HomeAssistant, installed: Installation
) -> None:
    with home.talk() as talk:
        events = talk.speak(talk.pipeline(ENGINE, "en"), read_pcm(PHRASE))
    kinds = [event["type"] for event in events]
    assert kinds[-2:] == ["stt-end", "run-end"]
    assert events[-2]["data"]["stt_output"]["text"]
    if installed.lane.endswith("today"):  # it leaves the end to us
        assert not any(kind.startswith("stt-vad") for kind in kinds)
        assert not events[1]["data"]["audio_processing"]["requires_external_vad"]


def test_home_assistant_ten_pipelines_at_once_get_their_text(
    home: HomeAssistant, texts: dict[str, str]
) -> None:
    with home.talk() as talk:
        pipelines = {
            language: talk.pipeline(ENGINE, language) for language in ("en", "de")
        }

    def run_pipeline(number: int) -> str:
        language, path = (("en", DEMO), ("de", GERMAN))[number % 2]
        with home.talk() as talk:
            events = talk.run(pipelines[language], read_pcm(path))
        return str(events[2]["data"]["stt_output"]["text"])

    with ThreadPoolExecutor(10) as clients:
        answer = list(clients.map(run_pipeline, range(10)))
    assert answer == [texts["en"], texts["de"]] * 5


def test_home_assistant_reconnects_to_a_restarted_server(
    environment: dict[str, str], installed: Installation, texts: dict[str, str]
) -> None:
    with home_assistant(installed) as home:
        address = "tcp://127.0.0.1:0"
        with serve(environment, "--wyoming", address) as first:
            address = first.wait_for(r"serving at (tcp://\S+)")
            home.add_wyoming("127.0.0.1", int(address.rpartition(":")[2]))
            assert home.text_of(ENGINE, read_pcm(DEMO), "en")["text"] == texts["en"]
        gone = home.text_of(ENGINE, read_pcm(DEMO), "en")
        assert gone["result"] == "error"
        with serve(environment, "--wyoming", address) as second:
            second.wait_for(r"serving at (tcp://\S+)")
            assert home.text_of(ENGINE, read_pcm(DEMO), "en")["text"] == texts["en"]


def test_server_expects_the_names_of_the_home(
    environment: dict[str, str], home: HomeAssistant, tmp_path: Path
) -> None:
    with home.talk() as talk:
        talk.ask(
            type="config/area_registry/create",
            name="Scullery",
            aliases=["Back kitchen"],
        )
        talk.ask(type="input_boolean/create", name="Gutmann lamp")
        talk.ask(
            type="config/entity_registry/update",
            entity_id="input_boolean.gutmann_lamp",
            aliases=["Old lamp"],
        )
        talk.ask(
            type="homeassistant/expose_entity",
            assistants=["conversation"],
            entity_ids=["input_boolean.gutmann_lamp"],
            should_expose=True,
        )
        token = talk.ask(
            type="auth/long_lived_access_token", client_name="names", lifespan=1
        )
    token_file = tmp_path / "token"
    token_file.write_text(token)
    address = f"http://{home.address}"
    names = asyncio.run(fetch_names(HomeAssistantOptions(address, token_file)))
    assert {"Scullery", "Back kitchen", "Gutmann lamp", "Old lamp"} <= set(names)
    words = ("--wyoming", "tcp://127.0.0.1:0", "--home-assistant", address)
    with serve(
        environment, *words, "--home-assistant-token-file", token_file
    ) as server:
        assert int(server.wait_for(r"names of Home Assistant: (\d+)")) == len(names)
