from pathlib import Path

import pytest

from whisper_hailo.backends import saturation
from whisper_hailo.cli.commands import doctor
from whisper_hailo.core import processor


def test_every_check_that_is_not_ok_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.doctor() == 0
    lines = capsys.readouterr().out.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.strip().startswith((doctor.NOTE, doctor.BROKEN)):
            assert following.strip().startswith("-> ")


def test_a_runtime_that_is_too_old_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    found = {"1.9.0": "broken", "1.29.1": "broken", "1.30.0": "ok", "1.31.0.dev2": "ok"}
    for version, status in found.items():
        monkeypatch.setattr(onnxruntime, "__version__", version)
        check = doctor._runtime()
        assert check.status == status
        assert version in check.found


def test_what_8_bits_are_computed_in_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_cpu_flags", lambda: {"avx2", "avx512_vnni"})
    monkeypatch.setattr(saturation, "saturates", lambda: False)
    monkeypatch.setattr(processor, "computes_in_half", lambda: True)
    assert doctor._small_numbers().found == "exact, by avx512_vnni; the rest in float16"
    monkeypatch.setattr(doctor, "_cpu_flags", lambda: {"asimd"})
    assert "without dot products" in doctor._small_numbers().found
    monkeypatch.setattr(saturation, "saturates", lambda: True)
    check = doctor._small_numbers()
    assert (check.status, "without VNNI" in check.found) == ("ok", True)
    assert "--encoder-quantize int8" in check.advice


def test_a_cache_that_cannot_be_written_is_broken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "not" / "yet"))
    assert doctor._cache().status == "ok"
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    check = doctor._cache()
    assert check.status == "broken"
    assert "WHISPER_HAILO_CACHE" in check.advice


def test_a_full_cache_disk_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 100 * 2**20

    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _place: Usage)
    assert doctor._cache().status == "note"


def test_json_carries_the_same_checks(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    doctor.doctor(as_json=True)
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [check["name"] for check in checks][:3] == ["Python", "ONNX Runtime", "processor"]
