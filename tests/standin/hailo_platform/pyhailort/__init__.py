"""Most exception classes live below here."""
