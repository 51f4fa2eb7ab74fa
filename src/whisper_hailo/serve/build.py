"""An engine for a model and the settings of a server."""

from __future__ import annotations

import time

from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.serve.audio import AudioLimits
from whisper_hailo.serve.engine import Engine, Served
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.options import DoorOptions, LimitOptions
from whisper_hailo.serve.quota import Quota
from whisper_hailo.serve.request import Defaults
from whisper_hailo.serve.worker import Worker, WorkerOptions
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber


def make_worker(
    transcriber: Transcriber,
    default: DecodingOptions,
    long: LongOptions,
    doors: DoorOptions,
    limits: LimitOptions,
) -> Worker:
    """The thread that decodes, not begun.

    Args:
        transcriber: not open.
        default: options of requests that choose nothing.
        long: likewise.
        doors: whether texts are logged.
        limits: how much is taken on.
    """
    options = WorkerOptions(
        batch_size=limits.batch_size,
        release_after_s=limits.release_after_s,
        log_text=doors.log_text,
    )
    return Worker(transcriber, default, options, Metrics(), long, quota=Quota(limits))


def make_engine(
    worker: Worker, fallback: float, doors: DoorOptions, limits: LimitOptions
) -> Engine:
    """What the doors know of it.

    Args:
        worker: that decodes.
        fallback: by how much each try of doubtful text is hotter; 0 is off.
        doors: other names of the model.
        limits: of a request.
    """
    transcriber, default = worker.transcriber, worker.default
    languages = tuple(transcriber.tokenizer.special.languages) or ("en",)
    name = transcriber.settings(default).model
    return Engine(
        worker,
        Served(name, doors.alias, languages, int(time.time())),
        Defaults(default, worker.long, fallback),
        limits=AudioLimits(limits.max_upload_mib << 20, limits.max_audio_s),
        deadline_s=limits.deadline_s,
    )
