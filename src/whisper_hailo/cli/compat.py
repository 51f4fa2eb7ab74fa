"""Options of other Whisper programs, rewritten as ours before they are parsed.

Other names of an option are in the fields' own flags (`also`); here are those with other values,
and those without an equivalent, which are answered with what to type. Those of whisper.cpp that we
lack are here as well, or Click would take `-ojf` for `-o jf`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from whisper_hailo.core.errors import OptionError
from whisper_hailo.text.formats import ALL_FORMATS, FORMATS

_BOOLEANS: Final = ("True", "False")
_FORMAT: Final = "--format"
_CONTEXT: Final = "--condition-on-previous-text"
_ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class CompatOption:
    """An option of another program.

    Attributes:
        names: as typed.
        advice: what to type for values that are not among `values`.
        values: our arguments for each value, or for any (`*`), which follows them if they end
            with an option of ours.
        switch: no value follows it, or `True` or `False`.
    """

    names: tuple[str, ...]
    advice: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    switch: bool = False

    def words_for(self, typed: str, value: str) -> list[str]:
        """Return our arguments for the option, typed by one of its names, with this value."""
        words = self.values.get(value.casefold())
        if words is not None:
            return words.split()
        if (words := self.values.get(_ANY)) is None:
            shown = typed if self.switch else f"{typed} {value}"
            raise OptionError(f"{shown} is an option of another program; {self.advice}")
        return [*words.split(), value] if words else []


def _switch(names: str, words: str | None = None, advice: str = "") -> CompatOption:
    values = {"false": ""} | ({} if words is None else {"true": words})
    return CompatOption(tuple(names.split()), advice, values, switch=True)


def _valued(names: str, advice: str = "", **values: str) -> CompatOption:
    return CompatOption(tuple(names.split()), advice, values)


def _same(ours: str, names: str) -> CompatOption:
    """Return an option with the same values; without words of ours it changes nothing here."""
    return CompatOption(tuple(names.split()), values={_ANY: ours})


_FILES: Final = f"there are {', '.join(FORMATS)}: give --format and --output-dir"

COMPAT_OPTIONS: Final = (
    # OpenAI's command, faster-whisper, whisper-ctranslate2
    _same("--output-dir . --format", "--output-format"),
    _valued(
        "--device",
        "leave it out: a Hailo chip is taken where there is one, the CPU elsewhere; or give cpu",
        auto="", cpu="--encoder-backend onnx", hailo="--encoder-backend hailo",
    ),
    _valued(
        "--compute-type", "give --quantize int8, int4 or none (float32)", auto="", default="",
        float32="--quantize none", int8="--quantize int8", int8_float32="--quantize int8",
    ),
    _valued(
        "--fp16", "leave it out: 8 bits are the default here; --quantize none is float32", false=""
    ),
    _valued("--model-dir", "models are kept below WHISPER_HAILO_CACHE; set that"),
    _valued("--model-directory", "give the directory as --model"),
    _valued("--vad-min-silence-duration-ms -vsd", "give --vad-min-silence, in s"),
    _valued("--vad-speech-pad-ms -vp", "give --vad-speech-pad, in s"),
    _switch("--vad-filter --vad", "--long vad"),
    _switch("--batched", ""),
    _switch("--without-timestamps -nt", "--no-timestamps"),
    _switch("--live-transcribe", None, "type whisper-hailo caption --mic default"),
    _switch("--local-files-only", None, "set HF_HUB_OFFLINE=1"),
    # whisper.cpp
    _same("--temperature", "-tp"),
    _same("--fallback", "--temperature-inc -tpi"),
    _same("--beam-size", "-bs"),
    _same("--best-of", "-bo"),
    _same("--max-line-count 1 --max-line-width", "--max-len -ml"),
    _same("--max-new-tokens", "--max-tokens -mt"),
    _same("--logprob-threshold", "--logprob-thold -lpt"),
    _same("--no-speech-threshold", "--no-speech-thold -nth"),
    _same("--vad-threshold", "--vad-thold -vth -vt"),
    _switch("--translate -tr", "--task translate"),
    _switch("--no-fallback -nf", "--fallback 0"),
    _switch("--diarize -di", "--channels split"),
    _switch("--no-gpu -ng", "--encoder-backend onnx"),
    _switch("--flash-attn -fa --print-progress -pp --print-colors -pc", ""),
    _switch("--split-on-word -sow --suppress-nst -sns", ""),
    _switch("--output-txt -otxt", "--output-dir . --format txt"),
    _switch("--output-srt -osrt", "--output-dir . --format srt"),
    _switch("--output-vtt -ovtt", "--output-dir . --format vtt"),
    _switch("--output-json -oj", "--output-dir . --format json"),
    _switch("--output-csv -ocsv --output-lrc -olrc --output-words -owts -ojf", None, _FILES),
    _valued("--output-file -of", "give --output-dir DIR: files are named after their recordings"),
    _valued("--offset-t -ot --duration -d --offset-n -on", "give --clip-timestamps START,END"),
    _valued("--max-context -mc", f"give {_CONTEXT}", **{"0": "", "-1": _CONTEXT}),
    _valued("--processors -p", "give --batch-size N", **{"1": ""}),
    _same("", "--word-thold -wt --freq-thold -fth --font-path -fp --vad-model -vm"),
    _same("", "--vad-min-speech-duration-ms -vspd --vad-max-speech-duration-s -vmsd"),
    _same("", "--vad-samples-overlap -vo"),
    _valued("--ov-e-device -oved", "give --encoder-backend"),
    _switch("--detect-language -dl --multilingual", None, "give --language auto"),
    _switch("--log-score -ls --print-special -ps", None, "give --format json: it has all tokens"),
    _switch("--tinydiarize -tdrz", None, "voices of one channel are not told apart"),
    _valued("--dtw -dtw", "give --word-timestamps"),
    _valued("--entropy-thold -et", "give --compression-ratio-threshold X, above which text loops"),
    _valued("--audio-ctx -ac --device-id -dev --hf-token --grammar", "leave it out"),
    _valued(
        "--hallucination-silence --hallucination-silence-threshold",
        "leave it out: silence gives no text", none="",
    ),
    _valued("--prepend-punctuations --append-punctuations", "leave it out: marks join words"),
    # servers: wyoming-faster-whisper, whisper.cpp
    _same("--wyoming", "--uri"),
    _valued("--host --port", "give --http HOST:PORT"),
)  # fmt: skip

_BY_NAME: Final = {name: option for option in COMPAT_OPTIONS for name in option.names}


def normalize_argv(words: Sequence[str], command: click.Command) -> list[str]:
    """Rewrite a command's arguments so that its own options parse them.

    Options of other programs become ours and go first, since the last of several counts. `-f FILE`
    is the recording, as in whisper.cpp, and `--word_timestamps True` the switch, as in OpenAI's.
    """
    options = [param for param in command.params if isinstance(param, click.Option)]
    ours = {name: one for one in options for name in (*one.opts, *one.secondary_opts)}
    files = {*ours[_FORMAT].opts, "--file"} if _FORMAT in ours else set()
    first: list[str] = []
    left: list[str] = []
    rest = deque(words)
    while rest:
        word = rest.popleft()
        name, equals, value = word.partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        option, other = ours.get(name), _BY_NAME.get(name)
        if word == "--":
            left += [word, *rest]
            break
        if name in files and rest and _is_recording(rest[0]):
            left.append(rest.popleft())
        elif option is None and other is not None:
            rewritten = other.words_for(name, value if equals else _value(other, name, rest))
            for lacking in (one for one in rewritten if one[:2] == "--" and one not in ours):
                raise OptionError(
                    f"{name} is an option of another program; {command.name} has no {lacking}, "
                    "leave it out"
                )
            first += rewritten
        elif option is not None and option.is_flag and rest and rest[0] in _BOOLEANS:
            left += [word] if rest.popleft() == "True" else option.secondary_opts[:1]
        else:
            left.append(word)
            if option is not None and not option.is_flag and not equals and rest:
                left.append(rest.popleft())
    return [*first, *left]


def _value(option: CompatOption, typed: str, rest: deque[str]) -> str:
    """Take the value of another program's option."""
    if option.switch:
        return rest.popleft() if rest and rest[0] in _BOOLEANS else "True"
    if not rest:
        raise OptionError(f"{typed} needs a value; see --help")
    return rest.popleft()


def _is_recording(word: str) -> bool:
    """Return whether the value of `-f` is a file, not a format: it exists or looks like one."""
    if {part.strip().lower() for part in word.split(",")} <= {*FORMATS, ALL_FORMATS}:
        return False
    return word == "-" or bool(Path(word).suffix) or os.path.exists(word)
