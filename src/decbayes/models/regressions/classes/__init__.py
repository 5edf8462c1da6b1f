"""Who belongs to which class: regressions whose outcome is a class that nobody has seen."""
