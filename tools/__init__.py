"""Programs for developers of perfrunner. They are not part of the installed package."""
