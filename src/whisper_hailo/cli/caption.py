"""`whisper-hailo caption`: captions while speech runs."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whisper_hailo.backends.hailo.options import Priority
from whisper_hailo.cli.flags.caption import SegmentFlags, SourceFlags
from whisper_hailo.cli.flags.cures import CureFlags
from whisper_hailo.cli.flags.gates import GateFlags
from whisper_hailo.cli.flags.language import LanguageFlags
from whisper_hailo.cli.flags.model import ModelFlags
from whisper_hailo.cli.flags.prompts import PromptFlags
from whisper_hailo.cli.groups import grouped
from whisper_hailo.cli.stdout import emit, emit_json
from whisper_hailo.core.errors import ExitCode, OptionError

if TYPE_CHECKING:
    from whisper_hailo.decoding.options import Cures, DecodingOptions
    from whisper_hailo.live.browser import BrowserSource
    from whisper_hailo.live.captioner import Captioner
    from whisper_hailo.live.engine import CaptionEngine
    from whisper_hailo.live.files import EventSink
    from whisper_hailo.live.hosts import Hosts
    from whisper_hailo.live.options import CaptionOptions
    from whisper_hailo.live.statistics import Statistics
    from whisper_hailo.live.stream import CaptionStream

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShowFlags:
    """What becomes of the captions."""

    events: Annotated[
        Path | None,
        typer.Option(metavar="F.jsonl", help="Write all events there.", readable=False),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Grow a .srt, .vtt or .txt file.", readable=False),
    ] = None
    colour: Annotated[bool, typer.Option("--colour", help="Shade words by confidence.")] = False
    as_json: Annotated[
        bool, typer.Option("--json", help="Print events and statistics as JSON Lines.")
    ] = False
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Tell what each look at the audio cost, on stderr."),
    ] = False
    web: Annotated[
        bool, typer.Option("--web", help="Serve a page with large captions to this machine.")
    ] = False
    web_host: Annotated[
        str, typer.Option(metavar="HOST", help="0.0.0.0 serves everyone who reaches you.")
    ] = "127.0.0.1"
    web_port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8765
    web_allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name by which the page may be asked for, too."),
    ] = None

    def hosts(self) -> Hosts | None:
        """Names by which the page may be asked for, if there is one.

        Raises:
            OptionError: they are none.
        """
        from whisper_hailo.live.hosts import Hosts

        return Hosts.of(self.web_host, self.web_allow_host or ()) if self.web else None


@grouped
def caption(
    source: SourceFlags,
    model: ModelFlags,
    segments: SegmentFlags,
    language: LanguageFlags,
    cures: CureFlags,
    gates: GateFlags,
    prompts: PromptFlags,
    show: ShowFlags,
    audio: Annotated[
        str | None,
        typer.Argument(help="A file, an address such as rtsp://..., or - for raw PCM."),
    ] = None,
) -> int:
    """Caption a microphone, a file, a stream or raw PCM while speech runs."""
    from whisper_hailo.audio.vad import SileroDetector
    from whisper_hailo.cli.caption_verbose import VerboseView
    from whisper_hailo.live.captioner import Captioner
    from whisper_hailo.live.engine import warm_up
    from whisper_hailo.live.files import caption_files
    from whisper_hailo.live.sources import open_source
    from whisper_hailo.live.stream import CaptionStream

    if source.list_devices:
        return _list_devices()
    options = segments.options()
    detector = SileroDetector("live")  # where it is missing, before a model is fetched
    browser, hosts = _browser(source, show), show.hosts()
    with contextlib.ExitStack() as stack:
        files = caption_files(audio, show.events, show.output)
        stream_source = browser or open_source(
            audio,
            microphone=None if source.mic is None else source.mic.replace("default", ""),
            real_time=source.real_time,
            rate_hz=source.rate,
            loops=source.loops,
        )
        decoding = partial(_decoding, language, cures, gates, prompts)
        engine = _engine(model, segments.moonshine, options, decoding, stack)
        warm_up(engine)
        stack.enter_context(stream_source)
        for file in files:
            stack.enter_context(file)
        sinks: list[EventSink] = [*files, _view(show, stack)]
        captioner = Captioner(engine, detector, options)
        if show.verbose:
            sinks.insert(0, VerboseView(captioner.statistics))
        if hosts is not None:
            sinks.append(_web(captioner, show, hosts, browser, stack))
        stream = CaptionStream(stream_source, captioner)
        logger.info("%s, listening to %s", engine.name, stream_source.name)
        try:
            interrupted = _run(stream, sinks)
        finally:
            _report(captioner.statistics, show)
    return ExitCode.INTERRUPTED if interrupted and not stream_source.endless else ExitCode.OK


def _engine(
    model: ModelFlags,
    moonshine: str | None,
    options: CaptionOptions,
    decoding: Callable[[Cures], DecodingOptions],
    stack: contextlib.ExitStack,
) -> CaptionEngine:
    """Our own engine or Moonshine, open until the stack ends.

    Raises:
        OptionError: a rule that Moonshine cannot honour.
    """
    from whisper_hailo.decoding.options import Cures
    from whisper_hailo.decoding.recognizer import refuse_unhonoured
    from whisper_hailo.live.engine import TranscriberEngine
    from whisper_hailo.live.moonshine import LONGEST_S, MoonshineEngine

    if moonshine is None:
        transcriber = model.transcriber(Priority.LIVE)
        engine = TranscriberEngine(
            transcriber, decoding(transcriber.default_cures), snug=options.snug
        )
        stack.enter_context(transcriber)
        return engine
    bounded = frozenset({"limits.max_per_second"})  # it has a bound of its own
    refuse_unhonoured(decoding(Cures()), bounded, "Moonshine")
    longest_s = LONGEST_S if options.max_segment_s is None else options.max_segment_s
    return stack.enter_context(MoonshineEngine(moonshine, longest_s))


def _browser(source: SourceFlags, show: ShowFlags) -> BrowserSource | None:
    """A browser's microphone, where that is asked for."""
    from whisper_hailo.live.browser import BrowserSource

    if source.mic != "browser":
        return None
    if not show.web:
        raise OptionError("--mic browser needs --web, the page that it records in; give both")
    return BrowserSource()


def _web(
    captioner: Captioner,
    show: ShowFlags,
    hosts: Hosts,
    browser: BrowserSource | None,
    stack: contextlib.ExitStack,
) -> EventSink:
    from whisper_hailo.live.web import WebView

    view = WebView(lambda: captioner.statistics, show.web_host, show.web_port, browser, hosts)
    stack.enter_context(view)
    logger.info("captions at %s", view.address)
    return view


def _run(stream: CaptionStream, sinks: list[EventSink]) -> bool:
    """Show all events; whether the user ended it before the source did."""
    interrupted = False

    def stop(_signal: int, _frame: object) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        stream.stop()

    with _handling(stop):
        for event in stream.events():
            for sink in sinks:
                sink.put(event)
    return interrupted


@contextlib.contextmanager
def _handling(stop: Any) -> Iterator[None]:  # noqa: ANN401 - a signal handler
    """Ctrl-C and a service manager's stop end the stream; the second time, the program."""
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _decoding(
    language: LanguageFlags,
    cures: CureFlags,
    gates: GateFlags,
    prompts: PromptFlags,
    start: Cures,
) -> DecodingOptions:
    from whisper_hailo.decoding.options import DecodingOptions
    from whisper_hailo.live.engine import TOKENS_PER_SECOND

    limits = cures.limits()
    if limits.max_per_second is None:
        limits = replace(limits, max_per_second=TOKENS_PER_SECOND)
    return DecodingOptions(
        language=language.language,
        task=language.task,
        cures=cures.cures(start),
        max_new_tokens=cures.max_new_tokens,
        gates=gates.gates(),
        limits=limits,
        prompts=prompts.prompts(),
    )


def _view(show: ShowFlags, stack: contextlib.ExitStack) -> EventSink:
    """What shows the captions on standard output."""
    from whisper_hailo.cli.caption_view import JsonView, TerminalView

    if show.as_json:
        return JsonView()
    view = TerminalView(colour=show.colour)
    stack.callback(view.close)
    return view


def _report(statistics: Statistics, show: ShowFlags) -> None:
    """The figures of the run: JSON on standard output, or a table on standard error."""
    figures = statistics.as_json()
    if show.as_json:
        emit_json({"event": "statistics", **figures})
        return
    for name, value in figures.items():
        if logger.isEnabledFor(logging.INFO):
            print(f"{name:>32}  {'-' if value is None else value}", file=sys.stderr)


def _list_devices() -> int:
    from whisper_hailo.live.microphone import input_devices

    for device in input_devices():
        mark = "*" if device.is_default else " "
        emit(
            f"{mark} {device.index:>3}  {device.name}, {device.n_channels} channels, "
            f"{device.rate_hz} Hz\n"
        )
    return ExitCode.OK
