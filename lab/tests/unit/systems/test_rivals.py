"""Adapters against stand-ins of their packages, which hold the calls that the adapters rely on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests import moonshine_stand_in
from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.experiments.bench import plan_machine
from whisper_hailo_lab.runs.records import Case, Row
from whisper_hailo_lab.systems.ours import Ours
from whisper_hailo_lab.systems.protocol import Loading, System
from whisper_hailo_lab.systems.table import SYSTEMS, find_system

AUDIO = np.zeros(16_000, np.float32)
OWN = ("ours",)
IN_PROCESS = [
    name for name, known in SYSTEMS.items() if known.module and name not in OWN
]


def watch(component: str, work: Any) -> Any:
    assert component == "model"
    return work()


def system(
    name: str, row: Row = "matched", path: str = "model", **settings: Any
) -> System:
    case = Case("x", name, row, threads=2, settings=settings)
    return find_system(name).make(Loading(case, path))


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(name: str, **members: Any) -> None:
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
        if "." in name:
            parent = name.partition(".")[0]
            monkeypatch.setitem(sys.modules, parent, ModuleType(parent))

    return put


@pytest.mark.parametrize("name", IN_PROCESS)
def test_missing_package_names_its_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (
        "faster_whisper",
        "pywhispercpp",
        "pywhispercpp.model",
        "moonshine_voice",
    ):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(WhisperHailoError, match=rf"requirements/{name}\.txt"):
        system(name).open(watch)


@pytest.mark.parametrize("name", SYSTEMS)
def test_extras_and_scripts_exist(name: str) -> None:
    root = Path(__file__).parents[4]
    known = SYSTEMS[name]
    if known.script:
        assert (root / "lab" / "benchmarks" / "rivals" / known.script).is_file()
    elif name not in OWN:
        assert f"\n{name} = [" in (root / "lab" / "pyproject.toml").read_text(
            encoding="utf-8"
        )


def recorded(kind: type, models: list[Any]) -> Any:
    """Load models of a kind, which are appended to `models`."""

    def load(*args: Any, **options: Any) -> Any:
        models.append(kind(*args, **options))
        return models[-1]

    return load


class FasterWhisperModel:
    """Lazily yields segments; encodes and extracts through members that can be replaced."""

    def __init__(self, path: str, **options: Any) -> None:
        self.made_with = {"path": path} | options
        self.feature_extractor = lambda audio: audio[:80]
        self.asked: dict[str, Any] = {}

    def encode(self, features: Any) -> Any:
        return features

    def transcribe(self, audio: Any, **options: Any) -> Any:
        self.asked = options

        def segments() -> Any:
            self.encode(self.feature_extractor(audio))
            yield SimpleNamespace(text=" Hello", tokens=[1, 2])
            yield SimpleNamespace(text=" there.", tokens=[3])

        return segments(), SimpleNamespace(language="en")


def test_faster_whisper(install: Any) -> None:
    models: list[Any] = []
    install("faster_whisper", WhisperModel=recorded(FasterWhisperModel, models))
    made = system("faster-whisper", "study")
    heard_as = made.open(watch)
    heard = made.transcribe(AUDIO, "en")
    assert (heard.text, heard.n_tokens, heard.runaway) == ("Hello there.", 3, None)
    assert set(heard.stages_ms) == {"mel", "encode", "decode"}
    assert all(ms >= 0 for ms in heard.stages_ms.values())
    # Halved with 4 more.
    assert (heard_as["beam_size"], heard_as["max_new_tokens"]) == (1, 52)
    (model,) = models
    assert model.made_with == {
        "path": "model", "device": "cpu", "compute_type": "int8", "cpu_threads": 2,
    }  # fmt: skip
    assert (model.asked["language"], model.asked["temperature"]) == ("en", 0.0)


def test_default_row_leaves_a_package_its_defaults(install: Any) -> None:
    models: list[Any] = []
    install("faster_whisper", WhisperModel=recorded(FasterWhisperModel, models))
    made = system("faster-whisper", "default", compute_type="float32")
    assert made.open(watch) == {"engine": "CTranslate2", "compute_type": "float32"}
    made.transcribe(AUDIO, "de")
    assert [model.asked for model in models] == [{"language": "de"}]


class WhisperCppModel:
    def __init__(self, path: str, **options: Any) -> None:
        self.made_with = options

    def transcribe(self, audio: Any, **options: Any) -> Any:
        return [
            SimpleNamespace(text=f" {audio.size}"),
            SimpleNamespace(text=options["language"]),
        ]


def test_whisper_cpp(install: Any) -> None:
    models: list[Any] = []
    install("pywhispercpp.model", Model=recorded(WhisperCppModel, models))
    made = system("whisper-cpp", "study", audio_ctx=500)
    made.open(watch)
    assert made.transcribe(AUDIO, "de").text == "16000 de"
    options = models[0].made_with
    assert (options["n_threads"], options["max_tokens"], options["audio_ctx"]) == (
        2,
        27,
        500,
    )
    assert (options["temperature_inc"], options["greedy"]) == (0.0, {"best_of": 1})
    default = system("whisper-cpp", "default")
    assert "greedy" not in default.open(watch)


def test_moonshine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    moonshine_stand_in.install(monkeypatch)
    folder = moonshine_stand_in.write_weights(tmp_path / "tiny-en")
    made = system("moonshine", path=str(folder), size="tiny")
    assert made.open(watch)["size"] == "tiny"
    heard = made.transcribe(np.zeros(70 * 16_000, np.float32), "en")
    assert len(heard.text.split()) == 639 + 60, "64 s and the rest"
    assert heard.n_tokens is None
    with pytest.raises(OptionError, match="'de'"):
        made.transcribe(AUDIO, "de")
    with pytest.raises(OptionError, match="expected one of"):
        system("moonshine", size="huge").open(watch)
    with pytest.raises(OptionError, match="'study'"):
        system("moonshine", "study", path=str(folder)).open(watch)


@pytest.mark.slow
def test_ours_through_the_worker_protocol() -> None:
    made = system("ours", path="micro", quantize="int8", pad_to=700)
    seen: list[str] = []

    def noting(component: str, work: Any) -> Any:
        seen.append(component)
        return work()

    heard_as = made.open(noting)
    assert seen == ["encoder", "decoder"]
    assert heard_as["decoder"].removesuffix("-half") == "cached-int8"
    assert (heard_as["pad_to"], heard_as["threads"]) == (700, 2)
    made.warm_up(AUDIO, noting)
    assert seen.count("encoder") == 2  # open and one encode
    assert seen.count("decoder") > 2
    n_seen = len(seen)
    heard = made.transcribe(AUDIO, "en")
    assert len(seen) == n_seen  # nothing is watched while it is timed
    assert set(heard.stages_ms) == {"mel", "encode", "cross_kv", "decode"}
    assert heard.runaway is not None
    made.close()


def heard_watch(_: str, work: Any) -> Any:
    return work()


def settings(row: Row) -> dict[str, Any]:
    """What the first case of ours in a row hears with."""
    cases = plan_machine("micro", threads=1)
    case = next(case for case in cases if (case.system, case.row) == ("ours", row))
    ours = Ours(Loading(case, "micro"))
    try:
        return ours.open(heard_watch)
    finally:
        ours.close()


def test_default_row_is_what_somebody_gets_who_types_nothing() -> None:
    plain = Transcriber.from_model("micro", threads=1)
    options = replace(plain.default_options, language="en")
    wanted = plain.settings(options)
    found = settings("default")
    assert found == {name: getattr(wanted, name) for name in wanted.__slots__}
    assert (found["encoder"], found["quantization"]) == ("onnx-int8", "int8")


def test_matched_row_has_one_temperature_as_its_rivals_have() -> None:
    assert settings("default")["search"] != settings("matched")["search"]
