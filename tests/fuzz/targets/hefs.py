"""HEFs of every version and form, broken, with their checksum made to fit or not."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

from tests.fuzz.mutate import mutated_bytes
from tests.fuzz.target import Input
from tests.fuzz.targets.toy import toy_model
from tests.standin.hef_file import Net, Wish, hef_bytes, with_header
from whisper_hailo.backends.hailo.hef_contract import check_decoder, check_encoder
from whisper_hailo.backends.hailo.hef_file import read_header
from whisper_hailo.convert.inspect import describe_hef
from whisper_hailo.core.errors import HefError
from whisper_hailo.core.spec import ModelSpec

ENCODER = Net(
    "e", {"e/input_layer1": (1, 200, 80)}, {"e/layer_norm": (1, 100, 64)}, contexts=2
)
DECODER = Net(
    "d",
    {"d/input_layer2": (16, 1, 64), "d/input_layer1": (1, 100, 64)},
    {f"d/conv{n}": (1, 16, 50) for n in (3, 1, 2, 4)},
)


class Fuzzed:
    """A HEF of the toy's sizes."""

    def __init__(self) -> None:
        self._good = [
            (
                hef_bytes(
                    Wish([*nets], arch, version, ops=ops, mux=mux, transposed=turned)
                ),
                version,
            )
            for nets in ((ENCODER,), (DECODER,), (ENCODER, DECODER))
            for arch in ("hailo8l", "hailo10h")
            for version in (0, 1, 2, 3)
            for ops, mux, turned in (
                (True, False, ""),
                (False, True, "layer"),
                (False, False, "network"),
            )
        ]

    def prepare(self, base: Path) -> None:
        """The model that they are looked at for."""
        toy_model(base)

    def make(self, rng: Random, base: Path) -> Input:
        """The message with a header that fits, or the whole file."""
        data, version = rng.choice(self._good)
        header = read_header(memoryview(data))
        if rng.random() < 0.6:
            proto = data[header.start : header.end]
            return "x.hef", with_header(mutated_bytes(rng, proto), version % 2, b"")
        return "x.hef", mutated_bytes(rng, data)

    def run(self, folder: Path, base: Path, name: str, content: bytes) -> None:
        """Describe it, and ask whether it is of the model."""
        path = folder / name
        path.write_bytes(content)
        spec = ModelSpec.load(toy_model(base))
        refusals = []
        for look in (
            describe_hef,
            partial(check_encoder, spec=spec),
            partial(check_decoder, spec=spec),
        ):
            try:
                look(path)
            except HefError as error:
                refusals.append(error)
        if len(refusals) == 3:
            raise refusals[0]
