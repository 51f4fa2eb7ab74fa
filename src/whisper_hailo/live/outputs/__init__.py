"""What is written while captions run: subtitles, records, sound."""
