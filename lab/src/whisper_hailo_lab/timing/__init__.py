"""One recording, n times, stage by stage."""
