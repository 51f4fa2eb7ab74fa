"""Sources of live audio: files, pipes, addresses, microphones."""
