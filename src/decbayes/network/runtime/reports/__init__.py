"""What people and programs see of an agent: log, status, metrics and page."""
