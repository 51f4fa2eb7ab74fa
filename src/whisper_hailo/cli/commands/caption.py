"""`whisper-hailo caption`: captions while speech runs."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class CaptionRequest:
    """What the command line asks of captions, checked as far as that goes without a model."""

    source: SourceOptions
    audio: str | None
    model: CaptionModel
    decoding: PartialOptions[DecodingOptions]
    options: PartialOptions[CaptionOptions]
    layout: PartialOptions[Layout]
    show: ShowOptions
    replacements: Replacements
    page: PageAddress | None

    @property
    def shows_partials(self) -> bool:
        """Whether somebody may read captions while they run; not of a file at full speed."""
        if not self.source.is_file(self.audio) or self.source.real_time:
            return True
        return bool(self.show.events or self.show.as_json or self.show.web)

    @property
    def takes_transcript(self) -> bool:
        """Whether a file's captions are its transcript: nothing asks for what only they do."""
        is_whisper = self.model.moonshine is None
        # A translation stands beside the original.
        is_translated = self.decoding.values.get("task") == "translate"
        asks_for_more = is_translated or self.options.values or self.show.record
        return is_whisper and not self.shows_partials and not asks_for_more

    @property
    def caption_options(self) -> CaptionOptions:
        """The given ones, without partials where none are shown, unless an option asks for them."""
        options = self.options.build()
        if self.shows_partials or "min_partial_s" in self.options.values:
            return options
        return replace(options, min_partial_s=0.0)

    @property
    def hotwords(self) -> str:
        """Texts that --replace shows; masked words are none."""
        phrases = self.replacements.phrases.values()
        return ", ".join(text for text in phrases if text and "*" not in text)

    @property
    def cue_layout(self) -> Layout:
        """Readable cues, unless a limit is given, as for `transcribe`."""
        from whisper_hailo.live.outputs.files import CUES

        return self.layout.apply_to(CUES) if self.layout.values else Layout()


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
    from whisper_hailo.live.outputs.replacements import Replacements

    if source.list_devices:
        return _list_devices()
    # Wrong options, files and addresses are refused before a model is fetched.
    show.expect_use(source.mic, layout)
    model_options = model.build()
    options.build()  # raises OptionError
    model_options.expect_language(decoding.build())
    if model_options.moonshine is not None:
        refuse_whisper_options(model, decoding, options)
    source.expect_use(audio)
    replacements = Replacements({})
    if show.replace is not None:
        replacements = Replacements.read(show.replace)
    request = CaptionRequest(
        source=source,
        audio=audio,
        model=model_options,
        decoding=decoding,
        options=options,
        layout=layout,
        show=show,
        page=show.page_address(),
        replacements=replacements,
    )
    release_freed_memory()
    if request.takes_transcript:
        return caption_recording(request)
    return caption_stream(request)


def caption_stream(request: CaptionRequest) -> ExitCode:
    """Caption a source while it runs."""
    from whisper_hailo.audio.vad import make_detector
    from whisper_hailo.live.captioner import Captioner
    from whisper_hailo.live.stream import CaptionStream, Controls

    show = request.show
    options = request.caption_options
    detector = make_detector()
    with contextlib.ExitStack() as stack:
        files, recording = show.make_files(request.audio, request.cue_layout)
        source = request.source.make_source(request.audio)
        recognizer = open_recognizer(
            request.model, request.decoding, options, request.hotwords, stack
        )
        stack.enter_context(source)
        captioner = Captioner(recognizer, detector, options)
        controls = Controls()
        view = None
        if request.page is not None:
            # Before the files: its port may be taken, and no file must be left without captions.
            view = _open_page(request.page, source, captioner, controls, stack)
        sinks = _open_sinks(files, show, captioner.statistics, stack)
        supervisor = Supervisor()
        stream = CaptionStream(source, captioner, supervisor.alive, controls)
        if recording is not None:
            stream.recorders.append(stack.enter_context(recording).put)
        if view is not None:
            sinks.append(view.put)
            stream.listeners.append(lambda block: view.put_audio(block.audio))
        logger.info("%s, listening to %s", recognizer.name, source.name)
        supervisor.ready(f"listening to {source.name}")
        try:
            interrupted = _show_events(stream, request.replacements, sinks)
        finally:
            supervisor.stopping()
            print_statistics(captioner.statistics, as_json=show.as_json)
    # An endless source has no other end than a user's.
    return ExitCode.INTERRUPTED if interrupted and not source.endless else ExitCode.OK


def caption_recording(request: CaptionRequest) -> ExitCode:
    """Write the transcript of a file as captions."""
    from whisper_hailo.live.finished import FinishedRecording

    show = request.show
    path = str(request.audio)
    with contextlib.ExitStack() as stack:
        files, _ = show.make_files(path, request.cue_layout, is_live=False)
        has_words = show.colour or show.has_cues
        transcriber, decoding_options = open_transcriber(
            request.model,
            request.decoding,
            request.hotwords,
            stack,
            has_words=has_words,
        )
        recording = FinishedRecording(transcriber, path, decoding_options)
        sinks = _open_sinks(files, show, recording.statistics, stack)
        try:
            interrupted = _show_events(recording, request.replacements, sinks)
        finally:
            print_statistics(recording.statistics, as_json=False)
    return ExitCode.INTERRUPTED if interrupted else ExitCode.OK


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
