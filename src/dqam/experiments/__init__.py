"""The experiments of the paper: mechanisms as printed, data sets, runs, results, figures and the page."""
