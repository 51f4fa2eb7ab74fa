"""Options of other Whisper programs, rewritten as ours before they are parsed.

Other names of an option are in the fields' own flags (`also`); here are those with other values,
and those without an equivalent, which are answered with what to type. Those of whisper.cpp that we
lack are here as well, or Click would take `-ojf` for `-o jf`.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from whisper_hailo.cli.options import Option
from whisper_hailo.core.errors import OptionError
from whisper_hailo.text.formats import ALL_FORMATS, FORMATS

logger = logging.getLogger(__name__)

_BOOLEANS: Final = ("True", "False")
"""Values of switches in OpenAI's command: `--word_timestamps True`."""

_FORMAT: Final = "--format"
_CONTEXT: Final = "--condition-on-previous-text"


@dataclass(frozen=True, slots=True)
class CompatOption:
    """An option of another program.

    Attributes:
        names: as typed.
        advice: what to type for values that we have nothing for.
        values: our arguments for each value that we know.
        alias: our arguments that take any other value as it is; empty: no value matters here;
            `None`: other values are refused with the advice.
        is_switch: no value follows it, or `True` or `False`.
        warning: why the option changes nothing; empty: nothing is said.
        note: what the option does here, where its name is misleading.
    """

    names: tuple[str, ...]
    advice: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    alias: str | None = None
    is_switch: bool = False
    warning: str = ""
    note: str = ""

    def rewrite(self, name: str, value: str) -> list[str]:
        """Return our arguments for the option, typed by one of its names, with a value.

        Raises:
            OptionError: we have nothing for it.
        """
        if self.warning and value.casefold() != "none":
            logger.warning("%s has no effect here: %s", name, self.warning)
        if self.note and value.casefold() == "true":
            logger.info("%s %s", name, self.note)
        arguments = self.values.get(value.casefold())
        if arguments is not None:
            return arguments.split()
        if self.alias is None:
            typed = name if self.is_switch else f"{name} {value}"
            raise OptionError(f"{typed} is an option of another program; {self.advice}")
        return [*self.alias.split(), value] if self.alias else []


def _alias(names: str, ours: str) -> CompatOption:
    """Return an option that takes the values of ours."""
    return CompatOption(tuple(names.split()), alias=ours)


def _ignored(names: str) -> CompatOption:
    """Return an option with a value that changes nothing here."""
    return CompatOption(tuple(names.split()), alias="")


def _warned(names: str, reason: str) -> CompatOption:
    """Return an option with a value that changes nothing here, which is said with the reason."""
    return CompatOption(tuple(names.split()), alias="", warning=reason)


def _mapped(names: str, advice: str, values: Mapping[str, str]) -> CompatOption:
    """Return an option whose values are other ones than ours."""
    return CompatOption(tuple(names.split()), advice, values)


def _refused(names: str, advice: str) -> CompatOption:
    """Return an option with a value that we have nothing for."""
    return CompatOption(tuple(names.split()), advice)


def _switch(names: str, ours: str) -> CompatOption:
    """Return a switch that stands for our arguments; none: it changes nothing here."""
    return CompatOption(
        tuple(names.split()), values={"true": ours, "false": ""}, is_switch=True
    )


def _explained_switch(names: str, ours: str, note: str) -> CompatOption:
    """Return a switch whose name says more, or less, than it does here."""
    return CompatOption(
        tuple(names.split()),
        values={"true": ours, "false": ""},
        is_switch=True,
        note=f"is {ours}: {note}",
    )


def _refused_switch(names: str, advice: str) -> CompatOption:
    """Return a switch that we have nothing for, unless it is off."""
    return CompatOption(tuple(names.split()), advice, {"false": ""}, is_switch=True)


_OF_WHISPER_PROGRAMS: Final = (  # OpenAI's command, faster-whisper, whisper-ctranslate2
    _alias("--output-format", "--output-dir . --format"),
    _mapped(
        "--device",
        "leave it out: a Hailo chip is used if present, else the CPU; or give cpu",
        {
            "auto": "",
            "cpu": "--encoder-backend onnx",
            "hailo": "--encoder-backend hailo",
        },
    ),
    _mapped(
        "--compute-type",
        "give --quantize int8, int4 or none (float32)",
        {
            "auto": "",
            "default": "",
            "float32": "--quantize none",
            "float16": "--quantize none",
            "bfloat16": "--quantize none",
            "int8": "--quantize int8",
            "int8_float32": "--quantize int8",
            "int8_float16": "--quantize int8",
            "int8_bfloat16": "--quantize int8",
        },
    ),
    _ignored("--fp16"),
    _refused("--model-dir", "models are stored under WHISPER_HAILO_CACHE; set that"),
    _refused("--model-directory", "give the directory with --model"),
    _refused("--vad-min-silence-duration-ms -vsd", "give --vad-min-silence, in s"),
    _refused("--vad-speech-pad-ms -vp", "give --vad-speech-pad, in s"),
    _switch("--vad-filter --vad", "--long vad"),
    _switch("--batched", ""),
    _switch("--without-timestamps -nt", "--no-timestamps"),
    _refused_switch("--live-transcribe", "type whisper-hailo caption --mic default"),
    _refused_switch("--local-files-only", "set HF_HUB_OFFLINE=1"),
    _warned(
        "--hallucination-silence --hallucination-silence-threshold",
        "silence gives no text",
    ),
    _warned("--prepend-punctuations --append-punctuations", "marks join words"),
)

_OTHER_FORMATS: Final = (
    f"there are {', '.join(FORMATS)}: give --format and --output-dir"
)

_OF_WHISPER_CPP: Final = (
    _alias("-tp", "--temperature"),
    _alias("--temperature-inc -tpi", "--fallback"),
    _alias("-bs", "--beam-size"),
    _alias("-bo", "--best-of"),
    _alias("--max-len -ml", "--max-line-count 1 --max-line-width"),
    _alias("--max-tokens -mt", "--max-new-tokens"),
    _alias("--logprob-thold -lpt", "--logprob-threshold"),
    _alias("--no-speech-thold -nth", "--no-speech-threshold"),
    _alias("--vad-thold -vth -vt", "--vad-threshold"),
    _switch("--translate -tr", "--task translate"),
    _switch("--no-fallback -nf", "--fallback 0"),
    _explained_switch(
        "--diarize -di",
        "--channels split",
        "each channel is a speaker; --speakers tells the voices of one channel apart",
    ),
    _switch("--no-gpu -ng", "--encoder-backend onnx"),
    _switch("--flash-attn -fa --print-progress -pp --print-colors -pc", ""),
    _switch("--split-on-word -sow --suppress-nst -sns", ""),
    _switch("--output-txt -otxt", "--output-dir . --format txt"),
    _switch("--output-srt -osrt", "--output-dir . --format srt"),
    _switch("--output-vtt -ovtt", "--output-dir . --format vtt"),
    _switch("--output-json -oj", "--output-dir . --format json"),
    _refused_switch(
        "--output-csv -ocsv --output-lrc -olrc --output-words -owts -ojf",
        _OTHER_FORMATS,
    ),
    _refused(
        "--offset-t -ot --duration -d --offset-n -on",
        "give --clip-timestamps START,END",
    ),
    _mapped("--max-context -mc", f"give {_CONTEXT}", {"0": "", "-1": _CONTEXT}),
    _mapped("--processors -p", "give --batch-size N", {"1": ""}),
    _ignored("--word-thold -wt --freq-thold -fth --font-path -fp --vad-model -vm"),
    _ignored("--vad-min-speech-duration-ms -vspd --vad-max-speech-duration-s -vmsd"),
    _ignored("--vad-samples-overlap -vo"),
    _refused("--ov-e-device -oved", "give --encoder-backend"),
    _refused_switch("--detect-language -dl --multilingual", "give --language auto"),
    _refused_switch(
        "--log-score -ls --print-special -ps", "give --format json: it has all tokens"
    ),
    _switch("--tinydiarize -tdrz", "--speakers"),
    _refused("--dtw -dtw", "give --word-timestamps"),
    _refused(
        "--entropy-thold -et",
        "give --compression-ratio-threshold X, above which text loops",
    ),
    _refused("--audio-ctx -ac --device-id -dev --hf-token --grammar", "leave it out"),
)

_OF_SERVERS: Final = (  # wyoming-faster-whisper, whisper.cpp's server
    _alias("--uri", "--wyoming"),
    _refused("--host --port", "give --http HOST:PORT"),
)

COMPAT_OPTIONS: Final = (*_OF_WHISPER_PROGRAMS, *_OF_WHISPER_CPP, *_OF_SERVERS)

_BY_NAME: Final = {name: option for option in COMPAT_OPTIONS for name in option.names}


def normalize_argv(
    words: Sequence[str],
    command: click.Command,
    typed: dict[str, str] | None = None,
) -> list[str]:
    """Rewrite a command's arguments so that its own options parse them.

    Options of other programs become ours and go first, since the last of several counts. `-f FILE`
    is the recording, as in whisper.cpp, and `--word_timestamps True` the switch, as in OpenAI's.
    `-l de -l en` is `--language de,en`. `typed` gets what was typed for each of our options.
    """
    ours = _options_by_name(command)
    recording_options = {*ours[_FORMAT].opts, "--file"} if _FORMAT in ours else set()
    first: list[str] = []
    others: list[str] = []
    joined: dict[str, list[str]] = {}
    rest = deque(words)
    while rest:
        word = rest.popleft()
        if word == "--":
            others += [word, *rest]
            break
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = name.replace("_", "-")
        option = ours.get(name)
        foreign = _BY_NAME.get(name)
        if name in recording_options and rest and _is_recording(rest[0]):
            others.append(rest.popleft())
        elif option is None and foreign is not None:
            if not equals:
                value = _take_value(foreign, name, rest)
            arguments = foreign.rewrite(name, value)
            _refuse_lacking(arguments, name, ours, command)
            if typed is not None:
                typed |= {part: name for part in arguments if part.startswith("--")}
            first += arguments
        elif option is not None and option.is_flag and rest and rest[0] in _BOOLEANS:
            is_on = rest.popleft() == "True"
            others += [word] if is_on else option.secondary_opts[:1]
        elif isinstance(option, Option) and option.is_joined and (equals or rest):
            values = joined.setdefault(option.opts[0], [])
            values.append(value if equals else rest.popleft())
        else:
            takes_value = option is not None and not option.is_flag and not equals
            if isinstance(option, Option) and option.optional and takes_value:
                others.append(f"{word}={_take_optional(option, rest)}")
                continue
            others.append(word)
            if takes_value and rest:  # a value is no option, whatever it looks like
                others.append(rest.popleft())
    first += [f"{name}={','.join(values)}" for name, values in joined.items()]
    return [*first, *others]


def _options_by_name(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by each of their names."""
    options: dict[str, click.Option] = {}
    for param in command.params:
        if isinstance(param, click.Option):
            options |= dict.fromkeys([*param.opts, *param.secondary_opts], param)
    return options


def _take_optional(option: Option, rest: deque[str]) -> str:
    """Take the value of an option that needs none: what follows may be a recording."""
    if not rest or rest[0].startswith("-"):
        return option.optional
    # A wrong value is taken too, and refused later: it is not the name of a recording.
    is_value = option.accepts(rest[0]) or not _is_recording(rest[0])
    return rest.popleft() if is_value else option.optional


def _take_value(option: CompatOption, name: str, rest: deque[str]) -> str:
    """Take the value of another program's option."""
    if option.is_switch:
        return rest.popleft() if rest and rest[0] in _BOOLEANS else "True"
    if not rest:
        raise OptionError(f"{name} needs a value; see --help")
    return rest.popleft()


def _refuse_lacking(
    arguments: Iterable[str],
    name: str,
    ours: Mapping[str, click.Option],
    command: click.Command,
) -> None:
    """Refuse another program's option where this command lacks the one that it stands for."""
    for argument in arguments:
        if argument.startswith("--") and argument not in ours:
            raise OptionError(
                f"{name} is an option of another program; {command.name} has no {argument}, "
                "leave it out"
            )


def _is_recording(word: str) -> bool:
    """Return whether the value of `-f` is a file, not a format: it exists or looks like one."""
    names = {part.strip().lower() for part in word.split(",")}
    if names <= {*FORMATS, ALL_FORMATS}:
        return False
    return word == "-" or bool(Path(word).suffix) or os.path.exists(word)
