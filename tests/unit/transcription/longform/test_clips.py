import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.transcription.longform.plan import WHOLE, Clip, parse_clips


def test_clips_are_pairs_and_the_last_end_may_be_left_out() -> None:
    assert parse_clips("") == WHOLE == (Clip(0, None),)
    assert parse_clips("1,2.5") == (Clip(16_000, 40_000),)
    assert parse_clips("0,1,2") == (Clip(0, 16_000), Clip(32_000, None))
    several = (Clip(0, 16_000), Clip(16_000, 32_000), Clip(48_000, 64_000), Clip(80_000, None))
    assert parse_clips("0,1,1,2,3,4,5") == several


def test_clips_begin_and_end_at_the_nearest_sample() -> None:
    """4.02 and 8.04 s times 16,000 are a hair less than whole numbers; 1/8 ms is two samples."""
    assert parse_clips("4.02,8.04") == (Clip(64_320, 128_640),)
    assert parse_clips("0.000125,1.00025") == (Clip(2, 16_004),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-1,2", "a time is negative"),
        ("5,2", "an end is not after its start"),
        ("2,2", "an end is not after its start"),
        ("0,1,2,2", "an end is not after its start"),
        ("0,5,4,6", "a clip begins before the one before it ends"),
        ("a,b", "expected start,end"),
        ("nan,1", "a time is negative"),
    ],
)
def test_impossible_clips_are_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_clips(text)
