"""Options of `caption` alone, and the recogniser that they ask for."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from whisper_hailo.backends.options import ChipPriority
from whisper_hailo.cli.transcribe_options import Fallback, ModelOptions, log_engine
from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.flags import (
    ENGINE,
    flag,
    option_name,
    refuse_unused,
    require_valid,
)
from whisper_hailo.core.overwrite import FileId, file_id
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.core.process import require_extra
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.http.addresses import make_tls_context
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.text.subtitles import Layout

if TYPE_CHECKING:
    from whisper_hailo.live.outputs.files import CaptionFile, EventFile, FlacRecording
    from whisper_hailo.live.recognizer import SpeechRecognizer
    from whisper_hailo.live.sources.source import LiveSource
    from whisper_hailo.serve.routes.captions.access import PageAddress
    from whisper_hailo.transcription.transcriber import Transcriber

logger = logging.getLogger(__name__)

_SOURCE = "Source"
_PAGE = "Page"
_FILES = "Files"

_MOST_VIEWERS: Final = 10_000
"""More than one thread can serve: each event goes to every viewer."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Audio source: a microphone, a file, raw samples or an address."""

    mic: str | None = flag(
        None, "Microphone: number, name, default or browser.", metavar="DEVICE"
    )
    list_devices: bool = flag(False, "List microphones and exit.")
    real_time: bool = flag(False, "Play a FILE in real time.", _SOURCE)
    rate: int = flag(16_000, "Sample rate of raw PCM.", _SOURCE, metavar="HZ")
    wait_for_source: float | None = flag(
        None,
        "Wait this long for a lost source; 0 ends at once.",
        _SOURCE,
        metavar="S",
        shown="microphones: any time, addresses: 600",
    )

    def __post_init__(self) -> None:
        fits = self.wait_for_source is None or 0 <= self.wait_for_source < math.inf
        require_valid(self, "wait_for_source", fits, "0 s or more")

    def expect_use(self, audio: str | None) -> None:
        """Refuse options that have no effect on this source, and a missing or empty file."""
        self._expect_one_source(audio)
        is_address = audio is not None and "://" in audio
        is_file = self.is_file(audio)
        is_microphone = self.mic not in (None, "browser")
        refuse_unused(self, is_file, "a FILE", "real_time")
        refuse_unused(self, audio == "-", "-, raw PCM", "rate")
        refuse_unused(
            self, is_address or is_microphone, "--mic or a URL", "wait_for_source"
        )
        if audio is None and is_microphone:
            require_extra("live", "--mic", "sounddevice")
        from whisper_hailo.audio.files import find_fault

        if audio and is_file:
            fault = find_fault(Path(audio), display_path(audio))
            if fault is not None:
                raise fault

    def is_file(self, audio: str | None) -> bool:
        """Return whether the source is a file, which has an end."""
        return audio is not None and audio != "-" and "://" not in audio

    def _expect_one_source(self, audio: str | None) -> None:
        """Refuse none, and two of them."""
        if (audio is None) == (self.mic is None):
            raise OptionError(
                "give one of: a FILE, - for raw PCM, an address, or --mic DEVICE"
            )

    def make_source(self, audio: str | None) -> LiveSource:
        """Return the source, not open yet.

        It is a file, `-` for raw PCM on standard input, an address such as `rtsp://...`, or the
        microphone.
        """
        self._expect_one_source(audio)
        if audio is None:
            return self._make_microphone(str(self.mic))
        from whisper_hailo.live.sources.file import FileSource, PcmSource
        from whisper_hailo.live.sources.source import ADDRESS_PATIENCE_S, ReopenedSource

        if audio == "-":
            if sys.stdin is None or sys.stdin.isatty():
                raise OptionError(
                    "standard input is a terminal; pipe raw 16-bit mono samples in"
                )
            return PcmSource(sys.stdin.fileno(), self.rate)
        if "://" in audio:
            from whisper_hailo.live.sources.network import NetworkSource

            patience_s = self.wait_for_source
            if patience_s is None:
                patience_s = ADDRESS_PATIENCE_S
            return ReopenedSource(NetworkSource(audio), patience_s)
        return FileSource(audio, real_time=self.real_time)

    def _make_microphone(self, device: str) -> LiveSource:
        if device == "browser":
            from whisper_hailo.live.sources.network import BrowserSource

            return BrowserSource()
        from whisper_hailo.live.sources.microphone import MicrophoneSource
        from whisper_hailo.live.sources.source import ReopenedSource

        choice = "" if device == "default" else device
        return ReopenedSource(MicrophoneSource(choice), self.wait_for_source)


@dataclass(frozen=True, slots=True)
class CaptionModel(ModelOptions):
    """The model, or Moonshine."""

    moonshine: str | None = flag(
        None,
        "Transcribe with Moonshine instead: tiny-streaming and so on, or its folder.",
        ENGINE,
        metavar="SIZE|DIR",
    )


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """Where captions go: terminal, files, page."""

    events: Path | None = flag(
        None, "Write all events to this file.", metavar="F.jsonl"
    )
    output: tuple[Path, ...] = flag(
        (), "Write .srt, .vtt or .txt; may be repeated.", short="-o", metavar="FILE"
    )
    daily: bool = flag(False, "Start new files each day.", _FILES)
    record: Path | None = flag(None, "Record the audio.", _FILES, metavar="F.flac")
    replace: Path | None = flag(
        None,
        "Replace words by lines HEARD => SHOWN; SHOWN also becomes a hotword.",
        _FILES,
        metavar="FILE",
    )
    colour: bool = flag(False, "Shade words by confidence.", also=("--color",))
    as_json: bool = flag(
        False, "Print events and statistics as JSON Lines.", name="--json"
    )
    web: bool = flag(False, "Serve a page with large captions.")
    web_host: str = flag(
        "127.0.0.1", "Address to listen on; 0.0.0.0 means every interface.", _PAGE
    )
    web_port: int = flag(8765, "Port to listen on; 0 picks a free one.", _PAGE)
    web_allow_host: tuple[str, ...] = flag(
        (), "Additional host name of the page.", _PAGE, metavar="NAME"
    )
    web_frame: tuple[str, ...] = flag(
        (),
        "Origin that may embed the page, such as http://homeassistant.local:8123.",
        _PAGE,
        metavar="ORIGIN",
        rare=True,
    )
    web_token: str | None = flag(
        None,
        "Token to view, record and control.",
        _PAGE,
        metavar="TOKEN",
        shown="generated, for controls",
    )
    web_cert: Path | None = flag(
        None, "Serve HTTPS with this certificate.", _PAGE, metavar="FILE", rare=True
    )
    web_key: Path | None = flag(
        None, "Private key of the certificate.", _PAGE, metavar="FILE", rare=True
    )
    web_viewers: int | None = flag(
        None, "Viewers at once.", _PAGE, metavar="N", rare=True, shown="256"
    )

    def __post_init__(self) -> None:
        require_valid(self, "web_port", 0 <= self.web_port <= 65535, "0 to 65535")
        require_valid(
            self,
            "web_viewers",
            self.web_viewers is None or 1 <= self.web_viewers <= _MOST_VIEWERS,
            f"1 to {_MOST_VIEWERS}",
        )

    def expect_use(self, mic: str | None, layout: PartialOptions[Layout]) -> None:
        """Refuse options that have no effect without another."""
        if mic == "browser" and not self.web:
            raise OptionError(
                "--mic browser needs --web, the page that records; give both"
            )
        has_files = bool(self.events or self.output or self.record)
        refuse_unused(self, has_files, "--events, --output or --record", "daily")
        page_fields = [
            field.name for field in fields(self) if field.name.startswith("web_")
        ]
        refuse_unused(self, self.web, "--web", *page_fields)
        refuse_unused(self, not self.as_json, "a terminal, not --json", "colour")
        if layout.values and not self.has_cues:
            raise OptionError(
                "--max-line-width and --max-line-count go with --output of .srt or .vtt, and have "
                "no effect here; leave them out"
            )
        if self.web:
            require_extra("web", "--web", "starlette", "uvicorn", "websockets")

    @property
    def has_cues(self) -> bool:
        """Whether an output has subtitles."""
        return any(path.suffix.lower() in (".srt", ".vtt") for path in self.output)

    def make_files(
        self,
        audio: str | None,
        layout: Layout,
        *,
        is_live: bool = True,
    ) -> tuple[list[EventFile | CaptionFile], FlacRecording | None]:
        """Return the files of events and completed segments, and the recording, not open yet.

        Raises:
            OptionError: a file would replace the captioned one, or two have one name.
        """
        from whisper_hailo.live.outputs.files import (
            CaptionFile,
            EventFile,
            FlacRecording,
        )

        files: list[EventFile | CaptionFile] = []
        if self.events is not None:
            files.append(EventFile(self.events, daily=self.daily))
        for path in self.output:
            files.append(
                CaptionFile(path, daily=self.daily, layout=layout, is_live=is_live)
            )
        recording: FlacRecording | None = None
        if self.record is not None:
            recording = FlacRecording(self.record, daily=self.daily)
        captioned = _captioned_file(audio)
        for file in files:
            file.check(captioned)
        if recording is not None:
            recording.check(captioned)
        self._refuse_equal_names()
        return files, recording

    def _refuse_equal_names(self) -> None:
        """Refuse a file of events and segments, or of two formats: they would mix."""
        names = [os.path.realpath(path) for path in (self.events, *self.output) if path]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise OptionError(
                f"--events and --output name {display_path(twice[0])} twice; give two different "
                "files"
            )

    def page_address(self) -> PageAddress | None:
        """Return the address and the access rules of the page, if it is served."""
        from whisper_hailo.serve.routes.captions.access import PageAddress

        if not self.web:
            return None
        return PageAddress(
            self.web_host,
            self.web_port,
            names=self.web_allow_host,
            framed_by=self.web_frame,
            token=self.web_token,
            tls=make_tls_context(
                self.web_cert, self.web_key, "--web-cert and --web-key"
            ),
            max_viewers=self.web_viewers,
        )


def _captioned_file(audio: str | None) -> FileId | None:
    """Return the identity of the captioned file or pipe; `None` if there is none."""
    if audio is None:
        return None
    return file_id(sys.stdin if audio == "-" else audio)


DECODING: Final = (
    "language",
    "task",
    "anti_repetition",
    "max_new_tokens",
    "thresholds.no_speech",
    "thresholds.logprob",
    "limits",
    "prompts.initial_prompt",
    "prompts.hotwords",
)
"""Options of decoding that have an effect on live captions.

Each segment is decoded alone, so no text goes before it, and once, so nothing is retried.
"""

_MOONSHINE: Final = frozenset(
    ("moonshine", *(field.name for field in fields(CaptionOptions)))
) - {
    "drafts",
    "hold_back_s",
}
"""Options that Moonshine honours."""


def refuse_whisper_options(*given: PartialOptions[Any]) -> None:
    """Refuse options of model, captions or decoding that Moonshine does not support."""
    for options in given:
        for field in options.given_fields():
            if field.name not in _MOONSHINE:
                raise OptionError(
                    f"Moonshine cannot honour {option_name(field)}; leave it out"
                )


def open_recognizer(
    model: CaptionModel,
    given: PartialOptions[DecodingOptions],
    options: CaptionOptions,
    hotwords: str,
    stack: contextlib.ExitStack,
) -> SpeechRecognizer:
    """Open and warm up Whisper or Moonshine, until the stack ends.

    The decoder expects `hotwords`, too, if it can expect any.
    """
    from whisper_hailo.live import recognizer as recognizers

    recognizer: SpeechRecognizer
    if model.moonshine is None:
        transcriber = model.transcriber(ChipPriority.LIVE)
        decoding = given.apply_to(
            recognizers.caption_defaults(transcriber.default_anti_repetition)
        )
        decoding = _expect_hotwords(transcriber, decoding, hotwords)
        recognizer = recognizers.WhisperRecognizer(transcriber, decoding)
        for reason in transcriber.reasons:
            logger.debug(reason)
        stack.enter_context(transcriber)
    else:
        segment_s = options.max_segment_s
        if segment_s is None:
            segment_s = recognizers.MOONSHINE_SEGMENT_S
        recognizer = stack.enter_context(
            recognizers.MoonshineRecognizer(model.moonshine, segment_s)
        )
    recognizers.warm_up(recognizer)
    return recognizer


def open_transcriber(
    model: CaptionModel,
    given: PartialOptions[DecodingOptions],
    hotwords: str,
    stack: contextlib.ExitStack,
    *,
    has_words: bool,
) -> tuple[Transcriber, DecodingOptions]:
    """Open Whisper for a recording until the stack ends, with the options of `transcribe`."""
    transcriber = model.transcriber()
    options = Fallback().apply(
        given, transcriber.default_options, transcriber.default_fallback
    )
    aligns = transcriber.decoder.limits.aligns
    options = replace(options, word_timestamps=has_words and aligns)
    options = _expect_hotwords(transcriber, options, hotwords)
    transcriber.check(options)
    log_engine(transcriber)
    return stack.enter_context(transcriber), options


def _expect_hotwords(
    transcriber: Transcriber, decoding: DecodingOptions, hotwords: str
) -> DecodingOptions:
    """Return options with further hotwords, unless the decoder cannot expect any."""
    if not hotwords:
        return decoding
    given = decoding.prompts.hotwords
    both = f"{given}, {hotwords}" if given else hotwords
    expecting = replace(decoding, prompts=replace(decoding.prompts, hotwords=both))
    try:
        transcriber.check(expecting)
    except OptionError as error:
        logger.warning("words that --replace shows cannot be hotwords: %s", error)
        return decoding
    return expecting
