"""Commands that find, name, change and compare the topics of a merge."""
