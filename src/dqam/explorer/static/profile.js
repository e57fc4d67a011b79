// Charts of areas and lines by slice, such as the trips of each hour: values, confidence intervals and the chosen slice.

import { everyFew, ruleName, sliceLabel } from "./slices.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [356, 150];
const [LEFT, RIGHT, TOP, BOTTOM] = [46, 6, 8, 20]; // margins
const CLOCKS = ["hour", "weekday", "month"]; // rules whose slices follow one another

function draw(tag, about, ...inside) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(about)) made.setAttribute(name, String(value));
  made.append(...inside);
  return made;
}

/** Round numbers from 0 on, up to the first that is not below `largest`. */
function axis(largest) {
  const power = 10 ** Math.floor(Math.log10(Math.max(largest, 1) / 2));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => largest / one <= 3) ?? 10 * power;
  return Array.from({ length: Math.max(1, Math.ceil(largest / step)) + 1 }, (_, i) => i * step);
}

/** Charts in `place`; `choose(name)` is called with the slice that was clicked. */
export function makeProfiles({ place, make, whole, interval, say, choose }) {
  const charts = new Map(); // by what is counted

  function chartOf(counted) {
    if (!charts.has(counted)) charts.set(counted, makeChart(counted));
    return charts.get(counted);
  }

  function makeChart(counted) {
    let [release, series, chosen, pointed] = [null, [], null, null];
    const drawn = make("div", { className: "chart", tabIndex: 0, role: "group", "aria-roledescription": "chart" });
    const [title, keys, read, table] = [make("h3"), make("ul", { className: "keys" }), make("p", { className: "read" }), make("table")];
    const figure = make("figure", { className: "profile" }, title, keys, drawn, read, make("details", {}, make("summary", {}, "Table"), make("div", { className: "zones-table" }, table)));

    function at(i) {
      return LEFT + ((i + 0.5) * (WIDTH - LEFT - RIGHT)) / release.slices.length;
    }

    /** The slice that is read out: the one pointed at, or the chosen one. */
    function current() {
      return pointed ?? (chosen === null ? null : release.slices.indexOf(chosen));
    }

    function valuesAt(i) {
      return series.map(({ title: name, values, low, high }) => `${name} ${whole(values[i])} (${interval({ low: low[i], high: high[i] })})`).join("; ");
    }

    function mark() {
      const i = current();
      const svg = drawn.firstChild;
      const wide = (WIDTH - LEFT - RIGHT) / release.slices.length;
      const cursor = svg.querySelector(".cursor");
      cursor.setAttribute("visibility", i === null ? "hidden" : "visible");
      cursor.setAttribute("x", String(at(i ?? 0) - wide / 2));
      const band = svg.querySelector(".chosen-slice");
      band.setAttribute("visibility", chosen === null ? "hidden" : "visible");
      band.setAttribute("x", String(at(release.slices.indexOf(chosen)) - wide / 2));
      for (const dots of svg.querySelectorAll("[data-slice]")) dots.classList.toggle("here", Number(dots.dataset.slice) === i);
      read.replaceChildren(...(i === null
        ? ["Point at the chart or use ← and → to read values."]
        : [make("strong", {}, sliceLabel(release.slices[i], release)), ...series.map(({ name, colour, dashed, whose, values, low, high }, j) => {
          const one = make("span", {}, key({ colour, dashed }), ` ${name}${whose ? ` ${whose}` : ""} `, make("b", { "data-profile": String(values[i]) }, whole(values[i])), ` (${interval({ low: low[i], high: high[i] })})`);
          one.dataset.series = String(j);
          return one;
        })]));
    }

    function key({ colour, dashed }) {
      const made = make("i", { className: dashed ? "key dashed" : "key", "aria-hidden": "true" });
      made.style.setProperty("--series", colour);
      return made;
    }

    function paint() {
      const { slices, sliced_by: rule } = release;
      const largest = Math.max(1, ...series.flatMap(({ values, high }) => [...values, ...high]).filter((value) => value !== null));
      const ticks = axis(largest);
      const up = (value) => HEIGHT - BOTTOM - (value / ticks.at(-1)) * (HEIGHT - TOP - BOTTOM);
      const wide = (WIDTH - LEFT - RIGHT) / slices.length;
      const box = { y: TOP, width: wide, height: HEIGHT - TOP - BOTTOM };
      const brief = slices.map((name) => sliceLabel(name, release, true));
      const named = everyFew(slices.length, (WIDTH - LEFT - RIGHT) / (8 + 6.5 * Math.max(...brief.map((one) => one.length))));
      const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" }, draw("rect", { class: "chosen-slice", ...box }));
      for (const value of ticks) {
        svg.append(draw("line", { class: "rule", x1: LEFT, x2: WIDTH - RIGHT, y1: up(value), y2: up(value) }), draw("text", { x: LEFT - 6, y: up(value) + 4, "text-anchor": "end" }, whole(value)));
      }
      brief.forEach((name, i) => named(i) && svg.append(draw("text", { x: at(i), y: HEIGHT - 5, "text-anchor": "middle" }, name.slice(0, 24))));
      svg.append(draw("rect", { class: "cursor", ...box }));
      const follow = CLOCKS.includes(rule);
      const apart = Math.min(9, wide / (series.length + 1)); // of series that do not follow one another
      series.forEach(({ colour, dashed, values, low, high }, j) => {
        const group = draw("g", { class: dashed ? "series dashed" : "series", "data-series": j });
        group.style.setProperty("--series", colour);
        const x = (i) => at(i) + (follow ? 0 : (j - (series.length - 1) / 2) * apart);
        const known = !low.includes(null);
        if (follow && known) {
          const there = high.map((value, i) => `${x(i)},${up(value)}`);
          const back = low.map((value, i) => `${x(i)},${up(value)}`).reverse();
          group.append(draw("polygon", { class: "band", points: [...there, ...back].join(" ") }));
        } else if (known) {
          values.forEach((_, i) => group.append(draw("line", { class: "band", x1: x(i), x2: x(i), y1: up(low[i]), y2: up(high[i]) })));
        }
        if (follow) group.append(draw("polyline", { class: "values", points: values.map((value, i) => `${x(i)},${up(value)}`).join(" ") }));
        values.forEach((value, i) => group.append(draw("circle", { "data-slice": i, class: follow ? "dot" : "dot always", cx: x(i), cy: up(value), r: 3.5 })));
        svg.append(group);
      });
      drawn.replaceChildren(svg);
    }

    function tabulate() {
      const head = make("tr", {}, make("th", { scope: "col" }, "Slice"), ...series.flatMap(({ title: name }) => [make("th", { scope: "col" }, name), make("th", { scope: "col" }, "Interval")]));
      const row = (name, cells) => make("tr", {}, make("th", { scope: "row" }, name), ...cells.flatMap(({ value, ...ends }) => [make("td", {}, whole(value)), make("td", {}, interval(ends))]));
      table.replaceChildren(make("caption", { className: "unseen" }, title.textContent), make("thead", {}, head), make("tbody", {},
        row("All", series.map(({ total }) => total)),
        ...release.slices.map((name, i) => row(sliceLabel(name, release), series.map(({ values, low, high }) => ({ value: values[i], low: low[i], high: high[i] }))))));
    }

    function point(i, aloud = false) {
      pointed = i;
      mark();
      if (aloud && i !== null) say(`${sliceLabel(release.slices[i], release)}: ${valuesAt(i)}`);
    }

    function placeOf({ clientX }) {
      const { left, width } = drawn.getBoundingClientRect();
      const i = Math.floor(((((clientX - left) / width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT)) * release.slices.length);
      return i >= 0 && i < release.slices.length ? i : null;
    }

    drawn.addEventListener("pointermove", (event) => point(placeOf(event)));
    drawn.addEventListener("pointerleave", () => point(null));
    drawn.addEventListener("focus", () => drawn.matches(":focus-visible") && point(current() ?? 0, true));
    drawn.addEventListener("blur", () => point(null));
    drawn.addEventListener("click", (event) => {
      const i = placeOf(event);
      if (i !== null) choose(release.slices[i] === chosen ? null : release.slices[i]);
    });
    drawn.addEventListener("keydown", (event) => {
      const last = release.slices.length - 1;
      const i = { ArrowLeft: (current() ?? 1) - 1, ArrowRight: (current() ?? -1) + 1, Home: 0, End: last }[event.key];
      if (i !== undefined) point(Math.min(Math.max(i, 0), last), true);
      else if (event.key === "Enter" && current() !== null) choose(release.slices[current()]);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });

    return {
      figure,
      show(shown, asked, slice) {
        [release, series] = [shown, asked];
        if (slice !== chosen && document.activeElement !== drawn) pointed = null;
        chosen = slice;
        if (pointed !== null && pointed >= release.slices.length) pointed = null;
        title.textContent = `${counted === "crossings" ? "Crossings" : "Distinct trips"} by ${ruleName(release)}`;
        drawn.setAttribute("aria-label", `${title.textContent}: ${series.map(({ title: name }) => name).join(", ")}. Use the left and right arrow keys to read values, Enter to show a slice on the map.`);
        keys.replaceChildren(...series.map((one) => make("li", {}, key(one), ` ${one.name}${one.whose && `, ${one.whose}`}: `, make("b", { "data-total": String(one.total.value) }, whole(one.total.value)), ` in total (${interval(one.total)})`)));
        read.style.minHeight = `${1.45 * series.length}em`; // so that nothing moves when values come and go
        paint();
        tabulate();
        mark();
      },
    };
  }

  return {
    /** Show charts of the series, { counted, title, name, whose, colour, dashed, values, low, high, total } each. */
    show(release, series, slice) {
      const kinds = ["trips", "crossings"].filter((counted) => series.some((one) => one.counted === counted));
      const figures = kinds.map((counted) => chartOf(counted).figure);
      if (figures.length !== place.children.length || figures.some((one, i) => one !== place.children[i])) place.replaceChildren(...figures);
      place.hidden = kinds.length === 0;
      for (const counted of kinds) chartOf(counted).show(release, series.filter((one) => one.counted === counted), slice);
    },
  };
}
