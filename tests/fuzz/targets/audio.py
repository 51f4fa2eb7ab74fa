"""Audio files of every format and number of channels, broken, read to their end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np

from tests.fuzz.mutate import mutated_bytes
from tests.fuzz.target import Input
from whisper_hailo.audio import AudioSource, open_audio
from whisper_hailo.audio.stream import split_channels

SECONDS = 0.06
BLOCK = 16_000
SOUNDFILE = {
    "wav": (
        "PCM_16",
        "PCM_U8",
        "PCM_24",
        "FLOAT",
        "DOUBLE",
        "ALAW",
        "IMA_ADPCM",
        "GSM610",
    ),
    "flac": ("PCM_16",),
    "ogg": ("VORBIS", "OPUS"),
    "mp3": ("MPEG_LAYER_III",),
    "aiff": ("PCM_16", "FLOAT"),
    "au": ("PCM_16", "ULAW"),
    "caf": ("PCM_16", "ALAC_16"),
    "w64": ("PCM_16",),
    "rf64": ("PCM_16",),
    "voc": ("PCM_16",),
    "paf": ("PCM_16",),
    "sds": ("PCM_16",),
    "mat": ("PCM_16",),
}
FFMPEG = (
    ("m4a", "ipod", "aac"), ("aac", "adts", "aac"), ("webm", "webm", "libopus"),
    ("mkv", "matroska", "pcm_s16le"),
    ("mka", "matroska", "flac"), ("ac3", "ac3", "ac3"), ("mp4", "mp4", "alac"),
    ("ts", "mpegts", "aac"),
    ("avi", "avi", "pcm_s16le"), ("wma", "asf", "wmav2"), ("nut", "nut", "pcm_f32le"),
)  # fmt: skip
CHANNELS = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1", 16: "hexadecagonal"}


class Fuzzed:
    """Some hundredths of a second in each format, for each number of channels that it can have."""

    def prepare(self, base: Path) -> None:
        """Write the good files."""
        folder = base / "audio"
        if folder.is_dir():
            return
        folder.mkdir()
        times = np.arange(int(SECONDS * 48_000)) / 48_000
        # Packs well, for the corpus.
        tone = np.round(np.sin(2 * np.pi * 440 * times) * 8) / 16
        for n_channels, layout in CHANNELS.items():
            sound = np.tile(tone[:, None], n_channels).astype(np.float32)
            _write_all(folder, sound, layout)

    def make(self, rng: Random, base: Path) -> Input:
        """Any of the files; now and then under the name of another format."""
        path = rng.choice(sorted((base / "audio").iterdir()))
        name = path.name
        if rng.random() < 0.05:
            name = path.stem + rng.choice((".wav", ".mp3", ".m4a", ".bin"))
        return name, mutated_bytes(rng, path.read_bytes())

    def run(self, folder: Path, base: Path, name: str, content: bytes) -> None:
        """Read it mixed, or each channel by itself."""
        path = folder / name
        path.write_bytes(content)
        if len(content) % 5 == 0:
            with split_channels(path) as channels:
                for channel in channels[:3]:
                    _read(channel)
        else:
            _read(path)


def _read(source: AudioSource) -> None:
    with open_audio(source) as stream:
        for _ in stream.blocks(BLOCK):
            pass


def _write_all(folder: Path, sound: np.ndarray, layout: str) -> None:
    """Every format that can have this many channels."""
    import soundfile

    n_channels = sound.shape[1]
    for kind, subtypes in SOUNDFILE.items():
        for subtype in subtypes:
            path = folder / f"{subtype.lower()}-{n_channels}.{kind}"
            try:
                soundfile.write(
                    path, sound, 48_000, subtype=subtype, format=kind.upper()
                )
            except (soundfile.LibsndfileError, ValueError):
                path.unlink(missing_ok=True)
    for kind, container, codec in FFMPEG:
        path = folder / f"{codec}-{n_channels}.{kind}"
        try:
            _encode(path, container, codec, sound, layout)
        except (OSError, ValueError):  # this encoder has no such layout
            path.unlink(missing_ok=True)


def _encode(
    path: Path, container: str, codec: str, sound: np.ndarray, layout: str
) -> None:
    """Through FFmpeg, by PyAV."""
    import av

    with av.open(str(path), "w", format=container) as file:
        stream = file.add_stream(codec, rate=48_000, layout=layout)
        for frame in _frames(sound, layout, stream):
            for packet in stream.encode(frame):
                file.mux(packet)
        for packet in stream.encode(None):
            file.mux(packet)


def _frames(sound: np.ndarray, layout: str, stream: object) -> Iterator[object]:
    import av

    resampler = av.AudioResampler(stream.format, layout, 48_000)  # type: ignore[attr-defined]
    interleaved = np.ascontiguousarray(sound.reshape(1, -1))
    frame = av.AudioFrame.from_ndarray(interleaved, format="flt", layout=layout)
    frame.sample_rate = 48_000
    yield from resampler.resample(frame)
