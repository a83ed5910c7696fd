"""PyMC's step methods: arguments in, parts out, statistics and progress."""
