"""The commands, a file each, called as it is; `command_table.py` finds them by their names."""
