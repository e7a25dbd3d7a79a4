"""Arrays of floats that numpy has not."""
