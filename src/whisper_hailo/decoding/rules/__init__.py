"""Which tokens may come next: one function per rule, and the book that applies them in order."""
