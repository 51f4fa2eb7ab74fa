"""What the parts of an engine refuse before anything is opened."""

from __future__ import annotations

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.option_groups import TokenLimits
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.transcriber import Transcriber


@pytest.fixture(scope="module")
def micro() -> Transcriber:
    """Not open."""
    return Transcriber.from_model("micro", threads=1)


def suppressing(*ids: int) -> DecodingOptions:
    return DecodingOptions(limits=TokenLimits(suppress=ids))


@pytest.mark.parametrize("beyond", [-1, 0])
def test_ids_that_the_model_does_not_have_are_refused(micro: Transcriber, beyond: int) -> None:
    n_vocab = micro.parts["decoder"].spec.dims.n_vocab  # type: ignore[attr-defined]
    wrong = beyond if beyond < 0 else n_vocab + beyond
    micro.check(suppressing(0, n_vocab - 1))
    with pytest.raises(OptionError) as caught:
        micro.check(suppressing(3, wrong))
    assert str(caught.value) == (
        f"--suppress-tokens has {wrong}, this model's ids are 0 to {n_vocab - 1}; leave it out"
    )
