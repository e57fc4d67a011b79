// The slider over the slices of a release, such as the hours of the day, and playing through them.

const $ = (id) => document.getElementById(id);
const BEAT = 1000; // milliseconds that a slice is shown while playing
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const NAMES = { weekpart: "part of the week" };
const RULES = { hour: "the hour in which they start", weekday: "the day on which they start", weekpart: "the part of the week in which they start", month: "the month in which they start" };

/** What a slice is called on the page; `brief` is how an axis calls it. */
export function sliceLabel(name, { sliced_by: rule }, brief = false) {
  if (rule === "hour" && !brief) return `${name}:00–${String(Number(name) + 1).padStart(2, "0")}:00`;
  if (rule === "month") return brief ? MONTHS[Number(name) - 1].slice(0, 3) : MONTHS[Number(name) - 1];
  return name;
}

/** The rule of a release that puts trips into slices, in words. */
export function ruleWords({ sliced_by: rule, timezone }) {
  const parts = rule.split("*").map((part) => RULES[part] ?? part.replace("=", ": ").replaceAll(",", ", "));
  return `${parts.join(" and ")}${timezone ? ` (${timezone})` : ""}`;
}

/** What the slices of a release are, such as "hour". */
export function ruleName({ sliced_by: rule }) {
  return rule.split("*").map((part) => NAMES[part] ?? part.split("=")[0]).join(" and ");
}

/** Places of names along an axis so that none touch; `room` is the number of names that fit. */
export function everyFew(count, room) {
  const step = [1, 2, 3, 4, 6, 12, 24].find((one) => count / one <= room) ?? Math.ceil(count / room);
  return (i) => i % step === 0;
}

/** The slider; `changed(name, byHand)` is called with null for all slices and resolves when the map shows them; `soon(name)` with the slice that comes next. */
export function makeSlices({ map, make, changed, soon }) {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let [release, at, turn, playing] = [null, 0, 0, false];
  const names = () => release?.slices ?? [];
  const chosen = () => (at ? names()[at - 1] : null);

  /** Show the slider for a release, or hide it if it has no slices; `name` is the slice to begin with. */
  function show(shown, name) {
    if (shown !== release) stop();
    release = shown;
    at = names().indexOf(name) + 1;
    const hidden = names().length === 0;
    if ($("slices").hidden !== hidden) {
      $("slices").hidden = hidden;
      $("slices").parentElement.classList.toggle("sliced", !hidden);
      map.invalidateSize({ pan: false });
    }
    for (const row of document.querySelectorAll(".about-slices")) row.hidden = hidden;
    if (hidden) return;
    $("slice").max = String(names().length);
    $("slices").title = `Trips by ${ruleWords(release)}`;
    const kept = everyFew(names().length, Math.min(8, Math.floor(170 / Math.max(...names().map((one) => 8 + 7 * one.length))) + 1));
    const bare = (i) => i > 0 && (!kept(i - 1) || (i === 1 && names().length > 7)); // no room beside All
    $("slice-ticks").replaceChildren(...["All", ...names()].map((one, i) => {
      const tick = make("span", {}, bare(i) ? "" : i ? sliceLabel(one, release, true) : one);
      tick.style.left = `${(i / names().length) * 100}%`;
      return tick;
    }));
    write();
  }

  function write() {
    const words = at ? sliceLabel(chosen(), release) : "All";
    $("slice").value = String(at);
    $("slice").setAttribute("aria-valuetext", words);
    $("slice-name").textContent = words;
    const step = still.matches;
    $("play").classList.toggle("playing", playing);
    $("play").classList.toggle("step", step);
    $("play-words").textContent = step ? "Next" : playing ? "Pause" : "Play";
  }

  function go(place, byHand) {
    if (!names().length) return null;
    if (byHand) stop();
    at = Math.min(Math.max(place, 0), names().length);
    write();
    return changed(chosen(), byHand);
  }

  function stop() {
    turn++;
    if (!playing) return;
    playing = false;
    write();
  }

  const next = () => (at >= names().length ? 1 : at + 1);

  async function play() {
    if (still.matches) return go(next(), true); // nothing moves by itself
    const mine = ++turn;
    playing = true;
    while (mine === turn) {
      const pause = new Promise((done) => setTimeout(done, BEAT));
      await go(next(), false);
      if (mine === turn) soon(names()[next() - 1]);
      await pause;
    }
  }

  const toggle = () => (playing ? stop() : play());
  $("play").addEventListener("click", toggle);
  $("slice").addEventListener("input", () => go(Number($("slice").value), true));
  document.addEventListener("visibilitychange", () => document.hidden && stop());
  still.addEventListener("change", () => {
    stop();
    if (release?.slices.length) write();
  });
  return {
    show,
    stop,
    toggle,
    step: (by) => go(at + by, true),
    choose: (name) => go(names().indexOf(name) + 1, true),
    label: (name) => sliceLabel(name, release),
    playing: () => playing,
  };
}
