"""The public names of the package."""

import whisper_hailo


def test_package_dir_is_its_public_interface() -> None:
    assert dir(whisper_hailo) == sorted(whisper_hailo.__all__)
    for name in whisper_hailo.__all__:
        assert getattr(whisper_hailo, name) is not None
        if name[0].isupper():
            assert getattr(whisper_hailo, name).__doc__
