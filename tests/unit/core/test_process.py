"""Which processors compute in float16, and how many cores there are."""

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from whisper_hailo.core import process
from whisper_hailo.core.process import has_float16_kernels

PI_5 = "Features\t: fp asimd evtstrm aes crc32 atomics fphp asimdhp cpuid asimddp\n"
PI_4 = "Features\t: fp asimd evtstrm crc32 cpuid\n"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    has_float16_kernels.cache_clear()
    yield
    has_float16_kernels.cache_clear()


@pytest.mark.parametrize(
    ("named", "cpuinfo", "expected"),
    [
        (("aarch64", "Linux"), PI_5, True),
        (("aarch64", "Linux"), PI_4, False),
        (("aarch64", "Linux"), "model name : asimdhp\n", False),
        (("aarch64", "Linux"), f"Model\t: \xff\n{PI_5}", True),
        (("aarch64", "Linux"), None, False),
        (("x86_64", "Linux"), PI_5, False),
        (("arm64", "Darwin"), PI_5, False),
    ],
)
def test_arm_processors_say_so_themselves(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    named: tuple[str, str],
    cpuinfo: str | None,
    expected: bool,
) -> None:
    path = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        path.write_text(f"process\t: 0\n{cpuinfo}", encoding="latin-1")
    monkeypatch.setattr(process, "CPUINFO", path)
    monkeypatch.setattr(platform, "machine", lambda: named[0])
    monkeypatch.setattr(platform, "system", lambda: named[1])
    assert has_float16_kernels() is expected


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 4, 9} if pid == 0 else {1})
    assert process.available_cores() == 3
