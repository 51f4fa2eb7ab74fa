"""Options of other Whisper programs, rewritten as ours before they are parsed.

Other names of an option are in the fields' own flags (`also`); here are those with other values,
and those without an equivalent, which are answered with what to type.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from whisper_hailo.cli.messages import note
from whisper_hailo.core.errors import OptionError
from whisper_hailo.text.outputs import ALL_FORMATS, FORMATS

_BOOLEANS: Final = ("True", "False")
_FORMAT: Final = "--format"
_CLIP: Final = "--clip-timestamps"
_BEGIN: Final = "--offset-t"
_LENGTH: Final = "--duration"
_INT8: Final = "--quantize int8"


@dataclass(frozen=True, slots=True)
class CompatOption:
    """An option of another program.

    Attributes:
        names: as typed, the long one first.
        advice: what to type for values that are not among `values`.
        values: our arguments for each value; a switch has `True` and perhaps `False`.
        switch: no value follows it, or `True` or `False`.
        number: makes our arguments of a whole number; other values are refused.
        same: our option of the same values, perhaps behind other words.
        ignored: accepted with any value, since it changes nothing here.
    """

    names: tuple[str, ...]
    advice: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    switch: bool = False
    number: Callable[[int], str] | None = None
    same: str = ""
    ignored: bool = False

    def words_for(self, typed: str, value: str) -> list[str]:
        """Return our arguments for the option, typed by one of its names, with this value."""
        if self.ignored:
            return []
        if self.same:
            return [*self.same.split(), value]
        known = {text.casefold(): words for text, words in self.values.items()}
        if (words := known.get(value.casefold())) is not None:
            return words.split()
        if self.number is not None:
            if not (value.isascii() and value.isdecimal()):
                expected = "expected a whole number, 0 or more"
                raise OptionError(f"{typed} is {value!r}, {expected}")
            return self.number(int(value)).split()
        shown = typed if self.switch else f"{typed} {value}"
        raise OptionError(f"{shown} is an option of another program; {self.advice}")


def _switch(names: str, words: str | None = None, advice: str = "") -> CompatOption:
    values = {"False": ""} | ({} if words is None else {"True": words})
    return CompatOption(tuple(names.split()), advice, values, switch=True)


def _ignored(names: str, *, switch: bool = False) -> CompatOption:
    """Accept what changes nothing here."""
    return CompatOption(tuple(names.split()), switch=switch, ignored=True)


def _valued(names: str, advice: str = "", **values: str) -> CompatOption:
    return CompatOption(tuple(names.split()), advice, values)


def _numbered(names: str, number: Callable[[int], str], **values: str) -> CompatOption:
    return CompatOption(tuple(names.split()), values=values, number=number)


def _same(ours: str, names: str) -> CompatOption:
    return CompatOption(tuple(names.split()), same=ours)


def _context(n_tokens: int) -> str:
    if n_tokens:
        note(f"--max-context {n_tokens}: each window is shown as much of the text before as fits")
    return "--condition-on-previous-text" if n_tokens else ""


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
        float32="--quantize none", int8=_INT8, int8_float32=_INT8,
    ),
    _valued(
        "--fp16", "leave it out: 8 bits are the default here; --quantize none is float32", false=""
    ),
    _valued("--model-dir", "models are kept below WHISPER_HAILO_CACHE; set that"),
    _valued("--model-directory", "give the directory as --model"),
    _valued("--vad-min-silence-duration-ms -vsd", "set vad-min-silence, in s, in a --config file"),
    _valued("--vad-speech-pad-ms -vp", "set vad-speech-pad, in s, in a --config file"),
    _valued("--multilingual", "give --language auto --detect-each-window"),
    _valued("--hf-token", "no token is needed; voices of one channel are not told apart"),
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
    _same("--logprob-threshold", "--logprob-thold -lpt"),
    _same("--no-speech-threshold", "--no-speech-thold -nth"),
    _same("--vad-threshold", "-vt"),
    _switch("--translate -tr", "--task translate"),
    _switch("--no-fallback -nf", "--fallback 0"),
    _switch("--diarize -di", "--channels split"),
    _switch("--tinydiarize -tdrz", None, "voices of one channel are not told apart"),
    _switch("--detect-language -dl", None, "give --language auto"),
    _switch("--no-gpu -ng", "--encoder-backend onnx"),
    _ignored("--flash-attn -fa", switch=True),
    _ignored("--print-progress -pp", switch=True),
    _switch("--print-special -ps", None, "special tokens are not shown; leave it out"),
    _switch("--print-colors -pc", "--colour"),
    _ignored("--split-on-word -sow", switch=True),
    _ignored("--suppress-nst -sns", switch=True),
    *(
        _switch(f"--output-{name} {short}", f"--format {name} --output-dir .")
        for name, short in (("txt", "-otxt"), ("srt", "-osrt"), ("vtt", "-ovtt"), ("json", "-oj"))
    ),
    _switch("--output-json-full -ojf", None, "give --format json --word-timestamps -o DIR"),
    _switch("--output-csv -ocsv", None, _FILES),
    _switch("--output-lrc -olrc", None, _FILES),
    _switch("--output-words -owts", None, "give --format srt --word-timestamps --highlight-words"),
    _valued("--output-file -of", "give --output-dir DIR: files are named after their recordings"),
    _numbered(f"{_BEGIN} -ot", lambda ms: f"{_BEGIN} {ms}"),
    _numbered(f"{_LENGTH} -d", lambda ms: f"{_LENGTH} {ms}"),
    _valued("--offset-n -on", "give --clip-timestamps START,END"),
    _numbered("--max-context -mc", _context, **{"-1": "--condition-on-previous-text"}),
    _numbered("--processors -p", lambda n: f"--batch-size {n}" if n > 1 else ""),
    _valued("--entropy-thold -et", "give --compression-ratio-threshold X, above which text loops"),
    _ignored("--word-thold -wt"),
    _valued("--audio-ctx -ac", "give --window S, the encoder's window in seconds"),
    _valued("--dtw -dtw", "give --word-timestamps"),
    _ignored("--vad-model -vm"),
    _ignored("--vad-min-speech-duration-ms -vspd"),
    _ignored("--vad-max-speech-duration-s -vmsd"),
    _ignored("--vad-samples-overlap -vo"),
    _valued("--vad-thold -vth", "give --vad-threshold"),
    _ignored("--freq-thold -fth"),
    _valued("--max-tokens -mt", "set max-new-tokens in a --config file"),
    _ignored("--font-path -fp"),
    _valued("--grammar", "give --hotwords for words to expect"),
    _switch("--log-score -ls", None, "give --format json: it has the probabilities"),
    _valued("--ov-e-device -oved", "give --encoder-backend"),
    _valued("--device-id -dev", "leave it out: the chip that is free is taken"),
    # servers: wyoming-faster-whisper, whisper.cpp
    _same("--wyoming", "--uri"),
    _valued("--host", "give --http HOST:PORT"),
    _valued("--port", "give --http HOST:PORT"),
)  # fmt: skip

_BY_NAME: Final = {name: option for option in COMPAT_OPTIONS for name in option.names}


def normalize_argv(words: Sequence[str], command: click.Command) -> list[str]:
    """Rewrite a command's arguments so that its own options parse them.

    Options of other programs become ours and go first, since the last of several counts. `-f FILE`
    is the recording, as in whisper.cpp, and `--word_timestamps True` the switch, as in OpenAI's.
    """
    return _Rewriter(command).rewrite(list(words))


class _Rewriter:
    def __init__(self, command: click.Command) -> None:
        options = [param for param in command.params if isinstance(param, click.Option)]
        self._command = command.name
        self._ours = {name: one for one in options for name in (*one.opts, *one.secondary_opts)}
        self._files = {*self._ours[_FORMAT].opts, "--file"} if _FORMAT in self._ours else set()
        self._first: list[str] = []
        self._left: list[str] = []
        self._milliseconds: dict[str, int] = {}

    def rewrite(self, words: list[str]) -> list[str]:
        rest = deque(words)
        while rest:
            word = rest.popleft()
            name, equals, value = word.partition("=")
            name = name.replace("_", "-") if name.startswith("--") else name
            ours = self._ours.get(name)
            if word == "--":
                self._left += [word, *rest]
                break
            if name in self._files and rest and _is_recording(rest[0]):
                self._left.append(rest.popleft())
            elif ours is None and name.startswith("--no-") and _is_switch(f"--{name[5:]}"):
                continue
            elif ours is None and name in _BY_NAME:
                self._translate(_BY_NAME[name], name, value if equals else None, rest)
            elif ours is not None and ours.is_flag and rest and rest[0] in _BOOLEANS:
                self._left += [word] if rest.popleft() == "True" else ours.secondary_opts[:1]
            else:
                self._left.append(word)
                if ours is not None and not ours.is_flag and not equals and rest:
                    self._left.append(rest.popleft())
        return [*self._first, *self._clip(), *self._left]

    def _translate(
        self, option: CompatOption, typed: str, value: str | None, rest: deque[str]
    ) -> None:
        if value is None and option.switch:
            value = rest.popleft() if rest and rest[0] in _BOOLEANS else "True"
        elif value is None:
            if not rest:
                raise OptionError(f"{typed} needs a value; see --help")
            value = rest.popleft()
        words = option.words_for(typed, value)
        wanted = [_CLIP if word in (_BEGIN, _LENGTH) else word for word in words]
        for name in wanted:
            if name.startswith("--") and name not in self._ours:
                raise OptionError(
                    f"{typed} is an option of another program; {self._command} has no {name}, "
                    "leave it out"
                )
        if words and words[0] in (_BEGIN, _LENGTH):
            self._milliseconds[words[0]] = int(words[1])
        else:
            self._first += words

    def _clip(self) -> list[str]:
        """Return `--clip-timestamps` for whisper.cpp's offset and duration."""
        if not self._milliseconds:
            return []
        begin_ms = self._milliseconds.get(_BEGIN, 0)
        length_ms = self._milliseconds.get(_LENGTH, 0)
        end = f",{(begin_ms + length_ms) / 1000}" if length_ms else ""
        return [_CLIP, f"{begin_ms / 1000}{end}"]


def _is_switch(name: str) -> bool:
    return name in _BY_NAME and _BY_NAME[name].switch


def _is_recording(word: str) -> bool:
    """Return whether the value of `-f` is a file, not a format: it exists or looks like one."""
    if {part.strip().lower() for part in word.split(",")} <= {*FORMATS, ALL_FORMATS}:
        return False
    return word == "-" or bool(Path(word).suffix) or os.path.exists(word)
