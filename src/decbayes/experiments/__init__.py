"""The paper's figures, each made by one command: run → table (CSV) → plot, with the paper's claims checked."""
