"""Several models: chosen by name, loaded when asked for, released when idle or for others."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from wyoming.client import AsyncTcpClient
from wyoming.info import Describe, Info

from tests.fakes.micro_service import (
    DEMO,
    DEMO_TEXT,
    OPTIONS,
    SHORT,
    MicroService,
    client,
    run_server,
    transcribe,
)
from tests.fakes.speech_clients import (
    URL,
    heard,
    read_pcm,
    say,
    talk,
    wyoming_server,
)
from tests.patience import wait_for
from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.convert.model_cache import find_model
from whisper_hailo.core.errors import OptionError
from whisper_hailo.serve.errors import BusyError, UnknownModelError
from whisper_hailo.serve.options import LimitOptions, ListenOptions
from whisper_hailo.serve.request import RequestDefaults
from whisper_hailo.serve.served_model import ModelState, estimate_loaded_mib
from whisper_hailo.serve.service import TranscriptionService, make_service

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bundled model under another name."""
    directory, _ = find_model("micro", None)
    copy = tmp_path_factory.mktemp("models") / "other"
    shutil.copytree(directory, copy)
    spec = json.loads((copy / "model.json").read_text())
    (copy / "model.json").write_text(json.dumps(spec | {"name": "other"}))
    return copy


class Two(MicroService):
    """A service of two models, made as the command makes it."""

    def __init__(self, other: Path, limits: LimitOptions | None = None) -> None:
        names = ("micro", str(other))
        models = [
            (Transcriber.from_model(name, threads=1), RequestDefaults(OPTIONS))
            for name in names
        ]
        self.service = make_service(
            models, ListenOptions(model=names), limits or LimitOptions()
        )
        self.model = self.service.default
        self.metrics = self.service.metrics

    def open(self) -> Two:
        self.service.open()
        return self

    def close(self) -> None:
        self.service.close()

    def state(self, name: str) -> ModelState:
        return self.service.find_model(name).state


@pytest.fixture(scope="module")
def pair(other: Path) -> Iterator[Two]:
    with Two(other) as opened:
        yield opened


def test_model_not_first_is_loaded_by_first_request(other: Path) -> None:
    with Two(other) as pair:
        assert pair.state("micro") == ModelState.READY
        assert pair.state("other") == ModelState.RELEASED
        assert asyncio.run(pair.text(load_audio(DEMO), model="other")) == DEMO_TEXT
        assert pair.state("other") is ModelState.READY
        page = pair.metrics.render_page().decode()
        assert 'whisper_hailo_state{model="other",state="ready"} 1.0' in page


def test_transcriptions_model_field_chooses_the_model(
    pair: Two, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    web = client(pair)
    for name in ("other", "micro", "whisper-1", "gpt-4o-transcribe"):
        assert transcribe(web, model=name).status_code == 200
    assert [line.split("model=")[1].split()[0] for line in caplog.messages if "model=" in line] == [
        "other", "micro", "micro", "micro",
    ]  # fmt: skip
    answer = transcribe(web, model="nowhere")
    assert answer.status_code == 404
    assert "other" in answer.json()["error"]["message"]


def test_models_and_their_states_are_listed(pair: Two) -> None:
    web = client(pair)
    listed = [model["id"] for model in web.get("/v1/models").json()["data"]]
    assert listed == ["micro", "other", "whisper-1"]
    assert web.get("/v1/models/other").json()["id"] == "other"
    assert set(web.get("/ready").json()["models"]) == {"micro", "other"}
    assert web.get("/page/about.json").json()["models"] == ["micro", "other"]


def test_session_transcribe_name_chooses_the_model(
    pair: Two, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def ask() -> tuple[Info, str]:
        async with (
            wyoming_server(pair) as port,
            AsyncTcpClient("127.0.0.1", port) as wyoming,
        ):
            await wyoming.write_event(Describe().event())
            event = await wyoming.read_event()
            assert event is not None
            text = heard(await say(wyoming, read_pcm(DEMO), name="other"))
            return Info.from_event(event), text

    info, text = asyncio.run(ask())
    assert [model.name for model in info.asr[0].models] == ["micro", "other"]
    assert text == DEMO_TEXT
    assert any("model=other" in line for line in caplog.messages)


def test_session_holds_the_model_it_uses(pair: Two) -> None:
    queue = pair.service.find_model("other").queue
    with run_server(pair) as web, talk(web, URL + "&model=other") as said:
        assert queue.n_live == 1
        answer = said.update(transcription={"model": "micro"})
        assert answer["session"]["audio"]["input"]["transcription"]["model"] == "micro"
        assert queue.n_live == 0
        assert pair.model.queue.n_live == 1
    assert wait_for(lambda: not pair.model.queue.n_live)


def test_model_idle_is_released_unless_first(
    other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.serve.service.RELEASE_AFTER_S", 0.05)
    with Two(other) as pair:
        assert asyncio.run(pair.text(load_audio(SHORT), model="other"))
        assert wait_for(lambda: pair.state("other") is ModelState.RELEASED)
        assert pair.state("micro") is ModelState.READY


def test_model_memory_idle_model_makes_room(other: Path) -> None:
    needed = estimate_loaded_mib(find_model("micro", None)[1])
    with Two(other, LimitOptions(max_memory_mib=2 * needed - 1)) as pair:
        for name, released in (("other", "micro"), ("micro", "other")):
            assert asyncio.run(pair.text(load_audio(DEMO), model=name)) == DEMO_TEXT
            assert pair.state(name) == ModelState.READY
            assert pair.state(released) == ModelState.RELEASED


def test_model_memory_without_room_is_503_then_served(other: Path) -> None:
    needed = estimate_loaded_mib(find_model("micro", None)[1])
    with Two(other, LimitOptions(max_memory_mib=2 * needed - 1)) as pair:
        with pair.model.queue.count_live_stream():
            answer = transcribe(client(pair), model="other")
            assert answer.status_code == 503
            assert answer.headers["retry-after"]
            assert "--max-memory" in answer.json()["error"]["message"]
            with pytest.raises(BusyError):
                asyncio.run(pair.text(load_audio(SHORT), model="other"))
        assert asyncio.run(pair.text(load_audio(DEMO), model="other")) == DEMO_TEXT


def test_queue_refused_job_is_not_tried_again(
    other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = estimate_loaded_mib(find_model("micro", None)[1])
    with Two(other, LimitOptions(max_memory_mib=2 * needed - 1)) as pair:
        queue = pair.service.find_model("other").queue
        wait_for_more = queue.wait_for_more
        jobs = []

        def noted() -> bool:
            jobs.append(queue.next(n_free=1, idle=False))
            return wait_for_more()

        monkeypatch.setattr(queue, "wait_for_more", noted)
        with pair.model.queue.count_live_stream(), pytest.raises(BusyError):
            asyncio.run(pair.text(load_audio(SHORT), model="other"))
        assert wait_for(lambda: bool(jobs))
        assert jobs[0] is None


def test_make_service_model_beyond_memory_raises(other: Path) -> None:
    with pytest.raises(OptionError, match="--max-memory is 1"):
        Two(other, LimitOptions(max_memory_mib=1))


def test_service_two_models_of_one_name_raise(pair: Two) -> None:
    (model, _) = pair.service.models
    with pytest.raises(OptionError, match="--model"):
        TranscriptionService([model, model], pair.metrics, LimitOptions())


def test_find_model_by_typed_name_finds_it(pair: Two, other: Path) -> None:
    models = pair.service
    assert models.find_model(str(other)).name == "other"
    assert models.find_model("micro") is models.find_model(None) is models.default
    with pytest.raises(UnknownModelError):
        models.find_model("Other")


def test_estimate_loaded_mib_of_micro_is_small() -> None:
    spec = find_model("micro", None)[1]
    smaller = estimate_loaded_mib(spec)
    assert 0 < smaller < 100
