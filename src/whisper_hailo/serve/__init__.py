"""One engine behind many doors: whoever speaks one of their protocols has its windows decoded."""
