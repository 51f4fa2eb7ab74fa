"""What `validate` runs: which rungs, on what input, within which tolerances."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from whisper_hailo.core.flags import expect, flag
from whisper_hailo.core.languages import language_code
from whisper_hailo.validate.limits import Limit, default_limit, parse_limits


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """What to validate with.

    Attributes:
        audio: folder of recordings; `None` is the bundled one.
        checkpoint: directory, hub id or name of what the model was converted from; `None` finds
            only the bundled one by itself.
        against: an ONNX graph that another program made of the same checkpoint.
        windows: windows of audio to run.
        language: what is spoken.
        limits: `RUNG-PART=VALUE` words that replace limits.

    Raises:
        OptionError: no windows, or a word that is no limit.
    """

    audio: Path | None = flag(
        None, "Folder of speech.", metavar="DIR", shown="the bundled recording"
    )
    checkpoint: str | None = flag(None, "What the model was converted from.", metavar="NAME")
    against: Path | None = flag(
        None, "Graph of another program to compare with instead.", metavar="ONNX"
    )
    windows: int = flag(4, "Windows of audio to run.")
    language: str = flag("en", "What is spoken.", short="-l", metavar="LANG")
    limits: tuple[str, ...] = flag(
        (), "Another limit; may be repeated.", name="--limit", metavar="RUNG-PART=X"
    )
    values: dict[tuple[str, str], float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", language_code(self.language))
        expect(self, "windows", self.windows >= 1, "1 or more")
        self.values.update(parse_limits(self.limits))

    def limit(self, rung: str, part: str, quantization: str = "none") -> Limit:
        """What one part is held to at one rung."""
        default = default_limit(rung, part, quantization)
        value = self.values.get((rung, part))
        return default if value is None else replace(default, value=value)
