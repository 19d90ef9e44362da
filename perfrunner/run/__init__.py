"""One experiment from plan to stored trials: the journal, the trial, the rules of counting, resume."""
