"""The only place where the stages meet: parts that fit each other, and what they do together."""

from whisper_hailo.pipeline.parts import Parts
from whisper_hailo.pipeline.transcriber import MAX_BATCH, AudioInput, Transcriber

__all__ = ["MAX_BATCH", "AudioInput", "Parts", "Transcriber"]
