"""Public geometry: grids, rectangles, trips and their walks, histograms and exact counts. Nothing here adds noise."""
