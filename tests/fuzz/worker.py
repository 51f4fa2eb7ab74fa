"""A process that runs many inputs one after the other, and tells of each in a line of JSON.

python -m tests.fuzz.worker TARGET BASE SEED FIRST LAST
python -m tests.fuzz.worker TARGET BASE FILE...
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import traceback
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.target import (
    MEMORY,
    MOST_MIB,
    TRACE,
    Input,
    Result,
    Target,
    draw,
    judge,
    load,
)

_LIMITS = {
    resource.RLIMIT_NOFILE: 256,
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_FSIZE: 1 << 28,
    resource.RLIMIT_AS: 1 << 33,
}
_ALARMS = (b"Traceback (most recent", b"Exception ignored", b"never awaited")


def main(words: list[str]) -> None:
    """Prepare the target, and run what was asked for."""
    name = words[0]
    base = Path(words[1])
    os.environ |= {
        "WHISPER_HAILO_CACHE": str(base / "cache"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    out = os.fdopen(os.dup(1), "w", buffering=1)
    err = os.fdopen(os.dup(2), "w", buffering=1)
    noise = tempfile.TemporaryFile()  # noqa: SIM115 - until the process ends
    os.dup2(noise.fileno(), 1)
    os.dup2(noise.fileno(), 2)
    sys.excepthook = lambda *error: traceback.print_exception(*error, file=err)
    target = load(name)
    target.prepare(base)
    for kind, most in _LIMITS.items():
        resource.setrlimit(kind, (most, most))
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=base) as scratch:
        for key, one in _inputs(target, name, base, words[2:]):
            out.write(json.dumps({"begin": key}) + "\n")
            result, mib = _run(target, Path(scratch) / "case", base, one, noise)
            told: dict[str, Any] = {"end": key, "outcome": result.outcome, "mib": mib}
            told["descriptors"] = len(os.listdir("/proc/self/fd"))
            out.write(json.dumps(told | {"said": result.said[:600]}) + "\n")
        os.chdir(base)
    out.flush()
    os._exit(0)  # threads of a target do not keep it


def _inputs(
    target: Target, name: str, base: Path, words: list[str]
) -> Iterator[tuple[int | str, Input]]:
    if words and words[0].lstrip("-").isdigit():
        seed, first, last = map(int, words)
        for number in range(first, last):
            yield number, target.make(draw(name, seed, number), base)
        return
    for word in words:
        yield word, read_input(Path(word))


def read_input(path: Path) -> Input:
    """A kept input: `<hash>-<name>.z`."""
    return path.name.partition("-")[2].removesuffix(".z"), zlib.decompress(
        path.read_bytes()
    )


def _run(
    target: Target, folder: Path, base: Path, one: Input, noise: Any
) -> tuple[Result, int]:
    folder.mkdir()
    os.chdir(folder)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    result = judge(target, folder, base, one)
    mib = _peak_mib()
    os.lseek(noise.fileno(), 0, os.SEEK_SET)
    text = os.read(noise.fileno(), 1 << 20)
    os.ftruncate(noise.fileno(), 0)
    os.lseek(noise.fileno(), 0, os.SEEK_SET)
    if any(alarm in text for alarm in _ALARMS):
        result = Result(TRACE, text[-600:].decode("utf-8", "replace"))
    elif mib > MOST_MIB:
        result = Result(MEMORY, f"{mib} MiB, {result.outcome}: {result.said}")
    elif result.outcome == "internal" and b"internal error" in text:
        result = Result(result.outcome, text[-500:].decode("utf-8", "replace"))
    os.chdir(base)
    shutil.rmtree(folder, ignore_errors=True)
    return result, mib


def _peak_mib() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


if __name__ == "__main__":
    main(sys.argv[1:])
