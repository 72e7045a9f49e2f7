"""What the benchmarks share: engines that take turns, limits of the machine, tables and plots."""
