"""Model sizes and control tokens shared by the unit tests."""

from whisper_hailo.core.spec import Dimensions, ModelSource, ModelSpec, SpecialTokens

TINY = Dimensions(
    n_mels=80,
    n_audio_ctx=1500,
    d_model=384,
    n_encoder_layers=4,
    n_encoder_heads=6,
    n_decoder_layers=4,
    n_decoder_heads=6,
    n_text_ctx=448,
    n_vocab=51865,
)

TOY_TOKENS = SpecialTokens(
    sot=11,
    eot=10,
    transcribe=14,
    translate=15,
    sot_lm=16,
    sot_prev=17,
    no_speech=18,
    no_timestamps=19,
    timestamp_begin=20,
    languages={"en": 12, "de": 13},
    suppress=(7,),
    begin_suppress=(6, 10),
)
"""Ten words, end-of-transcript and control tokens, for decoders of 30 ids."""

TOY = Dimensions(
    n_mels=80,
    n_audio_ctx=1500,
    d_model=64,
    n_encoder_layers=1,
    n_encoder_heads=1,
    n_decoder_layers=1,
    n_decoder_heads=1,
    n_text_ctx=32,
    n_vocab=30,
)


def toy_spec(tokens: SpecialTokens = TOY_TOKENS) -> ModelSpec:
    return ModelSpec(
        name="toy",
        dims=TOY,
        tokens=tokens,
        quantization="none",
        encoder_quantization="none",
        alignment_heads=((0, 0),),
        source=ModelSource(name="toy"),
    )
