"""Trials of `doctor --chip`: findings and figures, on the stand-in's chip."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.checkpoints import write_checkpoint
from tests.shared import converted
from tests.standin import chip_here
from tests.standin.make_hef import write_hefs
from whisper_hailo.backends.hailo import decoder_positions
from whisper_hailo.cli import doctor_chip
from whisper_hailo.cli.doctor_chip import ChipReport, ChipTrialOptions, try_chip
from whisper_hailo.cli.doctor_hailo import BROKEN, NOTE, OK, Check
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import DeviceError, HefError
from whisper_hailo.core.spec import ModelSpec


@pytest.fixture(scope="module")
def directory(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy model with graphs of 2 s and 16 tokens."""
    checkpoint = write_checkpoint(tmp_path_factory.mktemp("toy") / "checkpoint")
    options = ConvertOptions("none", hailo=HailoOptions(window_s=2, decoder_length=16))
    return converted(shared, checkpoint, options)


@pytest.fixture(scope="module")
def hefs(
    directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    encoder, decoder = write_hefs(directory, tmp_path_factory.mktemp("hefs"))
    return encoder, decoder


class FakeTranscriber:
    """Transcribes every file to one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __enter__(self) -> FakeTranscriber:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def transcribe(self, _file: Path) -> Any:
        return SimpleNamespace(text=self.text)


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Texts with the chip's encoder and with the CPU's."""
    by_encoder = {"chip": "a quick brown fox", "cpu": "a quick brown fox"}

    def from_model(_model: str, *, window_s: float, engine: Any) -> FakeTranscriber:
        assert window_s == 2
        return FakeTranscriber(by_encoder["cpu" if engine.encoder is None else "chip"])

    fake = SimpleNamespace(from_model=from_model)
    monkeypatch.setattr(doctor_chip, "Transcriber", fake)
    return by_encoder


@pytest.fixture
def machine(
    directory: Path,
    texts: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Any]:
    """The stand-in's machine; trials in other processes have fixed results."""
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    spec = ModelSpec.load(directory)
    for name, fake in (
        ("find_model", lambda _: (directory, spec)),
        (
            "hailo_checks",
            lambda: [Check("driver", OK, "x"), Check("HEF files", OK, "x")],
        ),
        ("share_with_process", lambda _: 12.5),
        ("recover_after_kill", lambda _: 3.25),
        ("CAPTION_INTERVAL_S", 0.001),
    ):
        monkeypatch.setattr(doctor_chip, name, fake)
    monkeypatch.setattr(decoder_positions, "MIN_LOGPROB", -100.0)
    with chip_here(monkeypatch) as machine:
        machine.set(service=True)
        yield machine


def by_name(report: ChipReport) -> dict[str, Check]:
    return {check.name: check for check in report.checks}


def test_chip_report_attempt_keeps_the_errors_advice() -> None:
    report = ChipReport()

    def fail() -> None:
        raise DeviceError("it broke; so it did; see doctor")

    report.attempt("time", fail)
    report.attempt("sharing", lambda: report.add("sharing", "12 ms"))
    report.add("known text", "50 %", "use the CPU")
    assert report.checks == [
        Check("time", BROKEN, "it broke; so it did", "see doctor"),
        Check("sharing", OK, "12 ms", ""),
        Check("known text", NOTE, "50 %", "use the CPU"),
    ]
    assert report.to_dict()["checks"] == [asdict(check) for check in report.checks]


def test_chip_report_attempt_raises_errors_of_the_program() -> None:
    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        ChipReport().attempt("time", fail)


def test_try_chip_reports_every_trial(machine: Any, hefs: tuple[Path, Path]) -> None:
    encoder, decoder = hefs
    report = try_chip(ChipTrialOptions("toy", encoder, decoder))
    checks = by_name(report)
    assert list(checks) == [
        *("board", "driver", "HEF", "known answer", "known text"),
        *("time", "time, captions", "sharing", "recovery", "decoder"),
    ]
    assert [c for c in report.checks if c.status == BROKEN] == []
    assert encoder.name in checks["HEF"].found
    assert "12.5 ms" in checks["sharing"].found
    assert "3.2 s" in checks["recovery"].found
    figures = json.loads(json.dumps(report.to_dict()))["figures"]
    assert figures["hef"]["arch"] == "hailo8l"
    assert figures["answer"]["problem"] == ""
    assert figures["answer"]["mean_difference"] < 1e-4
    assert figures["times"]["alone"]["n_runs"] > 0
    assert set(figures["decoder"]["logprobs"]) == {"host", "chip"}


@pytest.mark.parametrize(
    ("text", "status"),
    [("a quick brown fix b", NOTE), ("a quick brown fox b", OK)],
)
def test_try_chip_with_other_words_advises_the_cpu(
    *,
    machine: Any,
    hefs: tuple[Path, Path],
    texts: dict[str, str],
    text: str,
    status: str,
) -> None:
    texts["chip"] = text
    check = by_name(try_chip(ChipTrialOptions("toy", hefs[0])))["known text"]
    assert check.status == status
    assert text in check.found


def test_try_chip_with_wrong_answers_is_broken(
    machine: Any, hefs: tuple[Path, Path]
) -> None:
    machine.set(service=True, answers="zeros")
    checks = by_name(try_chip(ChipTrialOptions("toy", hefs[0])))
    assert checks["known answer"].status == BROKEN
    assert checks["time"].status == OK, "the next trials go on"


def test_try_chip_of_broken_hef_ends_with_a_finding(
    machine: Any, tmp_path: Path
) -> None:
    path = tmp_path / "broken.hef"
    path.write_bytes(b"broken")
    last = try_chip(ChipTrialOptions("toy", path)).checks[-1]
    assert (last.name, last.status) == ("chip", BROKEN)
    assert str(path) in last.found


def test_try_chip_without_fitting_hef_keeps_its_error(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No model of the vendor's has the toy's name, so that nothing is fetched."""

    def fail(*_: object) -> Path:
        raise HefError("no HEF; give one")

    monkeypatch.setattr(doctor_chip, "needed_hef", fail)
    monkeypatch.setattr(doctor_chip, "chips", lambda: [SimpleNamespace(arch="hailo8l")])
    last = try_chip(ChipTrialOptions("toy")).checks[-1]
    assert last == Check("chip", BROKEN, "no HEF", "give one")
