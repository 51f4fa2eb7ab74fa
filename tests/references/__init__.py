"""What Whisper's references say, kept as small files, so that no test needs torch to compare.

`cases.py` lists what is compared, `tests/parity/record.py` asks the live references and writes
`*.json` and `*.npz` here, the unit tests beside this compare ours with them, and
`tests/parity/test_goldens.py` compares them with what the live references say today.
"""
