# Open the files that export_known.py wrote in R, and print what terra and stars find beside the library's numbers.
#
#     Rscript docs/gis/check_r.R build/gis
#
# It needs the packages terra, stars and ncdf4. Exit code 1 means that a file lies at another place or has another
# number.
suppressMessages({
  library(terra)
  library(stars)
  library(ncdf4)
})
folder <- commandArgs(trailingOnly = TRUE)[1]
known <- read.csv(file.path(folder, "known.csv"), check.names = FALSE)
cat(R.version.string, "terra", format(packageVersion("terra")), "stars", format(packageVersion("stars")),
    "ncdf4", format(packageVersion("ncdf4")), "GDAL", gdal(), "\n")
wrong <- 0

compare <- function(tool, row, number) {
  equal <- isTRUE(abs(number - row$value) <= 1e-5 + 1e-9 * abs(row$value)) # with slices, the library rounds to 1e-5
  if (!equal) wrong <<- wrong + 1
  cat(sprintf("%-6s %-15s %-15s %14.6f %14.6f %14.6f %14.6f %s\n", tool, row$file, row$layer, row$x, row$y, row$value,
              number, if (equal) "" else "!"))
}

expect <- function(fine, words) {
  if (!isTRUE(fine)) wrong <<- wrong + 1
  cat(words, if (isTRUE(fine)) "as in the library\n" else "WRONG\n")
}

for (name in c("map.nc", "cells.tif", "blocks.tif")) {
  rows <- known[known$file == name, ]
  path <- file.path(folder, name)
  raster <- if (name == "map.nc") rast(path, subds = "trips") else rast(path)
  sides <- unlist(rows[1, c("west", "east", "south", "north")])
  expect(all(abs(as.vector(ext(raster)) - sides) <= 1e-9 * max(abs(sides))), paste("terra", name, "extent"))
  code <- crs(raster, describe = TRUE)
  expect(paste0(code$authority, ":", code$code) == rows$crs[1], paste("terra", name, "CRS"))
  # GDAL warns that it ignores the one-dimensional variables of the file, which are not maps
  source <- if (name == "map.nc") sprintf('NETCDF:"%s":trips', path) else path
  grid <- suppressWarnings(read_stars(source, quiet = TRUE))
  expect(st_crs(grid) == st_crs(rows$crs[1]), paste("stars", name, "CRS"))
  for (i in seq_len(nrow(rows))) {
    row <- rows[i, ]
    compare("terra", row, terra::extract(raster, cbind(row$x, row$y))[1, row$layer])
    layer <- if (length(dim(grid)) == 3) grid[, , , match(row$layer, st_get_dimension_values(grid, 3))] else grid
    place <- st_sfc(st_point(c(row$x, row$y)), crs = st_crs(grid))
    compare("stars", row, as.numeric(st_extract(layer, place)[[1]]))
  }
}

# Blocks as polygons, in degrees
rows <- known[known$file == "blocks.geojson", ]
polygons <- vect(file.path(folder, "blocks.geojson"))
for (i in seq_len(nrow(rows))) {
  row <- rows[i, ]
  place <- vect(cbind(row$x, row$y), crs = crs(polygons))
  compare("terra", row, as.data.frame(polygons[relate(polygons, place, "intersects")[, 1], ])[1, row$layer])
}

# ncdf4 reads the variable as [west to east, south to north]
file <- nc_open(file.path(folder, "map.nc"))
trips <- ncvar_get(file, "trips")
rows <- known[known$file == "map.nc", ]
east <- file$var$trips$dim[[1]]$vals
north <- file$var$trips$dim[[2]]$vals
for (i in seq_len(nrow(rows))) {
  row <- rows[i, ]
  compare("ncdf4", row, trips[which.min(abs(east - row$x)), which.min(abs(north - row$y))])
}
cat(ncatt_get(file, 0, "summary")$value, "\n")
cat(if (wrong) paste(wrong, "wrong\n") else "all as in the library\n")
quit(status = as.integer(wrong > 0))
