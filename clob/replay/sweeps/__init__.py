"""Many runs of a strategy over one stream: parameters, processes, results, walk-forward slices."""
