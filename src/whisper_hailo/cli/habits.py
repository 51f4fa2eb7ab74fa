"""Words that users of other Whisper programs type by habit, and what they stand for here.

Names that only differ are in the fields' own flags (`also`). Here is what has another value, too,
or what there is no such thing as: that is answered with what to type instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from whisper_hailo.cli.groups import keyword
from whisper_hailo.cli.verbosity import note
from whisper_hailo.core.errors import OptionError
from whisper_hailo.text.outputs import FORMATS

_ON: Final = "True"
_INT8: Final = {"quantize": "int8", "encoder_quantize": "int8"}
_EXACT: Final = {"quantize": "none"}
_CONDITION: Final = "condition_on_previous_text"
_CLIP: Final = "clip_timestamps"


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Of a recording; whisper.cpp has an option for each of the two.

    Attributes:
        begin_ms: where it begins.
        length_ms: 0 is up to the end.
    """

    begin_ms: int = 0
    length_ms: int = 0

    def __add__(self, other: _Stretch) -> _Stretch:
        return _Stretch(self.begin_ms + other.begin_ms, self.length_ms + other.length_ms)

    def __str__(self) -> str:
        end = f",{(self.begin_ms + self.length_ms) / 1000}" if self.length_ms else ""
        return f"{self.begin_ms / 1000}{end}"


@dataclass(frozen=True, slots=True)
class Habit:
    """One of them.

    Attributes:
        names: as typed, with their hyphens; the first names its parameter.
        means: parameters, for each value that stands for some.
        instead: what to type for any other value.
        switch: no value follows it.
        number: the parameter that any other value is for, which is a number then.
        read: makes that parameter's value of the number.
        told: of the number, where it is not all that it is elsewhere.
    """

    names: tuple[str, ...]
    means: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    instead: str = ""
    switch: bool = False
    number: str = ""
    read: Callable[[int], Any] = int
    told: str = ""

    @property
    def key(self) -> str:
        """The name of its parameter, which no option of ours has."""
        return "habit_" + self.names[0].strip("-").replace("-", "_")

    def parameter(self) -> inspect.Parameter:
        """For Typer, and not in help."""
        off = f"{self.names[0]}/--no-{self.names[0].lstrip('-')}" if self.switch else self.names[0]
        option = typer.Option(off, *self.names[1:], hidden=True)
        kind = bool if self.switch else str
        return keyword(self.key, Annotated[kind | None, option])

    def stands_for(self, value: object) -> Mapping[str, Any]:
        """Parameters in its place.

        Raises:
            OptionError: there is no such thing here.
        """
        known = {text.casefold(): means for text, means in self.means.items()}
        if (means := known.get(str(value).casefold())) is not None:
            return means
        if self.number:
            number = self._whole(str(value))
            if self.told:
                note(f"{self.names[0]} {number}: {self.told}")
            return {self.number: self.read(number)}
        shown = self.names[0] if self.switch else f"{self.names[0]} {value}"
        raise OptionError(f"{shown} is of another program; {self.instead}")

    def _whole(self, text: str) -> int:
        """A number of 0 or more."""
        if not text.isdecimal():
            raise OptionError(f"{self.names[0]} is {text!r}, expected a whole number, 0 or more")
        return int(text)


def _switch(*names: str, instead: str = "", **means: object) -> Habit:
    return Habit(names, {"False": {}} | ({_ON: means} if means else {}), instead, switch=True)


HABITS: Final = (
    # OpenAI's command, faster-whisper, whisper-ctranslate2
    Habit(
        ("--device",),
        {"auto": {}, "cpu": {"encoder_backend": "onnx"}, "hailo": {"encoder_backend": "hailo"}},
        "leave it out: a Hailo chip is taken where there is one, the CPU elsewhere; or give cpu",
    ),
    Habit(
        ("--compute-type",),
        {"auto": {}, "default": {}, "float32": _EXACT, "int8": _INT8, "int8_float32": _INT8},
        "give --quantize int8, int4 or none (float32)",
    ),
    Habit(
        ("--fp16",),
        {"False": {}},
        "leave it out: 8 bits are the default here; --quantize none is float32",
    ),
    Habit(("--model-dir",), {}, "models are kept below WHISPER_HAILO_CACHE; set that"),
    Habit(("--model-directory",), {}, "give the directory as --model"),
    Habit(("--vad-min-silence-duration-ms",), {}, "give --vad-min-silence in seconds"),
    Habit(("--vad-speech-pad-ms",), {}, "give --vad-speech-pad in seconds"),
    Habit(("--multilingual",), {}, "give --language auto --detect-each-window"),
    Habit(("--hf-token",), {}, "no token is needed; voices of one channel are not told apart"),
    _switch("--vad-filter", "--vad", long="vad"),
    Habit(("--batched",), {_ON: {}, "False": {}}, switch=True),
    _switch("--without-timestamps", "-nt", timestamps=False),
    _switch("--live-transcribe", instead="type whisper-hailo caption --mic default"),
    _switch("--local-files-only", instead="set HF_HUB_OFFLINE=1"),
    # whisper.cpp
    _switch("--translate", "-tr", task="translate"),
    _switch("--no-fallback", "-nf", fallback="0"),
    _switch("--diarize", "-di", channels="split"),
    Habit(("--offset-t", "-ot"), number=_CLIP, read=lambda ms: _Stretch(begin_ms=ms)),
    Habit(("--duration", "-d"), number=_CLIP, read=lambda ms: _Stretch(length_ms=ms)),
    _switch("--detect-language", "-dl", instead="give --language auto"),
    _switch("--no-gpu", "-ng", encoder_backend="onnx"),
    _switch("--print-progress", "-pp", instead="leave it out: long recordings show it"),
    *(
        _switch(f"--output-{fmt}", short, format=[fmt], output_dir=Path())
        for fmt, short in (("txt", "-otxt"), ("srt", "-osrt"), ("vtt", "-ovtt"), ("json", "-oj"))
    ),
    *(
        _switch(f"--output-{name}", f"-o{name}", instead=f"there are {', '.join(FORMATS)}")
        for name in ("csv", "lrc", "wts")
    ),
    Habit(("--output-file", "-of"), {}, "give --output-dir DIR: results are called as recordings"),
    Habit(
        ("--max-context", "-mc"),
        {"-1": {_CONDITION: True}, "0": {}},
        number=_CONDITION,
        read=bool,
        told="each window is shown as much of the text before it as fits",
    ),
    Habit(("--processors", "-p"), {"1": {}}, number="batch_size"),
    _switch("--print-colors", "-pc", colour=True),
    Habit(("--vad-model", "-vm"), {}, "leave it out: --vad brings its own"),
)


class Habits:
    """Those that a command knows whose own options they stand for."""

    def parameters(self, names: Set[str]) -> Iterable[inspect.Parameter]:
        """Hidden options, for commands that make text of recordings."""
        return (habit.parameter() for habit in HABITS if self._suits(habit, names))

    def _suits(self, habit: Habit, names: Set[str]) -> bool:
        wanted = {name for means in habit.means.values() for name in means}
        wanted |= {habit.number} if habit.number else set()
        return {"model", "audio", "language"} <= names and wanted <= names

    def take(self, typed: dict[str, Any]) -> None:
        """Put what they stand for in their place; what was typed itself goes before it.

        Several for one option add up: formats, and the two ends of a stretch.
        """
        meant: dict[str, Any] = {}
        for habit, value in list(self._typed(typed)):
            for name, means in habit.stands_for(value).items():
                adds = name in meant and isinstance(means, list | _Stretch)
                meant[name] = meant[name] + means if adds else means
        for name, means in meant.items():
            if isinstance(means, list):
                typed[name] = [*(typed.get(name) or []), *means]
            elif typed.get(name) is None:
                typed[name] = str(means) if isinstance(means, _Stretch) else means

    def _typed(self, typed: dict[str, Any]) -> Iterator[tuple[Habit, object]]:
        for habit in HABITS:
            value = typed.pop(habit.key, None)
            if value is not None:
                yield habit, value
