"""What every server of ours needs: an address, a certificate, the names it may be asked for by."""
