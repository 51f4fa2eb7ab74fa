"""Audio of any kind as `(n_samples,)` float32, 16 kHz, mono, in a stream."""

from whisper_hailo.audio.stream import (
    AudioSource,
    AudioStream,
    ChannelOf,
    Samples,
    load_audio,
    open_audio,
)

__all__ = ["AudioSource", "AudioStream", "ChannelOf", "Samples", "load_audio", "open_audio"]
