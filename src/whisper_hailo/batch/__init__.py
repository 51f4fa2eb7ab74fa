"""Archives: many recordings, each transcribed once, whatever happens meanwhile."""
