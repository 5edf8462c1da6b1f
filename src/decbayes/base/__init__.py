"""What every part stands on and no user types: checks of arguments, lazy rooms, things by name, optional packages,
tensors in files, numbers of threads and how results are shown."""
