"""Cases in processes of their own, in turns on the same recordings."""
