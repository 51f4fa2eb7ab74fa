"""`whisper-hailo serve`: models behind several APIs."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import Annotated

from whisper_hailo.backends.options import ChipPriority
from whisper_hailo.cli.options import FieldSubset
from whisper_hailo.cli.transcribe_options import Fallback, ModelOptions, log_engine
from whisper_hailo.core.errors import ExitCode, OptionError
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.core.process import release_freed_memory, require_extra
from whisper_hailo.decoding.options import FALLBACK_STEP, DecodingOptions
from whisper_hailo.serve.options import (
    DEFAULT_HTTP,
    Address,
    HomeAssistantOptions,
    LimitOptions,
    ListenOptions,
    SafetyOptions,
)
from whisper_hailo.transcription.longform.options import LongOptions

logger = logging.getLogger(__name__)

_MODEL = ("revision", "convert", "window", "margin_s", "engine", "threads")
_DECODING = (
    "language",
    "anti_repetition",
    "max_new_tokens",
    "search",
    "thresholds",
    "limits",
    "prompts",
)
_PACKAGES = ("fastapi", "uvicorn", "multipart", "prometheus_client", "wyoming")
_LONG = ("trim_window", "skip_silence", "vad_threshold")


def serve(
    listen: ListenOptions,
    model: Annotated[ModelOptions, FieldSubset(_MODEL)],
    decoding: Annotated[PartialOptions[DecodingOptions], FieldSubset(_DECODING)],
    fallback: Fallback,
    long: Annotated[LongOptions, FieldSubset(_LONG)],
    limits: LimitOptions,
    safety: SafetyOptions,
    home: HomeAssistantOptions,
) -> int:
    """Serve OpenAI's API over HTTP, or Wyoming for Home Assistant."""
    require_extra("server", "serve", *_PACKAGES)
    from whisper_hailo.serve.log_format import formatted_log
    from whisper_hailo.serve.request import RequestDefaults
    from whisper_hailo.serve.server import bind_addresses, run_server
    from whisper_hailo.serve.service import make_service

    if listen.http is None and listen.wyoming is None:
        listen = replace(listen, http=Address.parse(DEFAULT_HTTP))
    # Each of these refuses what is wrong, before a model is looked for.
    fallback.apply(decoding, DecodingOptions(), FALLBACK_STEP)
    safety.keys()
    safety.tls()
    if home.home_assistant is not None:
        home.token()
        if listen.wyoming is None:
            raise OptionError("--home-assistant is for Wyoming; give --wyoming too")
    release_freed_memory()
    with (
        formatted_log(as_json=listen.log_json),
        bind_addresses(listen, tls=safety.tls_cert is not None) as listeners,
    ):
        models = []
        for name in listen.model:
            transcriber = replace(model, model=name).transcriber(ChipPriority.LIVE)
            step = fallback.fallback
            if step is None:
                step = transcriber.default_fallback
            options = fallback.apply(decoding, transcriber.default_options, step)
            transcriber.check(options, long)
            log_engine(transcriber)
            models.append((transcriber, RequestDefaults(options, long, step)))
        service = make_service(models, listen, limits)
        serving = partial(logger.info, "serving at %s")
        with service:
            asyncio.run(
                run_server(
                    service,
                    listeners,
                    listen=listen,
                    safety=safety,
                    home=home,
                    serving=serving,
                )
            )
    return ExitCode.OK
