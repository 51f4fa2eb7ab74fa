"""`whisper-hailo caption`: captions while speech runs."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.caption_options import (
    DECODING,
    CaptionModel,
    ShowOptions,
    SourceOptions,
    caption_engine,
    expect_heard,
)
from whisper_hailo.cli.caption_views import LatencyWarning, TerminalView, report
from whisper_hailo.cli.messages import is_verbose
from whisper_hailo.cli.options import Argument, FieldSubset
from whisper_hailo.cli.streams import emit, emit_json, patient_results
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.core.process import Supervisor, release_freed_memory
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.events import Event, as_json
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.text.subtitles import Layout

if TYPE_CHECKING:
    from whisper_hailo.live.outputs.files import CaptionFile, EventFile
    from whisper_hailo.live.outputs.replacements import Replacements
    from whisper_hailo.live.statistics import CaptionStatistics
    from whisper_hailo.live.stream import CaptionStream

logger = logging.getLogger(__name__)


def caption(
    source: SourceOptions,
    model: PartialOptions[CaptionModel],
    options: PartialOptions[CaptionOptions],
    decoding: Annotated[PartialOptions[DecodingOptions], FieldSubset(DECODING)],
    layout: Annotated[PartialOptions[Layout], FieldSubset(("max_line_width", "max_line_count"))],
    show: ShowOptions,
    audio: Annotated[str | None, Argument()] = None,
) -> int:
    """Caption a microphone, a file, an address such as rtsp://..., raw PCM from -."""
    from whisper_hailo.audio.vad import make_detector
    from whisper_hailo.live.captioner import Captioner
    from whisper_hailo.live.outputs.files import CUES
    from whisper_hailo.live.outputs.replacements import Replacements
    from whisper_hailo.live.sources.network import BrowserSource
    from whisper_hailo.live.stream import CaptionStream, Controls

    if source.list_devices:
        return _list_devices()
    show.expect_use(source.mic, layout)
    hearing, settings = model.build(), options.build()
    hearing.expect_language(decoding.build())
    if hearing.moonshine is not None:
        expect_heard(model, decoding, options)
    source.expect_use(audio)
    detector = make_detector()  # where it is missing, before a model is fetched
    place = show.place()
    replacements = Replacements({}) if show.replace is None else Replacements.read(show.replace)
    release_freed_memory()
    with contextlib.ExitStack() as stack:
        files, recording = show.files(audio, layout.apply_to(CUES))
        heard = source.source(audio)
        shown = replacements.phrases.values()
        hotwords = ", ".join(text for text in shown if text and "*" not in text)  # not masked
        engine = caption_engine(hearing, decoding, settings, hotwords, stack)
        stack.enter_context(heard)
        captioner, controls = Captioner(engine, detector, settings), Controls()
        sinks = _open_sinks(files, show, captioner.statistics, stack)
        supervisor = Supervisor()
        stream = CaptionStream(heard, captioner, supervisor.alive, controls)
        if recording is not None:
            stream.recorders.append(stack.enter_context(recording).put)
        if place is not None:
            from whisper_hailo.serve.routes.captions.view import WebView

            view = WebView(
                lambda: captioner.statistics,
                place,
                browser=heard if isinstance(heard, BrowserSource) else None,
                controls=controls,
                settings=captioner.settings,
            )
            sinks.append(stack.enter_context(view).put)
            stream.listeners.append(lambda block: view.hear(block.audio))
            others = view.address_for_others and f" and, for others, {view.address_for_others}"
            logger.info("captions at %s%s", view.address, others)
            if place.access.is_generated:
                logger.info("to control them: %s", view.address_to_control)
            else:
                logger.info("they are shown to those who add ?token= and what --web-token says")
        logger.info("%s, listening to %s", engine.name, heard.name)
        supervisor.ready(f"listening to {heard.name}")
        try:
            interrupted = _show_events(stream, replacements, sinks)
        finally:
            supervisor.stopping()
            report(captioner.statistics, as_json=show.as_json)
    return ExitCode.INTERRUPTED if interrupted and not heard.endless else ExitCode.OK


def _open_sinks(
    files: Sequence[EventFile | CaptionFile],
    show: ShowOptions,
    statistics: CaptionStatistics,
    stack: contextlib.ExitStack,
) -> list[Callable[[Event], None]]:
    """Open the outputs of events except the page; files come before the view."""
    if files or show.web or show.record:
        stack.enter_context(patient_results())
    sinks: list[Callable[[Event], None]] = [stack.enter_context(file).put for file in files]
    if show.as_json:
        sinks.append(lambda event: emit_json(as_json(event)))
    else:
        view = TerminalView(colour=show.colour)
        stack.callback(view.close)
        sinks.append(view.put)
    return [*sinks, LatencyWarning(statistics).put]


def _show_events(
    stream: CaptionStream, replacements: Replacements, sinks: list[Callable[[Event], None]]
) -> bool:
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
            if is_verbose():
                logger.debug("%s at %.2f s", type(event).__name__.lower(), event.start_s)
            for sink in sinks:
                sink(event)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return interrupted


def _list_devices() -> int:
    from whisper_hailo.live.sources.microphone import input_devices

    for device in input_devices():
        mark = "*" if device.is_default else " "
        emit(
            f"{mark} {device.index:>3}  {device.name}, {device.n_channels} channels, "
            f"{device.rate_hz} Hz\n"
        )
    return ExitCode.OK
