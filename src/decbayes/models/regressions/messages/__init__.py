"""Messages of a regression's sites: first broadcasts, doubts about fits, sites simulated from their messages."""
