"""`python -m whisper_hailo` is the `whisper-hailo` command."""

from whisper_hailo.cli.app import main

if __name__ == "__main__":
    main()
