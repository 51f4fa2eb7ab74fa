"""Our command beside other programs of live captions: latency and processor time."""
