"""Runs with a known answer, on a stand-in that answers rightly and wrongly."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoints import TOY, config_of, random_arrays, write_checkpoint
from tests.standin.make_hef import write_hefs
from tests.unit.backends.hailo.conftest import Hefs, mel_of
from whisper_hailo.backends import select as select_module
from whisper_hailo.backends.hailo.hef_parts import HefEncoder
from whisper_hailo.backends.hailo.kept_answers import ANSWERS_FILE
from whisper_hailo.backends.hailo.known_answer import ask, require_known_answer
from whisper_hailo.backends.onnx import OnnxEncoder
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.backends.select import select
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import DeviceLostError, WrongAnswerError
from whisper_hailo.core.spec import ModelSpec


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _require(hefs: Hefs, directory: Path, spec: ModelSpec) -> None:
    require_known_answer(HefEncoder(hefs.encoder, spec), directory, spec, 1)


def test_require_known_answer_asks_each_file_once(
    trial_machine: Any, hefs: Hefs, hailo_directory: Path, spec: ModelSpec, cache: Path
) -> None:
    _require(hefs, hailo_directory, spec)
    n_runs = trial_machine.counts["run"]
    assert n_runs == 4, "two recordings, and the silence behind each"
    _require(hefs, hailo_directory, spec)
    assert trial_machine.counts["run"] == n_runs
    (cache / ANSWERS_FILE).write_text("damaged")
    _require(hefs, hailo_directory, spec)
    assert trial_machine.counts["run"] == 2 * n_runs


def test_require_known_answer_leaves_the_chip_to_the_run(
    trial_machine: Any, hefs: Hefs, hailo_directory: Path, spec: ModelSpec
) -> None:
    """A driver that hangs on release would end the program before its output."""
    _require(hefs, hailo_directory, spec)
    with HefEncoder(hefs.encoder, spec) as encoder:
        encoder.encode(mel_of())
    assert trial_machine.counts["open"] == 1


def test_require_known_answer_of_other_release_asks_again(
    trial_machine: Any, hefs: Hefs, hailo_directory: Path, spec: ModelSpec
) -> None:
    _require(hefs, hailo_directory, spec)
    n_runs = trial_machine.counts["run"]
    trial_machine.set(version="4.22.0")  # which sets the counts to zero
    _require(hefs, hailo_directory, spec)
    assert trial_machine.counts["run"] == n_runs


def test_require_known_answer_from_earlier_version_asks_again(
    trial_machine: Any, hefs: Hefs, hailo_directory: Path, spec: ModelSpec, cache: Path
) -> None:
    """Answers without silence were kept before silence was measured."""
    _require(hefs, hailo_directory, spec)
    n_runs = trial_machine.counts["run"]
    path = cache / ANSWERS_FILE
    answers = json.loads(path.read_text())
    for answer in answers.values():
        del answer["silence"]
    path.write_text(json.dumps(answers))
    _require(hefs, hailo_directory, spec)
    assert trial_machine.counts["run"] == 2 * n_runs


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ("zeros", "all zero"),
        ("noise", "differ from run to run"),
        ("stale", "of the previous run"),
        ("axes", "look transposed: 1"),
        ("scale", "at 0.5 of their scale"),
        ("channel", "shifted by 1 channel"),
        ("nan", "not numbers"),
        ("mel_axes", "expects a transposed mel"),
    ],
)
def test_require_known_answer_names_wrong_answers(
    *,
    trial_machine: Any,
    hefs: Hefs,
    hailo_directory: Path,
    spec: ModelSpec,
    answers: str,
    expected: str,
) -> None:
    trial_machine.set(answers=answers)
    with pytest.raises(WrongAnswerError) as caught:
        _require(hefs, hailo_directory, spec)
    assert expected in str(caught.value)
    assert hefs.encoder.name in str(caught.value)
    trial_machine.set()
    _require(hefs, hailo_directory, spec)  # a wrong answer is not kept


def test_require_known_answer_recognises_another_model(
    trial_machine: Any, hailo_directory: Path, spec: ModelSpec, tmp_path: Path
) -> None:
    checkpoint = write_checkpoint(
        tmp_path / "ck", random_arrays(TOY, seed=7), config=config_of(TOY)
    )
    options = ConvertOptions("none", hailo=HailoOptions(window_s=2, decoder_length=16))
    convert_checkpoint(checkpoint, tmp_path / "model", options)
    other = Hefs(*write_hefs(tmp_path / "model", tmp_path / "hefs"))
    with pytest.raises(
        WrongAnswerError, match=r"encoder_hailo8l\.hef: .*another model"
    ):
        _require(other, hailo_directory, spec)


def test_require_known_answer_without_encoder_runs_nothing(
    trial_machine: Any, hefs: Hefs, hailo_directory: Path, spec: ModelSpec
) -> None:
    _require(hefs, hailo_directory, replace(spec, files={}))
    assert trial_machine.counts["run"] == 0


def test_require_known_answer_raises_errors_of_the_device(
    trial_machine: Any, hefs: Hefs, hailo_directory: Path, spec: ModelSpec
) -> None:
    trial_machine.set(faults={"open": {"0": "HAILO_DEVICE_NOT_CONNECTED"}})
    with pytest.raises(DeviceLostError):
        _require(hefs, hailo_directory, spec)


def test_ask_counts_noise_as_right(
    trial_machine: Any,
    hefs: Hefs,
    hailo_directory: Path,
    spec: ModelSpec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Noise of 8-bit numbers is no breach of the contract."""
    rng = np.random.default_rng(0)
    exact = OnnxEncoder.encode

    def rounded(encoder: OnnxEncoder, mel: Any) -> Any:
        features = exact(encoder, mel)
        varying = features - features.mean(axis=1, keepdims=True)
        noise = rng.standard_normal(features.shape)
        return features + 0.4 * varying.std() * noise.astype(np.float32)

    monkeypatch.setattr(OnnxEncoder, "encode", rounded)
    with HefEncoder(hefs.encoder, spec) as encoder:
        answer = ask(encoder, hailo_directory, spec, 1)
    assert answer.problem == ""
    assert answer.match.similarity < 0.97


@pytest.fixture
def too_noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chip's features are related to the CPU's, but not close."""
    rng = np.random.default_rng(0)
    exact = HefEncoder.encode

    def noisy(encoder: HefEncoder, mel: Any) -> Any:
        features = exact(encoder, mel)
        means = features.mean(axis=1, keepdims=True)
        varying = features - means
        noise = rng.standard_normal(features.shape).astype(np.float32) * varying.std()
        # Correlated by 0.7, at the same size.
        return means + 0.7 * varying + 0.71 * noise

    monkeypatch.setattr(HefEncoder, "encode", noisy)


@pytest.mark.usefixtures("too_noisy")
def test_require_known_answer_of_noise_warns_or_fails(
    *,
    trial_machine: Any,
    hefs: Hefs,
    hailo_directory: Path,
    spec: ModelSpec,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(WrongAnswerError, match="too noisy"):
        _require(hefs, hailo_directory, spec)
    n_runs = trial_machine.counts["run"]
    encoder = HefEncoder(hefs.encoder, spec)
    require_known_answer(encoder, hailo_directory, spec, 1, noise=True)
    assert "too noisy" in caplog.text
    assert trial_machine.counts["run"] == n_runs, (
        "noise is the file's: the answer is kept"
    )


@pytest.fixture
def auto_chip(hefs: Hefs, monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` finds a chip and the HEF, whose window is long enough."""
    monkeypatch.setattr(
        "whisper_hailo.backends.hailo.short_windows.why_cpu_is_better", lambda *_: ""
    )
    monkeypatch.setattr(select_module, "find_npu", lambda: ("hailo8l", "a chip"))
    monkeypatch.setattr(
        "whisper_hailo.backends.hailo.hef_catalog.fitting_encoder",
        lambda *_: (hefs.encoder, ""),
    )


@pytest.mark.usefixtures("auto_chip")
def test_select_auto_with_wrong_answers_takes_the_cpu(
    trial_machine: Any,
    hailo_directory: Path,
    spec: ModelSpec,
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = select(hailo_directory, spec, EngineOptions(), 1)
    assert engine.encoder.name == "hef-hailo8l"
    trial_machine.set(answers="axes", version="4.22.0")
    engine = select(hailo_directory, spec, EngineOptions(), 1)
    assert isinstance(engine.encoder, OnnxEncoder)
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "transposed" in record.message
    assert "\n" not in record.message


def test_select_hef_with_wrong_answers_fails(
    trial_machine: Any, hefs: Hefs, hailo_directory: Path, spec: ModelSpec
) -> None:
    trial_machine.set(answers="zeros")
    with pytest.raises(WrongAnswerError):
        select(hailo_directory, spec, EngineOptions(encoder=hefs.encoder), 1)
    with HefEncoder(hefs.encoder, spec) as encoder:  # the chip was given back
        assert not encoder.encode(mel_of()).any()
