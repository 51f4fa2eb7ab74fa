"""Options of a conversion: the forms that `auto` selects, and refusals."""

from __future__ import annotations

import pytest

from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import OptionError


@pytest.mark.parametrize(
    ("options", "decoder", "encoder"),
    [
        (ConvertOptions(), "int8", "int8"),
        (ConvertOptions("int4"), "int4", "int8"),
        (ConvertOptions("none"), "none", "none"),
        (ConvertOptions(hailo=HailoOptions()), "int8", "int8"),
        (ConvertOptions("int4", "int4", hailo=HailoOptions()), "int4", "int4"),
        (ConvertOptions("none", "int8"), "none", "int8"),
        (ConvertOptions("int8", "none"), "int8", "none"),
    ],
)
def test_convert_options_defaults_and_choices(
    options: ConvertOptions, decoder: str, encoder: str
) -> None:
    assert (options.decoder_form, options.encoder_form) == (decoder, encoder)
    resolved = options.resolved()
    assert (resolved.quantize, resolved.encoder_quantize) == (decoder, encoder)
    assert resolved.hailo == options.hailo


@pytest.mark.parametrize("form", ["", "int2", "INT8", "float16"])
def test_convert_options_refuse_other_forms(form: str) -> None:
    with pytest.raises(OptionError, match=f"--quantize .*'{form}'"):
        ConvertOptions(form)
    with pytest.raises(OptionError, match=f"--encoder-quantize .*'{form}'"):
        ConvertOptions(encoder_quantize=form)
