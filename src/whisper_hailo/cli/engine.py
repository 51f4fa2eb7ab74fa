"""Options that choose encoder and decoder, the same for every command that transcribes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from whisper_hailo.backends.options import DECODER_BACKENDS, ENCODER_BACKENDS, HOST_CONTRACTS

EncoderOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", help="ONNX graph, HEF, or Optimum directory. [default: the model's]",
        readable=False,
    ),
]  # fmt: skip
DecoderOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", help="ONNX graph, HEF, Optimum or CTranslate2 directory.", readable=False
    ),
]
EncoderBackendOption: TypeAlias = Annotated[str, typer.Option(help=", ".join(ENCODER_BACKENDS))]
DecoderBackendOption: TypeAlias = Annotated[str, typer.Option(help=", ".join(DECODER_BACKENDS))]
DecoderAssetsOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Arrays for the host of a HEF decoder.", readable=False),
]
HostContractOption: TypeAlias = Annotated[
    str,
    typer.Option(
        help=f"Who adds a HEF decoder's position rows, 8: the host, 10h: the chip. "
        f"({', '.join(HOST_CONTRACTS)})"
    ),
]
TokenizerOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A tokenizer.json in place of the model's.", readable=False),
]
ShareOption: TypeAlias = Annotated[
    bool, typer.Option("--share", help="Share the Hailo chip with other processes.")
]
DeviceTimeoutOption: TypeAlias = Annotated[
    float, typer.Option(metavar="S", help="For one run of the Hailo chip.")
]
