"""Public geometry: grids, rectangles, trips and their walks, histograms and exact counts. Nothing here is private."""
