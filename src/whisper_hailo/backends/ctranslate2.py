"""CTranslate2's decoder on our audio features: it owns its loop, so it is a `Recognizer`.

It takes encoder output of any length. Its graph has no padding column, so zero rows are real.
Log-probabilities come after its repetition penalty, where ours are before any rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.backends.checks import check_features
from whisper_hailo.backends.graph_run import running
from whisper_hailo.backends.host_side import pad_features
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.extras import to_add
from whisper_hailo.core.names import shown
from whisper_hailo.core.protocols import SilenceKeys
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.strict_json import MismatchError, decode, read_json, read_json_object
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.recognizer import refuse_unhonoured
from whisper_hailo.decoding.rules.logits_rules import never_sampled

HONOURED: Final = frozenset(
    {
        "language",
        "task",
        "detect_each_window",
        "max_new_tokens",
        "cures.pad_to",
        "cures.repetition_penalty",
        "thresholds.no_speech",
        "thresholds.logprob",
        "thresholds.compression_ratio",
        "limits.suppress",
        "limits.suppress_blank",
        "limits.no_repeat_ngram",
        "search.beam_size",
        "search.patience",
        "search.best_of",
        "search.seed",
    }
)
"""What is passed on, acts on its results, or means nothing where nothing is sampled."""

_CONVERT: Final = "convert the checkpoint to CTranslate2 again, with its own tokenizer"


class CTranslate2Recognizer(Closing):
    """A CTranslate2 model directory, of which only the decoder is used.

    Args:
        directory: holds `model.bin`, `config.json` and `vocabulary.json`.
        spec: the model that it should be of.
        threads: threads per operator; 0 lets the engine choose.
        silence_keys: of the encoder whose features it is given; `None` pads with zero rows.

    Raises:
        OptionError: ctranslate2 is not installed.
        ModelError: no such directory, or one of another model.
    """

    def __init__(
        self,
        directory: Path,
        spec: ModelSpec,
        threads: int = 0,
        silence_keys: SilenceKeys | None = None,
    ) -> None:
        if find_spec("ctranslate2") is None:
            raise OptionError(
                f"--decoder-backend ctranslate2: it is not installed; {to_add('ctranslate2')}"
            )
        _check_vocabulary(directory / "vocabulary.json", spec)
        _check_suppressed(directory / "config.json", spec)
        self._directory = directory
        self._spec = spec
        self._threads = threads
        self._silence_keys = silence_keys
        self._model: Any = None

    @property
    def spec(self) -> ModelSpec:
        """The model that this engine belongs to."""
        return self._spec

    @property
    def name(self) -> str:
        """`ctranslate2`, once opened with the type it computes in: `ctranslate2-int8_float32`."""
        return "ctranslate2" + ("" if self._model is None else f"-{self._model.compute_type}")

    def open(self) -> Self:
        """Load the model and let it hear two positions of silence.

        Raises:
            ModelError: broken, or of another width or number of mel bins.
        """
        if self._model is None:
            import ctranslate2

            dims = self._spec.dims
            try:
                model = ctranslate2.models.Whisper(
                    str(self._directory), device="cpu", intra_threads=self._threads
                )
                silence = np.zeros((1, 2, dims.d_model), np.float32)
                model.generate(_view(silence), [[self._spec.tokens.sot]], beam_size=1, max_length=2)
            except (RuntimeError, ValueError) as error:
                reason = " ".join(str(error).split())[:200]
                raise ModelError(
                    f"{shown(self._directory)} cannot be used for {self._spec.name} of width "
                    f"{dims.d_model} ({reason}); {_CONVERT}"
                ) from error
            self._model = model
        return self

    def close(self) -> None:
        """Free the model; `open` loads it again."""
        self._model = None

    def check(self, options: DecodingOptions) -> None:
        """Refuse what CTranslate2 cannot honour.

        Raises:
            OptionError: a rule that it does not have, such as the end-of-transcript boost.
        """
        refuse_unhonoured(options, HONOURED, "ctranslate2")

    def detect_language(self, audio_features: FloatArray) -> dict[str, float]:
        """Language code to probability for the first row, likeliest first.

        Args:
            audio_features: `(batch, n_audio_ctx, d_model)` float32.
        """
        with running(str(self._directory), _CONVERT):
            ranked = self._opened().detect_language(_view(audio_features[:1]))[0]
        return {name.strip("<|>"): float(probability) for name, probability in ranked}

    def recognize(
        self, audio_features: FloatArray, prefix: tuple[int, ...], options: DecodingOptions
    ) -> tuple[Decoded, ...]:
        """Decode a batch of windows; see `decoding.recognizer.Recognizer`.

        Raises:
            ShapeError: the features are of another model.
            ModelError: the engine failed.
        """
        batch = audio_features.shape[0]
        paddings = (options.cures.padding(self._spec.dims, self._silence_keys),) * batch
        n_positions = check_features(audio_features, paddings, None, self._spec)
        padded = pad_features(audio_features, paddings, n_positions)
        budget = options.budget(self._spec.dims, len(prefix))
        special, limits, search = self._spec.tokens, options.limits, options.search
        listed = special.suppress if limits.suppress is None else limits.suppress
        with running(str(self._directory), _CONVERT):
            results = self._opened().generate(
                _view(padded),
                [list(prefix)] * batch,
                beam_size=search.beam_size,
                patience=search.patience,
                # It takes the smaller of half of this and what the prefix leaves of it.
                max_length=max(2 * budget, budget + len(prefix)),
                repetition_penalty=options.cures.repetition_penalty,
                no_repeat_ngram_size=limits.no_repeat_ngram,
                suppress_blank=limits.suppress_blank and bool(special.begin_suppress),
                suppress_tokens=list(never_sampled(special, listed)),
                return_scores=True,
                return_no_speech_prob=True,
            )
        return tuple(_decoded(result, budget) for result in results)

    def _opened(self) -> Any:  # noqa: ANN401 - a package without types
        if self._model is None:
            raise ModelError(f"{self.name} is not open; call open() or use a with block")
        return self._model


def _view(array: FloatArray) -> Any:  # noqa: ANN401 - a package without types
    import ctranslate2

    return ctranslate2.StorageView.from_array(np.ascontiguousarray(array, dtype=np.float32))


def _decoded(result: Any, budget: int) -> Decoded:  # noqa: ANN401 - a package without types
    tokens = tuple(result.sequences_ids[0])
    # Its score is the sum, end-of-transcript included, over the tokens without it.
    avg_logprob = result.scores[0] * max(1, len(tokens)) / (len(tokens) + 1)
    no_speech_prob = float(result.no_speech_prob)
    return Decoded(tokens, avg_logprob, no_speech_prob, runaway=len(tokens) >= budget)


def _check_vocabulary(path: Path, spec: ModelSpec) -> None:
    """The vocabulary is the model's, control tokens by their real names: it works by these."""
    names = read_json(path)
    if not isinstance(names, list) or len(names) != spec.dims.n_vocab:
        got = f"{len(names)} tokens" if isinstance(names, list) else "no list of tokens"
        raise ModelError(
            f"{shown(path)} has {got}, {spec.name} has {spec.dims.n_vocab}; "
            "decoder and --model must be of one model"
        )
    for name, token in (
        ("<|startoftranscript|>", spec.tokens.sot),
        ("<|endoftext|>", spec.tokens.eot),
    ):
        if names[token] != name:
            raise ModelError(
                f"{shown(path)} calls token {token} {names[token]!r}, expected {name!r}; {_CONVERT}"
            )


def _check_suppressed(path: Path, spec: ModelSpec) -> None:
    """What it never says first stands in its own config and cannot be given at a call."""
    try:
        first = decode(_Config, read_json_object(path)).suppress_ids_begin
    except MismatchError as error:
        raise ModelError(f"{shown(path)}: {error}; {_CONVERT}") from error
    if set(first or ()) != set(spec.tokens.begin_suppress):
        raise ModelError(
            f"{shown(path)} has suppress_ids_begin {list(first or ())[:8]}, {spec.name} has "
            f"{list(spec.tokens.begin_suppress)}; {_CONVERT}"
        )


@dataclass(frozen=True, slots=True)
class _Config:
    """What is read of the engine's `config.json`."""

    suppress_ids_begin: tuple[int, ...] | None = None
