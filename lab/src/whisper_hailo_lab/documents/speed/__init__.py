"""The tables of the speed comparison, its targets and its chart."""
