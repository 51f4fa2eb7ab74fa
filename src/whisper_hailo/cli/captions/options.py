"""Options of captioning that are only the command's: sources, views, the other engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whisper_hailo.cli.model import ModelOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import CHANNELS, ENGINE, expect, expect_choices, flag, refuse_idle
from whisper_hailo.http.listening import Tls
from whisper_hailo.live.outputs.growing_file import Rotation

if TYPE_CHECKING:
    from whisper_hailo.core.partial_options import PartialOptions
    from whisper_hailo.live.outputs.recording import FlacRecording
    from whisper_hailo.live.outputs.replacements import Replacements
    from whisper_hailo.serve.routes.captions.view import Place
    from whisper_hailo.text.subtitles import Layout

_SOURCE = "Source"
_PAGE = "Page"
_FILES = "Files"
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Where audio comes from: a microphone, a file that is played, raw samples, an address."""

    mic: str | None = flag(None, "Number, part of its name, default, browser.", metavar="DEVICE")
    list_devices: bool = flag(False, "List microphones and exit.")
    real_time: bool = flag(False, "Play a FILE at the speed of speech.", _SOURCE)
    replay: str | None = flag(
        None, "Replay a recording of --record with its timing.", _SOURCE, metavar="F.flac"
    )
    rate: int = flag(16_000, "Sample rate of raw PCM.", _SOURCE, metavar="HZ")
    channels: str = flag("mix", "All channels mixed, or each a speaker", _SOURCE, choices=CHANNELS)
    loops: int = flag(1, "Play a FILE this many times.", _SOURCE, settings_only=True)
    wait_for_source: float | None = flag(
        None,
        "Wait this long for a lost source; 0: end at once.",
        _SOURCE,
        metavar="S",
        shown="microphones: any time, addresses: 600",
    )

    def __post_init__(self) -> None:
        expect_choices(self)
        wait_s = self.wait_for_source
        expect(self, "wait_for_source", wait_s is None or 0 <= wait_s < math.inf, "0 s or more")
        expect(self, "loops", self.loops >= 1, "1 or more")

    def expect_use(self, audio: str | None) -> None:
        """Refuse options that have no effect on what is heard."""
        is_address = audio is not None and "://" in audio
        is_file = audio is not None and audio != "-" and not is_address
        is_microphone = self.mic not in (None, "browser")
        for name, serves, what in (
            ("real_time", is_file and self.replay is None, "a FILE"),
            ("loops", is_file, "a FILE"),
            ("rate", audio == "-", "-, raw PCM"),
            ("channels", is_file or is_microphone, "a FILE or --mic"),
            ("wait_for_source", is_address or is_microphone, "--mic or a URL"),
        ):
            refuse_idle(self, name, serves, what)

    def played(self, audio: str | None) -> str | None:
        """Return the source: the argument, or what is replayed.

        Raises:
            OptionError: both are there.
        """
        if self.replay is not None and audio is not None:
            raise OptionError(f"--replay {self.replay} and {audio} are two sources; give one")
        return audio if self.replay is None else self.replay


@dataclass(frozen=True, slots=True)
class CaptionModel(ModelOptions):
    """Which model, ours or another engine's."""

    moonshine: str | None = flag(
        None,
        "Hear with Moonshine instead: tiny-streaming and so on, or its folder.",
        ENGINE,
        metavar="SIZE|DIR",
    )


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """What becomes of the captions."""

    events: Path | None = flag(None, "Write all events to this file.", metavar="F.jsonl")
    output: tuple[Path, ...] = flag(
        (), "Write .srt, .vtt or .txt; may be repeated.", short="-o", metavar="FILE"
    )
    rotate: Rotation | None = flag(
        None,
        "Start new files daily, or above a size such as 100MB.",
        _FILES,
        metavar="day|SIZE",
        parse=Rotation.of,
    )
    record: Path | None = flag(None, "Record the audio.", _FILES, metavar="F.flac")
    replace: Path | None = flag(
        None,
        "Replace words by lines HEARD => SHOWN, and expect those shown.",
        _FILES,
        metavar="FILE",
    )
    mask: Path | None = flag(
        None, "Mask the words of this file, one per line.", _FILES, metavar="FILE"
    )
    colour: bool = flag(False, "Shade words by confidence.", also=("--color",))
    as_json: bool = flag(False, "Print events and statistics as JSON Lines.", name="--json")
    web: bool = flag(False, "Serve a page with large captions.")
    web_host: str = flag("127.0.0.1", "Address to listen on; 0.0.0.0 is every interface.", _PAGE)
    web_port: int = flag(8765, "Port to listen on; 0 takes a free one.", _PAGE)
    web_allow_host: tuple[str, ...] = flag(
        (), "Further host name of the page.", _PAGE, metavar="NAME"
    )
    web_frame: tuple[str, ...] = flag(
        (),
        "Origin that may frame it, as http://homeassistant.local:8123.",
        _PAGE,
        metavar="ORIGIN",
        settings_only=True,
    )

    web_token: str | None = flag(
        None,
        "Token to view, record and control.",
        _PAGE,
        metavar="TOKEN",
        shown="one is made up, for controls",
    )
    web_cert: Path | None = flag(
        None, "Serve HTTPS with this certificate.", _PAGE, metavar="FILE", settings_only=True
    )
    web_key: Path | None = flag(
        None, "Private key of the certificate.", _PAGE, metavar="FILE", settings_only=True
    )

    def __post_init__(self) -> None:
        expect(self, "web_port", 0 <= self.web_port <= _LAST_PORT, f"0 to {_LAST_PORT}")

    def expect_use(self, source: SourceOptions) -> None:
        """Refuse options that have no effect without another.

        Raises:
            OptionError: there is one.
        """
        if source.mic == "browser" and not self.web:
            raise OptionError("--mic browser needs --web, the page that it records in; give both")
        kept = bool(self.events or self.output or self.record)
        refuse_idle(self, "rotate", kept, "--events, --output or --record")
        for name in (
            "web_host", "web_port", "web_allow_host", "web_frame",
            "web_token", "web_cert", "web_key",
        ):  # fmt: skip
            refuse_idle(self, name, self.web, "--web")
        refuse_idle(self, "colour", not self.as_json, "a terminal, not --json")

    def expect_subtitles(self, layout: PartialOptions[Layout]) -> None:
        """Refuse the shape of subtitles where there are none.

        Raises:
            OptionError: it is given.
        """
        written = any(path.suffix.lower() in (".srt", ".vtt") for path in self.output)
        if layout.typed and not (written or self.web):
            raise OptionError(
                "--max-line-width and --max-line-count go with --output of .srt or .vtt, or --web, "
                "and have no effect here; leave them out"
            )

    def replacements(self) -> Replacements:
        """Read the replacements and the masks of words."""
        from whisper_hailo.live.outputs.replacements import Replacements

        given = Replacements({}) if self.replace is None else Replacements.read(self.replace)
        return given if self.mask is None else given | Replacements.masks(self.mask)

    def hotwords(self) -> str:
        """Return the shown words of the replacements, which the decoder is to expect."""
        from whisper_hailo.live.outputs.replacements import Replacements

        if self.replace is None:
            return ""
        return ", ".join(filter(None, Replacements.read(self.replace).phrases.values()))

    def recording(self, audio: str | None) -> FlacRecording | None:
        """Return the recording that the audio is kept in, not open yet."""
        if self.record is None:
            return None
        from whisper_hailo.live.outputs.files import identity
        from whisper_hailo.live.outputs.recording import FlacRecording

        recording = FlacRecording(self.record, self.rotate)
        recording.file.check(identity(audio))
        return recording

    def place(self) -> Place | None:
        """Return where and for whom the page is served, if it is."""
        from whisper_hailo.serve.routes.captions.view import Place

        if not self.web:
            return None
        return Place.of(
            self.web_host,
            self.web_port,
            names=self.web_allow_host,
            framed_by=self.web_frame,
            token=self.web_token,
            tls=Tls(self.web_cert, self.web_key, ("web-cert", "web-key")),
        )
