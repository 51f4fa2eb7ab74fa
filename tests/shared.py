"""What takes long is made once in a run, by the first of its processes that needs it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from filelock import FileLock

from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.transcription.longform.options import LongOptions


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """A folder that is whole, or made; whoever reads it leaves it as it is."""
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)  # of one that failed
            make(unfinished)
            unfinished.rename(folder)
    return folder


def converted(
    shared: Path, checkpoint: Path, options: ConvertOptions | None = None
) -> Path:
    """A model directory of a checkpoint, told from others by all that goes into it."""
    options = options or ConvertOptions("none")
    content = hashlib.sha256(repr(options).encode())
    for path in sorted(checkpoint.iterdir()):
        content.update(
            f"{path.name} {path.stat().st_size} ".encode() + path.read_bytes()
        )
    name = f"{checkpoint.name}-{content.hexdigest()[:16]}"
    return made_once(
        shared / name, lambda out: convert_checkpoint(checkpoint, out, options)
    )


WHOLE_WINDOWS: Final = LongOptions("consecutive", trim_window=False, skip_silence=False)
"""As the reference programs cut recordings: whole windows, silence and all."""
