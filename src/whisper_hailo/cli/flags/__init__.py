"""Options of the commands in groups, one file each."""
