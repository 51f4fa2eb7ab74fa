"""What `import whisper_hailo` offers."""

import whisper_hailo


def test_all_names_of_the_interface_are_there_and_no_others() -> None:
    assert dir(whisper_hailo) == sorted(whisper_hailo.__all__)
    for name in whisper_hailo.__all__:
        assert getattr(whisper_hailo, name) is not None
        if name[0].isupper():
            assert getattr(whisper_hailo, name).__doc__
