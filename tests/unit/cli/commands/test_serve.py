"""The `serve` command: refusals before it loads a model, and the server that it makes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.commands import given, missing_data
from tests.unit.cli.commands.test_transcribe_options import Listener
from whisper_hailo.backends.options import ChipPriority
from whisper_hailo.cli.app import run
from whisper_hailo.cli.transcribe_options import ModelOptions
from whisper_hailo.core import process
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.serve.options import Address, ListenOptions, SafetyOptions
from whisper_hailo.transcription.longform.options import LongOptions


def test_serve_missing_extra_is_refused_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = process.find_spec
    monkeypatch.setattr(
        process, "find_spec", lambda name: None if name == "fastapi" else found(name)
    )
    assert run(["serve", "--model", "nowhere"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert not missing_data(line, "fastapi requirements/server.txt")


def test_serve_missing_model_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("fastapi", reason="the server extra is not installed")
    assert run(["serve", "--model", "./nowhere", "--http", "127.0.0.1:0"]) == 4
    assert len(capsys.readouterr().err.splitlines()) == 1


class Served:
    """Stand-ins for the parts of a server, with the arguments of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.listener = Listener()
        self.happened: list[str] = []
        self.models: list[ModelOptions] = []
        self.priorities: list[ChipPriority] = []
        self.bound: list[tuple[ListenOptions, bool]] = []
        self.made: list[tuple[Any, ...]] = []
        self.served: list[tuple[Any, dict[str, Any]]] = []
        self.checked: list[tuple[DecodingOptions, LongOptions]] = []
        monkeypatch.setattr(ModelOptions, "transcriber", self._transcriber())
        monkeypatch.setattr(
            Listener, "check", lambda _, *given: self.checked.append(given)
        )
        for name, stands in (
            ("server.bind_addresses", self._bound), ("service.make_service", self._service),
            ("server.run_server", self._serve),
        ):  # fmt: skip
            monkeypatch.setattr(f"whisper_hailo.serve.{name}", stands)

    def _transcriber(self) -> Any:
        def make(options: ModelOptions, priority: ChipPriority) -> Listener:
            self.models.append(options)
            self.priorities.append(priority)
            return self.listener

        return make

    @contextlib.contextmanager
    def _bound(self, listen: ListenOptions, *, tls: bool) -> Iterator[str]:
        self.bound.append((listen, tls))
        yield "listeners"

    def _service(self, *given: Any) -> Any:
        self.made.append(given)
        return self

    async def _serve(self, *given: Any, **named: Any) -> None:
        self.served.append((given, named))
        named["serving"]("http://127.0.0.1:9000")
        self.happened.append("served")

    def __enter__(self) -> None:
        self.happened.append("open")

    def __exit__(self, *_: object) -> None:
        self.happened.append("closed")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Served:
    pytest.importorskip("fastapi", reason="the server extra is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "whisper_hailo.cli.commands.serve.release_freed_memory", lambda: None
    )
    return Served(monkeypatch)


def test_serve_options_reach_their_parts(
    served: Served, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """By the command, the environment's part of which is in `test_settings.py`."""
    served.listener.reasons = ("encoder a: why",)
    words = (
        "serve --http 127.0.0.1:9000 --alias w --model base --threads 2 --language de "
        "--initial-prompt hello --beam-size 3 --fallback 0.5 --queue 7 --rate 5 "
        "--allow-host a.b --api-key secret | drain = 3; trim-window = true"
    )
    assert run(given(words, tmp_path)) == 0
    ((listen, tls),) = served.bound
    assert (listen.http, listen.wyoming, listen.alias, listen.drain_s) == (
        Address("127.0.0.1", 9000), None, ("w",), 3.0,
    )  # fmt: skip
    assert tls is False
    assert [(model.model, model.threads) for model in served.models] == [("base", 2)]
    assert served.priorities == [ChipPriority.LIVE], "streams go before files"
    ((models, same_listen, limits),) = served.made
    ((transcriber, defaults),) = models
    options = defaults.options
    long = defaults.long
    assert transcriber is served.listener
    assert (options.language, options.prompts.initial_prompt) == ("de", "hello")
    assert (options.search.beam_size, options.search.temperatures) == (
        3,
        (0.0, 0.5, 1.0),
    )
    assert served.checked == [(options, long)]
    assert long.trim_window
    assert (limits.queue, limits.rate) == (7, 5)
    assert same_listen is listen
    assert defaults.fallback == 0.5
    (((service, listeners), named),) = served.served
    assert (service, listeners) == (served, "listeners")
    assert named["listen"] is listen
    assert named["safety"] == SafetyOptions(api_key=("secret",), allow_host=("a.b",))
    assert served.happened == ["open", "served", "closed"]
    engine, address = capsys.readouterr().err.splitlines()
    assert engine.endswith("encoder a")
    assert address.endswith("http://127.0.0.1:9000")


@pytest.mark.parametrize(
    ("words", "http", "wyoming"),
    [
        ("", Address("127.0.0.1", 8000), None),
        ("--wyoming tcp://0.0.0.0:10300", None, Address("0.0.0.0", 10300)),  # noqa: S104
        ("--wyoming 127.0.0.1:1 --http 127.0.0.1:2", Address("127.0.0.1", 2),
         Address("127.0.0.1", 1)),
    ],
)  # fmt: skip
def test_serve_without_address_listens_on_localhost(
    served: Served, words: str, http: Address | None, wyoming: Address | None
) -> None:
    assert run(["serve", *words.split()]) == 0
    assert [(listen.http, listen.wyoming) for listen, _ in served.bound] == [
        (http, wyoming)
    ]


def test_serve_fallback_defaults_to_decoder_s(served: Served) -> None:
    served.listener.default_fallback = 0.4  # type: ignore[misc]
    assert run(["serve"]) == 0
    ((((_, defaults),), *_),) = served.made
    assert defaults.options.search.temperatures == (0.0, 0.4, 0.8)
    assert defaults.fallback == 0.4


@pytest.mark.parametrize(
    ("words", "code", "data"),
    [
        ("--api-key-file none", 2, "--api-key-file none"),
        (
            "--tls-cert c.pem --tls-key k.pem",
            2,
            "--tls-cert --tls-key",
        ),
        ("--fallback 3", 2, "--fallback 3"),
        ("--beam-size 0", 2, "--beam-size 0"),
        (
            "--config none.toml",
            2,
            "--config none.toml",
        ),
        ("--config /dev/zero", 2, "--config /dev/zero"),
        ("--api-key-file /dev/zero", 2, "--api-key-file /dev/zero"),
        ("--rate=-1", 2, "--rate -1"),
        ("--window 31", 2, "--window 31"),
    ],
)
def test_serve_wrong_option_is_refused_before_loading(
    served: Served, words: str, code: int, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", *words.split()]) == code
    assert not missing_data(capsys.readouterr().err, data)
    assert served.models == served.bound == []


def test_serve_reads_environment_and_config(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("serve.toml").write_text(
        'model = "small"\nqueue = 9\nlanguage = "de"\ntrim-window = true\napi-key = ["k"]\n'
        'alias = ["other"]\n'
    )
    monkeypatch.setenv("WHISPER_HAILO_SERVE_RATE", "4")
    monkeypatch.setenv("WHISPER_HAILO_SERVE_ALIAS", "")
    monkeypatch.setenv("WHISPER_HAILO_SERVE_BEAM_SIZE", "3")
    assert run(["serve", "--config", "serve.toml", "--queue", "8"]) == 0
    ((listen, _),) = served.bound
    ((_, defaults),), _, limits = served.made[0]
    assert listen.alias == ("other",), "a variable that is empty says nothing"
    assert (defaults.options.language, defaults.long.trim_window) == ("de", True)
    assert defaults.options.search.beam_size == 3
    assert (limits.queue, limits.rate) == (8, 4)
    assert served.models[0].model == "small"
    assert served.served[0][1]["safety"].api_key == ("k",)


@pytest.mark.parametrize("source", ["words", "environment", "file"])
def test_serve_several_models_from_any_source(
    served: Served, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    words = ["--max-memory", "500"]
    if source == "words":
        words += ["-m", "base", "--model", "tiny.en"]
    elif source == "environment":
        monkeypatch.setenv("WHISPER_HAILO_SERVE_MODEL", "base,tiny.en")
    else:
        Path("serve.toml").write_text('model = ["base", "tiny.en"]\n')
        words += ["--config", "serve.toml"]
    assert run(["serve", *words]) == 0
    assert [model.model for model in served.models] == ["base", "tiny.en"]
    (models, listen, limits) = served.made[0]
    assert (len(models), listen.model, limits.max_memory_mib) == (
        2,
        ("base", "tiny.en"),
        500,
    )


def test_serve_with_certificate_uses_tls(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.serve.options.make_tls_context", lambda *_: None)
    assert run(["serve", "--tls-cert", "c.pem", "--tls-key", "k.pem"]) == 0
    assert [tls for _, tls in served.bound] == [True]


def test_serve_releases_freed_memory(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(
        "whisper_hailo.cli.commands.serve.release_freed_memory",
        lambda: calls.append("release"),
    )
    assert run(["serve"]) == 0
    assert calls == ["release"]
    assert served.served
