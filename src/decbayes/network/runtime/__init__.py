"""An agent as a process: store, links, transport and service, and the questions that it answers."""
