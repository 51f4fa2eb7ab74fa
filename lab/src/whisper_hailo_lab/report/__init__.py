"""Tables and charts from run files."""
