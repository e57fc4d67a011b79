"""Limits that keep every sum within 64 bits, so that noise is always added to exact integers.

If a sum could overflow, one more trip could change a value by 2^64. At most MOST_TRIPS trips are on the grid, after
contribution bounding, and public limits on caps and on the number of rectangles keep what one trip adds to any number
within +-2^31. So every sum over some of the trips, in whatever order the parts are added, stays within +-LARGEST_SUM.
Where a value is more than a plain sum, or a kernel multiplies, the docstring of the statistic says why 63 bits are
enough.
"""

MOST_TRIPS = 2**31  # on the grid
LARGEST_SUM = 2**62
MOST_CAP = 2**15  # limit on the caps on one trip's crossings and shadow; both are counted in units of 2^-16
MOST_RECTANGLES = LARGEST_SUM // MOST_TRIPS  # in one question
MOST_OF_A_PERSON = 2**20  # trips that are counted, as many as `Unit.max_trips` may be
