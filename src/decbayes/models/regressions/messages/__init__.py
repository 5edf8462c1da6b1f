"""What a regression's site sends: first broadcasts, doubts about fits, sites redrawn from their messages."""
