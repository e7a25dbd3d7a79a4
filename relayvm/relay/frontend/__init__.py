"""What old importers of models share, by TVM's names."""
