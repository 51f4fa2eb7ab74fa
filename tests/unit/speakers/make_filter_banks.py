"""Write `filter_banks.json`: python -m tests.unit.speakers.make_filter_banks

Needs kaldi-native-fbank, which the tests do not.
"""

from __future__ import annotations

import json

import kaldi_native_fbank

from tests.unit.speakers.test_filter_banks import GOLDEN, chirp


def main() -> None:
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.samp_freq = 16_000
    options.frame_opts.snip_edges = True
    options.mel_opts.num_bins = 80
    options.mel_opts.low_freq = 20
    options.mel_opts.high_freq = 0
    banks = kaldi_native_fbank.OnlineFbank(options)
    banks.accept_waveform(16_000, chirp().tolist())
    banks.input_finished()
    rows = [
        [round(float(value), 4) for value in banks.get_frame(index)]
        for index in range(banks.num_frames_ready)
    ]
    GOLDEN.write_text(json.dumps(rows) + "\n")


if __name__ == "__main__":
    main()
