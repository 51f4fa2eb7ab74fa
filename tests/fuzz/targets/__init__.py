"""One file for each part of the program that takes input from strangers."""
