"""`whisper-hailo caption`: captions while speech runs."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.caption_options import (
    DECODING,
    NO_EFFECT,
    CaptionModel,
    ShowOptions,
    SourceOptions,
    caption_engine,
    decoding_of,
    expect_heard,
)
from whisper_hailo.cli.caption_views import report
from whisper_hailo.cli.messages import is_verbose
from whisper_hailo.cli.options import Argument, FieldSubset
from whisper_hailo.cli.streams import emit, patient_results
from whisper_hailo.core.errors import ExitCode, display_path
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.core.process import Supervisor, release_freed_memory, require_extra
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.text.subtitles import Layout

if TYPE_CHECKING:
    from whisper_hailo.live.captioner import Captioner
    from whisper_hailo.live.outputs.files import CaptionFile, EventFile
    from whisper_hailo.live.outputs.replacements import Replacements
    from whisper_hailo.live.outputs.retried import EventSink, FlacRecording
    from whisper_hailo.live.sources.network import BrowserSource
    from whisper_hailo.live.sources.source import AudioSource
    from whisper_hailo.live.statistics import CaptionStatistics
    from whisper_hailo.live.stream import CaptionStream, Controls
    from whisper_hailo.serve.routes.captions.view import PageAddress, WebView

logger = logging.getLogger(__name__)


def caption(
    source: SourceOptions,
    model: CaptionModel,
    options: CaptionOptions,
    decoding: Annotated[PartialOptions[DecodingOptions], FieldSubset(DECODING, NO_EFFECT)],
    layout: Annotated[PartialOptions[Layout], FieldSubset(("max_line_width", "max_line_count"))],
    show: ShowOptions,
    audio: Annotated[str | None, Argument()] = None,
) -> int:
    """Caption a microphone, a file, an address such as rtsp://..., raw PCM from -."""
    from whisper_hailo.audio.vad import SileroDetector
    from whisper_hailo.live.captioner import Captioner
    from whisper_hailo.live.outputs.files import CUES
    from whisper_hailo.live.sources.network import BrowserSource
    from whisper_hailo.live.sources.wrappers import PausableSource
    from whisper_hailo.live.stream import CaptionStream, Controls

    if source.list_devices:
        return _list_devices()
    audio = source.played(audio)
    _expect_use(source, audio, show, layout)
    expect_heard(model, options)
    model.expect_language(decoding_of(decoding, AntiRepetition()))
    _expect_recording(audio)
    detector = SileroDetector()  # where it is missing, before a model is fetched
    browser = BrowserSource() if source.mic == "browser" else None
    place, replacements = show.place(), show.replacements()
    release_freed_memory()
    with contextlib.ExitStack() as stack:
        files = show.files(audio, layout.on(CUES))
        recording, heard = show.recording(audio), browser or source.source(audio)
        engine = caption_engine(model, decoding, options, show.hotwords(), stack)
        pausable = PausableSource(heard)
        stream_source, controls = _recorded(pausable, recording, stack), Controls(pausable)
        captioner = Captioner(engine, detector, options)
        sinks = _sinks(files, show, captioner.statistics, stack)
        supervisor = Supervisor()
        stream = CaptionStream(stream_source, captioner, supervisor.alive, controls=controls)
        if place is not None:
            view = _web(captioner, place, browser, controls)
            sinks.append(stack.enter_context(view))
            _follow(view, stream, place)
        logger.info("%s, listening to %s", engine.name, stream_source.name)
        supervisor.ready(f"listening to {stream_source.name}")
        try:
            interrupted = _run(stream, replacements, sinks)
        finally:
            supervisor.stopping()
            report(captioner.statistics, as_json=show.as_json)
    return ExitCode.INTERRUPTED if interrupted and not stream_source.endless else ExitCode.OK


def _expect_use(
    source: SourceOptions, audio: str | None, show: ShowOptions, layout: PartialOptions[Layout]
) -> None:
    """Refuse contradictory options, and those whose extra is not installed."""
    source.expect_use(audio)
    show.expect_use(source)
    show.expect_subtitles(layout)
    if show.web:
        require_extra("web", "--web", "starlette", "uvicorn", "websockets")
    if audio is None and source.mic not in (None, "browser"):
        require_extra("live", "--mic", "sounddevice")


def _expect_recording(audio: str | None) -> None:
    """Refuse a missing or empty file."""
    from whisper_hailo.audio.files import find_fault

    if audio is None or audio == "-" or "://" in audio:
        return
    fault = find_fault(Path(audio), display_path(audio))
    if fault is not None:
        raise fault


def _recorded(
    source: AudioSource, recording: FlacRecording | None, stack: contextlib.ExitStack
) -> AudioSource:
    """Wrap a source so that it is recorded, if requested, and open it."""
    from whisper_hailo.live.outputs.retried import RecordedSource

    if recording is not None:
        source = RecordedSource(source, stack.enter_context(recording))
    return stack.enter_context(source)


def _sinks(
    files: Sequence[EventFile | CaptionFile],
    show: ShowOptions,
    statistics: CaptionStatistics,
    stack: contextlib.ExitStack,
) -> list[EventSink]:
    """Open the outputs of events except the page; files come before the view."""
    from whisper_hailo.cli.caption_views import LatencyWarning, VerboseView
    from whisper_hailo.live.outputs.retried import RetriedSink

    stack.enter_context(patient_results(alone=not (files or show.web or show.record)))
    verbose = [VerboseView(statistics)] if is_verbose() else []
    retried = [stack.enter_context(RetriedSink(file)) for file in files]
    return [*verbose, *retried, _view(show, stack), LatencyWarning(statistics)]


def _web(
    captioner: Captioner,
    place: PageAddress,
    browser: BrowserSource | None,
    controls: Controls,
) -> WebView:
    """Return the page, not open yet."""
    from whisper_hailo.serve.routes.captions.view import WebView

    return WebView(
        lambda: captioner.statistics,
        place,
        browser=browser,
        controls=controls,
        settings=captioner.settings,
    )


def _follow(view: WebView, stream: CaptionStream, place: PageAddress) -> None:
    """Show the stream's level on the page, and log its address."""
    stream.hear = view.hear
    others = f" and, for others, {view.address_for_others}" if view.address_for_others else ""
    logger.info("captions at %s%s", view.address, others)
    if place.access.is_generated:
        logger.info("to control them: %s", view.address_to_control)
    else:
        logger.info("they are shown to those who add ?token= and what --web-token says")


def _run(stream: CaptionStream, replacements: Replacements, sinks: list[EventSink]) -> bool:
    """Show all events; return whether the user ended the stream.

    Ctrl-C or SIGTERM stops it; the second signal ends the program.
    """
    interrupted = False

    def stop(_signal: int, _frame: object) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        stream.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for event in map(replacements.apply, stream.events()):
            for sink in sinks:
                sink.put(event)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return interrupted


def _view(show: ShowOptions, stack: contextlib.ExitStack) -> EventSink:
    """Return the view of captions on standard output."""
    from whisper_hailo.cli.caption_views import JsonView, TerminalView

    if show.as_json:
        return JsonView()
    view = TerminalView(colour=show.colour)
    stack.callback(view.close)
    return view


def _list_devices() -> int:
    from whisper_hailo.live.sources.microphone import input_devices

    for device in input_devices():
        mark = "*" if device.is_default else " "
        emit(
            f"{mark} {device.index:>3}  {device.name}, {device.n_channels} channels, "
            f"{device.rate_hz} Hz\n"
        )
    return ExitCode.OK
