"""Tables of the documents, each made of one kept result."""
