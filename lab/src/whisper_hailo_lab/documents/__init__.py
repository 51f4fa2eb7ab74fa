"""The tables that stand in the documents, each made of a kept result alone."""
