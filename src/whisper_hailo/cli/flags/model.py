"""Options that choose the model, its encoder and decoder, and the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from whisper_hailo.backends.hailo.options import ChipOptions, Priority
from whisper_hailo.backends.options import AUTO, EngineOptions
from whisper_hailo.cli.engine import (
    DecoderAssetsOption,
    DecoderBackendOption,
    DecoderOption,
    DeviceTimeoutOption,
    EncoderBackendOption,
    EncoderOption,
    HostContractOption,
    ShareOption,
    TokenizerOption,
)
from whisper_hailo.convert.options import QUANTIZATIONS, ConvertOptions

if TYPE_CHECKING:
    from whisper_hailo.transcription.transcriber import Transcriber

_PANEL = "Model"


@dataclass(frozen=True, slots=True)
class ModelFlags:
    """Which model, and how it runs."""

    model: Annotated[
        str,
        typer.Option(
            help="micro (bundled), a directory, a hub id, or a name such as base.en.",
            rich_help_panel=_PANEL,
        ),
    ] = "tiny"
    revision: Annotated[
        str | None,
        typer.Option(help="Hub commit, tag or branch. [default: main]", rich_help_panel=_PANEL),
    ] = None
    quantize: Annotated[
        str,
        typer.Option(help=f"For checkpoints: {', '.join(QUANTIZATIONS)}.", rich_help_panel=_PANEL),
    ] = "none"
    encoder_quantize: Annotated[
        str,
        typer.Option(
            help=f"The same for a checkpoint's encoder: {', '.join(QUANTIZATIONS)}.",
            rich_help_panel=_PANEL,
        ),
    ] = "none"
    window: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Encoder window in seconds. [default: 10]", rich_help_panel=_PANEL
        ),
    ] = None
    margin_s: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Kept free at a window's end. [default: 1; 0 at 30 s]",
            rich_help_panel=_PANEL,
        ),
    ] = None
    encoder: EncoderOption = None
    decoder: DecoderOption = None
    encoder_backend: EncoderBackendOption = AUTO
    decoder_backend: DecoderBackendOption = AUTO
    decoder_assets: DecoderAssetsOption = None
    host_contract: HostContractOption = AUTO
    tokenizer: TokenizerOption = None
    share: ShareOption = False
    device_timeout: DeviceTimeoutOption = 10.0
    threads: Annotated[
        int,
        typer.Option(min=0, max=256, help="Per operator; 0: automatic.", rich_help_panel=_PANEL),
    ] = 0

    def transcriber(self, priority: Priority = Priority.BATCH) -> Transcriber:
        """A transcriber, not opened yet.

        Args:
            priority: on a Hailo chip that several share; live captions go before files.

        Raises:
            ModelError, TokenizerError, HubError, OptionError: see `Transcriber.from_model`.
        """
        from whisper_hailo.transcription.transcriber import Transcriber

        return Transcriber.from_model(
            self.model,
            revision=self.revision,
            convert=ConvertOptions(self.quantize, self.encoder_quantize),
            window_s=self.window,
            margin_s=self.margin_s,
            threads=self.threads,
            engine=EngineOptions(
                self.encoder,
                self.decoder,
                self.encoder_backend,
                self.decoder_backend,
                self.decoder_assets,
                self.tokenizer,
                ChipOptions(share=self.share, priority=priority, timeout_s=self.device_timeout),
                self.host_contract,
            ),
        )
