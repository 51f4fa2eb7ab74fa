"""Adapters of other programs, tested with stand-ins of their packages."""

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
from whisper_hailo_lab.repository import SOURCES
from whisper_hailo_lab.runs.records import Case, Row
from whisper_hailo_lab.systems import process
from whisper_hailo_lab.systems.ours import Ours
from whisper_hailo_lab.systems.protocol import Loading, System
from whisper_hailo_lab.systems.table import SYSTEMS, find_system

AUDIO = np.zeros(16_000, np.float32)
WITHOUT_EXTRA = ("ours",)
IN_PROCESS = [
    name
    for name, system_entry in SYSTEMS.items()
    if system_entry.module and name not in WITHOUT_EXTRA
]


def watch(component: str, work: Any) -> Any:
    assert component == "model"
    return work()


def system(
    name: str, row: Row = "matched", path: str = "model", **open_settings: Any
) -> System:
    case = Case("x", name, row, threads=2, settings=open_settings)
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
def test_system_missing_package_names_its_extra(
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
def test_system_extras_and_scripts_exist(name: str) -> None:
    root = Path(__file__).parents[4]
    system_entry = SYSTEMS[name]
    if system_entry.script:
        assert (root / "lab" / "benchmarks" / "rivals" / system_entry.script).is_file()
    elif name not in WITHOUT_EXTRA:
        assert f"\n{name} = [" in (root / "lab" / "pyproject.toml").read_text(
            encoding="utf-8"
        )


def record_models(kind: type, models: list[Any]) -> Any:
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
        self.options: dict[str, Any] = {}

    def encode(self, features: Any) -> Any:
        return features

    def transcribe(self, audio: Any, **options: Any) -> Any:
        self.options = options

        def segments() -> Any:
            self.encode(self.feature_extractor(audio))
            yield SimpleNamespace(text=" Hello", tokens=[1, 2])
            yield SimpleNamespace(text=" there.", tokens=[3])

        return segments(), SimpleNamespace(language="en")


def test_faster_whisper_study_row_sets_options(install: Any) -> None:
    models: list[Any] = []
    install("faster_whisper", WhisperModel=record_models(FasterWhisperModel, models))
    opened_system = system("faster-whisper", "study")
    settings_used = opened_system.open(watch)
    result = opened_system.transcribe(AUDIO, "en")
    assert result.text == "Hello there."
    assert result.n_tokens == 3
    assert result.runaway is None
    assert set(result.stages_ms) == {"mel", "encode", "decode"}
    assert all(ms >= 0 for ms in result.stages_ms.values())
    # The prompt's 4 tokens count.
    assert settings_used["beam_size"] == 1
    assert settings_used["max_new_tokens"] == 52
    (model,) = models
    assert model.made_with == {
        "path": "model", "device": "cpu", "compute_type": "int8", "cpu_threads": 2,
    }  # fmt: skip
    assert model.options["language"] == "en"
    assert model.options["temperature"] == 0.0


def test_faster_whisper_default_row_sets_no_options(install: Any) -> None:
    models: list[Any] = []
    install("faster_whisper", WhisperModel=record_models(FasterWhisperModel, models))
    opened_system = system("faster-whisper", "default", compute_type="float32")
    assert opened_system.open(watch) == {
        "engine": "CTranslate2",
        "compute_type": "float32",
    }
    opened_system.transcribe(AUDIO, "de")
    assert [model.options for model in models] == [{"language": "de"}]


class WhisperCppModel:
    def __init__(self, path: str, **options: Any) -> None:
        self.made_with = options

    def transcribe(self, audio: Any, **options: Any) -> Any:
        return [
            SimpleNamespace(text=f" {audio.size}"),
            SimpleNamespace(text=options["language"]),
        ]


def test_whisper_cpp_study_row_sets_options(install: Any) -> None:
    models: list[Any] = []
    install("pywhispercpp.model", Model=record_models(WhisperCppModel, models))
    opened_system = system("whisper-cpp", "study", audio_ctx=500)
    opened_system.open(watch)
    assert opened_system.transcribe(AUDIO, "de").text == "16000 de"
    options = models[0].made_with
    assert options["n_threads"] == 2
    assert options["max_tokens"] == 27
    assert options["audio_ctx"] == 500
    assert options["temperature_inc"] == 0.0
    assert options["greedy"] == {"best_of": 1}
    default = system("whisper-cpp", "default")
    assert "greedy" not in default.open(watch)


def test_moonshine_transcribes_long_audio_in_parts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    moonshine_stand_in.install(monkeypatch)
    folder = moonshine_stand_in.write_weights(tmp_path / "tiny-en")
    opened_system = system("moonshine", path=str(folder), size="tiny")
    assert opened_system.open(watch)["size"] == "tiny"
    result = opened_system.transcribe(np.zeros(70 * 16_000, np.float32), "en")
    assert len(result.text.split()) == 639 + 60, "64 s and the rest"
    assert result.n_tokens is None
    with pytest.raises(OptionError, match="'de'"):
        opened_system.transcribe(AUDIO, "de")
    with pytest.raises(OptionError, match="'model'"):
        system("moonshine", size="huge").open(watch)
    with pytest.raises(OptionError, match="'study'"):
        system("moonshine", "study", path=str(folder)).open(watch)


@pytest.mark.slow
def test_ours_reports_components_and_stages() -> None:
    opened_system = system("ours", path="micro", quantize="int8", pad_to=700)
    components: list[str] = []

    def record_component(component: str, work: Any) -> Any:
        components.append(component)
        return work()

    settings_used = opened_system.open(record_component)
    assert components == ["encoder", "decoder"]
    assert settings_used["decoder"].removesuffix("-half") == "cached-int8"
    assert settings_used["pad_to"] == 700
    assert settings_used["threads"] == 2
    opened_system.warm_up(AUDIO, record_component)
    assert components.count("encoder") == 2  # open and one encode
    assert components.count("decoder") > 2
    n_seen = len(components)
    result = opened_system.transcribe(AUDIO, "en")
    assert len(components) == n_seen  # components are not watched while timed
    assert set(result.stages_ms) == {"mel", "encode", "cross_kv", "decode"}
    assert result.runaway is not None
    opened_system.close()


def run_component(_: str, work: Any) -> Any:
    return work()


def open_settings(row: Row) -> dict[str, Any]:
    """Return the settings of our first case in a row."""
    cases = plan_machine("micro", threads=1)
    case = next(case for case in cases if (case.system, case.row) == ("ours", row))
    ours = Ours(Loading(case, "micro"))
    try:
        return ours.open(run_component)
    finally:
        ours.close()


def test_ours_default_row_has_the_defaults() -> None:
    plain = Transcriber.from_model("micro", threads=1)
    options = replace(plain.default_options, language="en")
    defaults = plain.settings(options)
    row_settings = open_settings("default")
    assert row_settings == {
        name: getattr(defaults, name) for name in defaults.__slots__
    }
    assert row_settings["encoder"] == "onnx-int8"
    assert row_settings["quantization"] == "int8"


def test_ours_matched_row_has_another_search() -> None:
    assert open_settings("default")["search"] != open_settings("matched")["search"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(process.PYTHON_VARIABLE, str(tmp_path))
    return tmp_path


def test_system_command_without_environment_is_this_python(root: Path) -> None:
    assert process.system_command("whisper-cpp")[0] == sys.executable
    assert root.exists()


def test_system_command_prefers_its_environment(root: Path) -> None:
    python = root / "whisper-cpp" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("", encoding="utf-8")
    assert process.system_command("whisper-cpp")[0] == str(python)


def test_system_command_missing_environment_raises(root: Path) -> None:
    with pytest.raises(OptionError, match=f"{root}/openai-whisper"):
        process.system_command("openai-whisper")


def test_find_script_needs_a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert process.find_script("openai_whisper.py").is_file()
    monkeypatch.setattr(process, "RIVALS", Path("/nowhere"))
    with pytest.raises(OptionError, match="clone"):
        process.find_script("openai_whisper.py")


def test_make_environment_has_sources_and_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    variables = process.make_environment(2)
    assert variables["PYTHONPATH"].split(":") == [*map(str, SOURCES), "/mine"]
    assert variables["OMP_NUM_THREADS"] == "2"
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert "OMP_NUM_THREADS" not in process.make_environment(0)
