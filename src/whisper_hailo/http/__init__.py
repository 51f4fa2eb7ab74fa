"""What every server of ours needs: an address, a certificate, its names, limits of connections."""
