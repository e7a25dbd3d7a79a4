"""What the host gives and gets: types as it is told them, values of the evaluator, arguments."""
