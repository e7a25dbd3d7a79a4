"""What passes ask about programs: scopes, effects, calls. Nothing here changes a program."""
