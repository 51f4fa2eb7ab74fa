"""What the doors that speak HTTP have in common."""
