"""Who spoke when, by sherpa-onnx: SEGMENTATION EMBEDDING THRESHOLD AUDIO...; JSON lines."""

import json
import os
import resource
import sys
import time
from pathlib import Path

import sherpa_onnx
import soundfile


def main() -> None:
    segmentation, embedding, threshold, *paths = sys.argv[1:]
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    config = sherpa_onnx.OfflineSpeakerDiarizationConfig(
        segmentation=sherpa_onnx.OfflineSpeakerSegmentationModelConfig(
            pyannote=sherpa_onnx.OfflineSpeakerSegmentationPyannoteModelConfig(
                model=segmentation
            ),
            num_threads=threads,
        ),
        embedding=sherpa_onnx.SpeakerEmbeddingExtractorConfig(
            model=embedding, num_threads=threads
        ),
        clustering=sherpa_onnx.FastClusteringConfig(
            num_clusters=-1, threshold=float(threshold)
        ),
    )
    diarization = sherpa_onnx.OfflineSpeakerDiarization(config)
    for path in paths:
        audio, rate_hz = soundfile.read(path, dtype="float32")
        start_s = time.process_time()
        segments = diarization.process(audio).sort_by_start_time()
        taken_s = time.process_time() - start_s
        result = {
            "name": Path(path).stem,
            "turns": [[item.start, item.end, str(item.speaker)] for item in segments],
            "audio_s": audio.size / rate_hz,
            "processor_s": taken_s,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
