"""Run files as tables, pictures and pages; everything here is a pure function of the records."""
