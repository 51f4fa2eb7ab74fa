"""flite through its library (`flite.h`); times come from the segments of its utterances."""

import ctypes
from ctypes import POINTER, RTLD_GLOBAL, c_char_p, c_float, c_int, c_short, c_void_p

import numpy as np

from lab.training.engines.sound import Sound, matched
from lab.training.voices import FLITE_PITCH_HZ, Voice

_START = b"R:SylStructure.daughter1.daughter1.R:Segment.p.end"
_END = b"R:SylStructure.daughtern.daughtern.R:Segment.end"


class _Wave(ctypes.Structure):
    """`cst_wave`."""

    _fields_ = (
        ("type", c_char_p),
        ("sample_rate", c_int),
        ("num_samples", c_int),
        ("num_channels", c_int),
        ("samples", POINTER(c_short)),
    )


class _Voice(ctypes.Structure):
    """The first two fields of `cst_voice`."""

    _fields_ = (("name", c_char_p), ("features", c_void_p))


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Gives the functions that are used here their types."""
    library.flite_synth_text.restype = c_void_p
    library.flite_synth_text.argtypes = [c_char_p, POINTER(_Voice)]
    library.utt_wave.restype = POINTER(_Wave)
    library.utt_wave.argtypes = [c_void_p]
    library.utt_relation.restype = c_void_p
    library.utt_relation.argtypes = [c_void_p, c_char_p]
    for walk in (library.relation_head, library.item_next):
        walk.restype = c_void_p
        walk.argtypes = [c_void_p]
    library.item_feat_string.restype = c_char_p
    library.item_feat_string.argtypes = [c_void_p, c_char_p]
    library.ffeature_float.restype = c_float
    library.ffeature_float.argtypes = [c_void_p, c_char_p]
    library.delete_utterance.argtypes = [c_void_p]
    library.feat_set_float.argtypes = [c_void_p, c_char_p, c_float]
    return library


class Flite:
    """The library with the voices that were asked for."""

    def __init__(self) -> None:
        self._library = _declare(ctypes.CDLL("libflite.so.1", RTLD_GLOBAL))
        for name in ("usenglish", "cmulex"):
            ctypes.CDLL(f"libflite_{name}.so.1", RTLD_GLOBAL)
        self._library.flite_init()
        self._voices: dict[str, ctypes._Pointer[_Voice]] = {}

    def _voice(self, name: str) -> "ctypes._Pointer[_Voice]":
        if name not in self._voices:
            library = ctypes.CDLL(f"libflite_cmu_us_{name}.so.1", RTLD_GLOBAL)
            register = getattr(library, f"register_cmu_us_{name}")
            register.restype = POINTER(_Voice)
            register.argtypes = [c_char_p]
            self._voices[name] = register(None)
        return self._voices[name]

    def speak(self, text: str, voice: Voice) -> Sound:
        """Speaks one sentence."""
        library = self._library
        engine_voice = self._voice(voice.name)
        features = engine_voice.contents.features
        library.feat_set_float(features, b"duration_stretch", 1 / voice.rate)
        pitch_hz = voice.pitch or FLITE_PITCH_HZ[voice.name]
        library.feat_set_float(features, b"int_f0_target_mean", float(pitch_hz))
        utterance = library.flite_synth_text(text.encode(), engine_voice)
        try:
            wave = library.utt_wave(utterance).contents
            samples = np.ctypeslib.as_array(wave.samples, (wave.num_samples,)).copy()
            return Sound(
                samples, wave.sample_rate, matched(text, self._words(utterance))
            )
        finally:
            library.delete_utterance(utterance)

    def _words(self, utterance: int) -> list[tuple[str, float, float]]:
        """Returns flite's own words with start and end in seconds."""
        library = self._library
        words = []
        item = library.relation_head(library.utt_relation(utterance, b"Word"))
        while item:
            name = library.item_feat_string(item, b"name").decode()
            start, end = (library.ffeature_float(item, path) for path in (_START, _END))
            words.append((name, start, end))
            item = library.item_next(item)
        return words
