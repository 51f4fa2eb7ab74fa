"""What a run is and keeps: cases, records, the machine, and the figures that follow from them."""
