"""From tensor expressions to loop nests to machine code."""
