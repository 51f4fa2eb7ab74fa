"""The `doctor` command, on this machine and on simulated ones."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fakes.commands import missing_data
from whisper_hailo.backends import session as saturation
from whisper_hailo.cli.app import run
from whisper_hailo.cli.commands import doctor
from whisper_hailo.cli.doctor_hailo import Check
from whisper_hailo.core import process
from whisper_hailo.core.process import install_command


def test_doctor_failed_checks_have_advice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert doctor.doctor() == 0
    lines = capsys.readouterr().out.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.strip().startswith(("note", "broken")):
            assert following.strip().startswith("-> ")


def test_check_runtime_old_version_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    found = {"1.9.0": "broken", "1.29.1": "broken", "1.30.0": "ok", "1.31.0.dev2": "ok"}
    for version, status in found.items():
        monkeypatch.setattr(onnxruntime, "__version__", version)
        check = doctor.check_runtime()
        assert check.status == status
        assert version in check.found


def test_check_int8_names_processor_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "read_cpu_flags", lambda: {"avx2", "avx512_vnni"})
    monkeypatch.setattr(saturation, "saturates", lambda: False)
    monkeypatch.setattr(process, "has_float16_kernels", lambda: True)
    found = doctor.check_int8().found
    assert not missing_data(found, "avx512_vnni float16")
    several = {"i8mm", "avx_vnni", "asimddp", "avx512_vnni", "avx2"}
    monkeypatch.setattr(doctor, "read_cpu_flags", lambda: several)
    assert "asimddp, avx512_vnni, avx_vnni, i8mm" in doctor.check_int8().found
    monkeypatch.setattr(doctor, "read_cpu_flags", lambda: {"asimd"})
    assert "asimd" not in doctor.check_int8().found
    monkeypatch.setattr(saturation, "saturates", lambda: True)
    check = doctor.check_int8()
    assert (check.status, "no VNNI" in check.found) == ("ok", True)


def test_check_cache_unwritable_is_broken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "not" / "yet"))
    assert doctor.check_cache().status == "ok"
    monkeypatch.setattr(doctor.os, "access", lambda _, wanted: wanted != os.W_OK)
    check = doctor.check_cache()
    assert check.status == "broken"
    assert "WHISPER_HAILO_CACHE" in check.advice


def test_check_cache_full_disk_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 100 * 2**20

    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _place: Usage)
    assert doctor.check_cache().status == "note"


def test_doctor_json_has_checks_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.doctor(as_json=True)
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [check["name"] for check in checks][:3] == [
        "Python",
        "ONNX Runtime",
        "processor",
    ]


MADE_UP = [
    Check("Python", "ok", "3.11"),
    Check("audio", "note", "odd", "mend it"),
    Check("cache", "broken", "full", "empty it"),
]


@pytest.mark.parametrize(("n_checks", "code"), [(1, 0), (2, 0), (3, 1)])
def test_doctor_prints_status_lines_and_exit_code(
    n_checks: int,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only a broken finding is a failure."""
    for name in ("runtime", "processor", "int8", "audio", "media", "cache"):
        monkeypatch.setattr(doctor, f"check_{name}", lambda: MADE_UP[0])
    monkeypatch.setattr(doctor, "check_python", lambda: MADE_UP[0])
    monkeypatch.setattr(
        "whisper_hailo.cli.doctor_hailo.hailo_checks", lambda: MADE_UP[1:n_checks]
    )
    assert run(["doctor"]) == code
    lines = capsys.readouterr().out.splitlines()
    odd = ["  note  audio: odd", "        -> mend it"] * (n_checks > 1)
    bad = ["broken  cache: full", "        -> empty it"] * (n_checks > 2)
    assert lines == ["    ok  Python: 3.11"] * 6 + odd + bad + ["    ok  Python: 3.11"]
    assert run(["doctor", "--json"]) == code
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert len(checks) == 6 + n_checks
    assert checks[0] == {
        "name": "Python",
        "status": "ok",
        "found": "3.11",
        "advice": "",
    }


def test_doctor_runs_all_checks(capsys: pytest.CaptureFixture[str]) -> None:
    run(["doctor", "--json"])
    names = [check["name"] for check in json.loads(capsys.readouterr().out)["checks"]]
    assert [name for name in names if "Hailo" not in name and name != "HEF files"] == [
        "Python", "ONNX Runtime", "processor", "8-bit models", "audio", "video and m4a",
        "throttling", "model cache",
    ]  # fmt: skip
    assert "Hailo binding" in names


def test_check_python_names_version_and_executable() -> None:
    check = doctor.check_python()
    assert check.status == "ok"
    assert sys.executable in check.found
    assert ".".join(map(str, sys.version_info[:3])) in check.found


@pytest.mark.parametrize(
    ("features", "status", "named"),
    [
        ({"avx2", "sse", "avx512_vnni"}, "ok", "3 cores, avx2, avx512_vnni"),
        ({"asimd", "asimddp", "fp"}, "ok", "3 cores, asimd, asimddp"),
        ({"asimd", "fp"}, "note", "3 cores, asimd"),
        (set(), "note", "3 cores, no known vector extension"),
    ],
)
def test_check_processor_names_cores_and_features(
    monkeypatch: pytest.MonkeyPatch, features: set[str], status: str, named: str
) -> None:
    monkeypatch.setattr(doctor, "read_cpu_flags", lambda: features)
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda _: {0, 1, 5})
    check = doctor.check_processor()
    assert (check.status, check.found) == (status, named)
    assert bool(check.advice) == (status == "note")


@pytest.mark.parametrize(
    "text",
    [
        "processor\t: 0\nflags\t\t: fpu avx2\nbugs\t\t: mds\nprocessor : 1\nflags : fpu avx2 i8mm",
        "processor\t: 0\nFeatures\t: fpu avx2 i8mm\nBogoMIPS\t: 108.00",
    ],
)
def test_read_cpu_flags_parses_cpuinfo(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: text)
    assert doctor.read_cpu_flags() == {"fpu", "avx2", "i8mm"}


def test_read_cpu_flags_without_cpuinfo_is_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert doctor.read_cpu_flags() == set()


@pytest.mark.parametrize(
    ("package", "check", "named"),
    [
        ("onnxruntime", "check_runtime", "ONNX Runtime"),
        ("soundfile", "check_audio", "audio"),
        ("soxr", "check_audio", "audio"),
    ],
)
def test_check_of_missing_package_is_broken(
    monkeypatch: pytest.MonkeyPatch, package: str, check: str, named: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    found = getattr(doctor, check)()
    assert (found.name, found.status) == (named, "broken")
    assert package in found.found
    assert (
        f"pip install --force-reinstall {package}".split()[:3]
        == found.advice.split()[:3]
    )


def test_check_audio_without_libsndfile_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Nowhere:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "soundfile":
                raise OSError("sndfile library not found")

    monkeypatch.delitem(sys.modules, "soundfile", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Nowhere(), *sys.meta_path])
    check = doctor.check_audio()
    assert (check.status, check.found) == ("broken", "sndfile library not found")


def test_check_int8_without_runtime_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> bool:
        raise ImportError("no runtime")

    monkeypatch.setattr(saturation, "saturates", fail)
    check = doctor.check_int8()
    assert (check.status, "no runtime" in check.found) == ("broken", True)


def test_check_int8_names_float_type_of_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for half, rest in ((True, "float16"), (False, "float32")):
        monkeypatch.setattr(process, "has_float16_kernels", lambda half=half: half)
        for pairs in (True, False):
            monkeypatch.setattr(saturation, "saturates", lambda pairs=pairs: pairs)
            assert doctor.check_int8().found.endswith(rest)


def test_check_audio_names_versions() -> None:
    import soundfile
    import soxr

    found = doctor.check_audio()
    assert found.status == "ok"
    assert soundfile.__libsndfile_version__ in found.found
    assert f"soxr {soxr.__version__}" in found.found


def test_check_media_without_pyav_names_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor, "find_spec", lambda name: None if name == "av" else name
    )
    check = doctor.check_media()
    assert check.status == "note"
    assert install_command("media") in check.advice
    monkeypatch.setattr(
        doctor, "find_spec", lambda name: name if name == "av" else None
    )
    monkeypatch.setattr(doctor.metadata, "version", lambda name: f"17 of {name}")
    check = doctor.check_media()
    assert (check.status, check.found) == ("ok", "PyAV 17 of av")


def test_check_cache_names_free_space(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One that holds half a model is too little; so is a file in the folder's place."""
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "a" / "b"))
    folders: list[Path] = []

    def usage(folder: Path) -> object:
        folders.append(folder)
        return SimpleNamespace(free=free)

    monkeypatch.setattr(doctor.shutil, "disk_usage", usage)
    for free, status in ((3 << 29, "ok"), (1 << 30, "ok"), ((1 << 30) - 1, "note")):
        check = doctor.check_cache()
        assert check.status == status
        assert check.found == f"{tmp_path}/a/b, {free / 2**30:.1f} GiB free"
        assert bool(check.advice) == (status == "note")
    assert set(folders) == {tmp_path}, "the disk is that of what is there"
    (tmp_path / "a").touch()
    check = doctor.check_cache()
    assert (check.status, check.found) == (
        "broken",
        f"{tmp_path}/a/b, but {tmp_path}/a is not a folder",
    )
    assert "WHISPER_HAILO_CACHE" in check.advice
