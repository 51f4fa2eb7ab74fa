"""`whisper-hailo caption`: captions while speech runs."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.caption_options import (
    DECODING,
    CaptionModel,
    ShowOptions,
    SourceOptions,
    open_recognizer,
    open_transcriber,
    refuse_whisper_options,
)
from whisper_hailo.cli.caption_views import (
    LatencyWarning,
    TerminalView,
    print_statistics,
)
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
    from whisper_hailo.live.captioner import Captioner
    from whisper_hailo.live.finished import FinishedRecording
    from whisper_hailo.live.outputs.files import CaptionFile, EventFile
    from whisper_hailo.live.outputs.replacements import Replacements
    from whisper_hailo.live.sources.source import LiveSource
    from whisper_hailo.live.statistics import CaptionStatistics
    from whisper_hailo.live.stream import CaptionStream, Controls
    from whisper_hailo.serve.routes.captions.access import PageAddress
    from whisper_hailo.serve.routes.captions.view import WebView

logger = logging.getLogger(__name__)


def caption(
    source: SourceOptions,
    model: PartialOptions[CaptionModel],
    options: PartialOptions[CaptionOptions],
    decoding: Annotated[PartialOptions[DecodingOptions], FieldSubset(DECODING)],
    layout: Annotated[
        PartialOptions[Layout], FieldSubset(("max_line_width", "max_line_count"))
    ],
    show: ShowOptions,
    audio: Annotated[str | None, Argument()] = None,
) -> int:
    """Caption a microphone, a file, an address such as rtsp://..., or raw PCM from -."""
    from whisper_hailo.audio.vad import make_detector
    from whisper_hailo.live.captioner import Captioner
    from whisper_hailo.live.outputs.replacements import Replacements
    from whisper_hailo.live.stream import CaptionStream, Controls

    if source.list_devices:
        return _list_devices()
    # Wrong options, files and addresses are refused before a model is fetched.
    show.expect_use(source.mic, layout)
    model_options = model.build()
    caption_options = options.build()
    model_options.expect_language(decoding.build())
    if model_options.moonshine is not None:
        refuse_whisper_options(model, decoding, options)
    source.expect_use(audio)
    page_address = show.page_address()
    replacements = (
        Replacements({}) if show.replace is None else Replacements.read(show.replace)
    )
    release_freed_memory()
    shows_partials = _shows_partials(source, audio, show)
    if not shows_partials and takes_transcript(model_options, decoding, options, show):
        return caption_recording(
            str(audio), model_options, decoding, show, layout, replacements
        )
    detector = make_detector()
    if not shows_partials and "min_partial_s" not in options.values:
        caption_options = replace(caption_options, min_partial_s=0.0)
    with contextlib.ExitStack() as stack:
        files, recording = show.make_files(audio, _cue_layout(layout))
        live_source = source.make_source(audio)
        hotwords = _shown_phrases(replacements)
        recognizer = open_recognizer(
            model_options, decoding, caption_options, hotwords, stack
        )
        stack.enter_context(live_source)
        captioner = Captioner(recognizer, detector, caption_options)
        controls = Controls()
        view = None
        if page_address is not None:
            # Before the files: its port may be taken, and no file must be left without captions.
            view = _open_page(page_address, live_source, captioner, controls, stack)
        sinks = _open_sinks(files, show, captioner.statistics, stack)
        supervisor = Supervisor()
        stream = CaptionStream(live_source, captioner, supervisor.alive, controls)
        if recording is not None:
            stream.recorders.append(stack.enter_context(recording).put)
        if view is not None:
            sinks.append(view.put)
            stream.listeners.append(lambda block: view.put_audio(block.audio))
        logger.info("%s, listening to %s", recognizer.name, live_source.name)
        supervisor.ready(f"listening to {live_source.name}")
        try:
            interrupted = _show_events(stream, replacements, sinks)
        finally:
            supervisor.stopping()
            print_statistics(captioner.statistics, as_json=show.as_json)
    # An endless source has no other end than a user's.
    return (
        ExitCode.INTERRUPTED if interrupted and not live_source.endless else ExitCode.OK
    )


def _cue_layout(given: PartialOptions[Layout]) -> Layout:
    """Return readable cues, unless a limit is given, as for `transcribe`."""
    from whisper_hailo.live.outputs.files import CUES

    return given.apply_to(CUES) if given.values else Layout()


def _shows_partials(
    source: SourceOptions, audio: str | None, show: ShowOptions
) -> bool:
    """Return whether somebody may read captions while they run; not of a file at full speed."""
    if not source.is_file(audio) or source.real_time:
        return True
    return bool(show.events or show.as_json or show.web)


def takes_transcript(
    model: CaptionModel,
    decoding: PartialOptions[DecodingOptions],
    options: PartialOptions[CaptionOptions],
    show: ShowOptions,
) -> bool:
    """Return whether a file's captions are its transcript: nothing asks for what only they do."""
    is_whisper = model.moonshine is None
    is_translated = decoding.values.get("task") == "translate"  # beside the original
    return is_whisper and not (is_translated or options.values or show.record)


def caption_recording(
    path: str,
    model: CaptionModel,
    decoding: PartialOptions[DecodingOptions],
    show: ShowOptions,
    layout: PartialOptions[Layout],
    replacements: Replacements,
) -> int:
    """Write the transcript of a file as captions."""
    from whisper_hailo.live.finished import FinishedRecording

    with contextlib.ExitStack() as stack:
        files, _ = show.make_files(path, _cue_layout(layout), is_live=False)
        has_words = show.colour or show.has_cues
        transcriber, decoding_options = open_transcriber(
            model, decoding, _shown_phrases(replacements), stack, has_words=has_words
        )
        recording = FinishedRecording(transcriber, path, decoding_options)
        sinks = _open_sinks(files, show, recording.statistics, stack)
        try:
            interrupted = _show_events(recording, replacements, sinks)
        finally:
            print_statistics(recording.statistics, as_json=False)
    return ExitCode.INTERRUPTED if interrupted else ExitCode.OK


def _shown_phrases(replacements: Replacements) -> str:
    """Return the texts that --replace shows, as hotwords; masked words are none."""
    texts = [text for text in replacements.phrases.values() if text and "*" not in text]
    return ", ".join(texts)


def _open_page(
    address: PageAddress,
    source: LiveSource,
    captioner: Captioner,
    controls: Controls,
    stack: contextlib.ExitStack,
) -> WebView:
    """Serve the page until the stack ends, and log where it is."""
    from whisper_hailo.live.sources.network import BrowserSource
    from whisper_hailo.serve.routes.captions.view import WebView

    view = WebView(
        lambda: captioner.statistics,
        address,
        browser=source if isinstance(source, BrowserSource) else None,
        controls=controls,
        settings=captioner.settings,
    )
    stack.enter_context(view)
    others = ""
    if view.address_for_others:
        others = f" and, for others, {view.address_for_others}"
    logger.info("captions at %s%s", view.address, others)
    if address.access.is_generated:
        logger.info("to control them: %s", view.address_to_control)
    else:
        logger.info(
            "to see them, add ?token= and the value of --web-token to the address"
        )
    return view


def _open_sinks(
    files: Sequence[EventFile | CaptionFile],
    show: ShowOptions,
    statistics: CaptionStatistics,
    stack: contextlib.ExitStack,
) -> list[Callable[[Event], None]]:
    """Open the outputs of events except the page; files come before the view."""
    if files or show.web or show.record:
        # They go on when standard output fails; alone, its failure ends the program.
        stack.enter_context(patient_results())
    sinks: list[Callable[[Event], None]] = []
    for file in files:
        sinks.append(stack.enter_context(file).put)
    if show.as_json:
        sinks.append(lambda event: emit_json(as_json(event)))
    else:
        view = TerminalView(colour=show.colour)
        stack.callback(view.close)
        sinks.append(view.put)
    return [*sinks, LatencyWarning(statistics).put]


def _show_events(
    stream: CaptionStream | FinishedRecording,
    replacements: Replacements,
    sinks: list[Callable[[Event], None]],
) -> bool:
    """Show all events; return whether the user ended the stream.

    Ctrl-C or SIGTERM ends it with its last segment; a second signal ends the program at once.
    """
    interrupted = False

    def stop(_signal: int, _frame: object) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        stream.stop()

    handlers = {
        number: signal.signal(number, stop)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        for event in map(replacements.apply, stream.events()):
            if is_verbose():
                # Without its words: a log may be read by others than the captions.
                logger.debug("%s at %.2f s", event.name, event.start_s)
            for sink in sinks:
                sink(event)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return interrupted


def _list_devices() -> int:
    from whisper_hailo.live.sources.microphone import list_input_devices

    for device in list_input_devices():
        mark = "*" if device.is_default else " "
        emit(
            f"{mark} {device.index:>3}  {device.name}, {device.n_channels} channels, "
            f"{device.rate_hz} Hz\n"
        )
    return ExitCode.OK
