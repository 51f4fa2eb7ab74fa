"""Our device layer under the vendor's own Python layers, of which nothing is kept here."""
