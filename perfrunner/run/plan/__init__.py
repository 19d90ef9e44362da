"""What to run next: blocks in random order, minus what is stored, plus what must be redone."""
