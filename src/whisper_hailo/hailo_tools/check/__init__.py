"""What the Hailo compiler will refuse, said before it is asked; `docs/hailo.md` lists the rules."""
