from __future__ import annotations

from whisper_hailo_lab.experiments.home_assistant_names import (
    AREAS,
    DEVICES,
    HOME,
    PLAIN,
    list_texts,
)


def test_list_texts_has_a_command_for_each_name_of_the_home() -> None:
    texts = list_texts()
    assert all(name in text for text, name in texts)
    assert [name for _, name in texts if name] == [*AREAS, *DEVICES]
    assert len(AREAS) + len(DEVICES) == 50
    assert len(texts) == 50 + len(PLAIN)


def test_home_exposes_every_name() -> None:
    names = [names[0] for names in HOME.entities.values()]
    assert [*HOME.areas, *names] == [*AREAS, *DEVICES]
