from whisper_hailo_lab.repository import RESULTS
RESULT=RESULTS / "archives.json"
