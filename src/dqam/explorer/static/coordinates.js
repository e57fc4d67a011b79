// Coordinates of the page: longitude and latitude on a world map or, in a page that cannot convert them (`planar`), those of
// the CRS of a release on a plane, described as { crs, bounds, geographic, unit }.

const EQUATOR = 40_075_016.68; // metres

/** Options for a map on a plane, with zoom levels about as on a world map. */
export function planeOptions({ bounds: [west, , , north], geographic }) {
  const scale = 256 / (geographic ? 360 : EQUATOR);
  return { crs: { ...L.CRS.Simple, transformation: new L.Transformation(scale, -scale * west, -scale, scale * north) } };
}

/** The number of decimals that tell pixels apart at a zoom level. */
export function decimals(zoom, planar) {
  const digits = Math.ceil(zoom * Math.log10(2)) + 1;
  return planar && !planar.geographic ? Math.min(6, Math.max(0, digits - 5)) : Math.min(9, Math.max(2, digits));
}

/** How far up a latitude is on the map. */
export function height(latitude, planar) {
  return planar ? latitude : Math.asinh(Math.tan((latitude * Math.PI) / 180));
}

/** What coordinates have to be given in. */
export function unitWords(planar) {
  return planar ? `the coordinates of the map (${planar.crs.slice(0, 40)})` : "degrees";
}
