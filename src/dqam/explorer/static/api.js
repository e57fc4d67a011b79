// The documentation of the API, made from its OpenAPI description.

const page = document.getElementById("description");

function make(tag, about = {}, ...inside) {
  const made = Object.assign(document.createElement(tag), about);
  made.append(...inside);
  return made;
}

/** Words with `code` and *stress*. */
function words(text) {
  return (text ?? "").split(/(`[^`]+`|\*[^*]+\*)/).map((part) => {
    if (part.startsWith("`")) return make("code", {}, part.slice(1, -1));
    return part.startsWith("*") ? make("em", {}, part.slice(1, -1)) : part;
  });
}

function paragraphs(text) {
  return (text ?? "").trim().split(/\n\s*\n/).map((part) => make("p", {}, ...words(part)));
}

function table(head, rows) {
  const body = rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, ...[cell].flat()))));
  return make(
    "div", { className: "wide" },
    make("table", {},
      make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...body)));
}

function kind(schema, all) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map((one) => kind(one, all)).join(" or ");
  if (schema.type === "array") {
    const many = schema.minItems && schema.minItems === schema.maxItems ? `${schema.minItems} × ` : "list of ";
    return many + kind(schema.items, all);
  }
  return schema.format ?? schema.type ?? "";
}

function limits(schema) {
  const found = [];
  if ("default" in schema) found.push(`${JSON.stringify(schema.default)} by default`);
  if ("minimum" in schema) found.push(`at least ${schema.minimum}`);
  if ("maximum" in schema) found.push(`at most ${schema.maximum}`);
  if (schema.type === "array" && schema.maxItems > 4) found.push(`at most ${schema.maxItems.toLocaleString("en")}`);
  return found.length ? ` (${found.join(", ")})` : "";
}

function fields(name, all) {
  const schema = all[name];
  const rows = Object.entries(schema.properties ?? {}).map(([key, one]) => [
    make("code", {}, key), kind(one, all), [...words(one.description ?? all[kind(one, all)]?.description), limits(one)],
  ]);
  return table(["Field", "Type", "Description"], rows);
}

function operation(path, method, about, all, examples) {
  const title = make("h3", {}, make("span", { className: `method ${method}` }, method.toUpperCase()), make("code", {}, path));
  const parts = [title, make("p", { className: "summary" }, about.summary), ...paragraphs(about.description)];
  if (about.parameters?.length) {
    parts.push(make("h4", {}, "Parameters"), table(["Name", "Type", "Description"], about.parameters.map((one) => [
      [make("code", {}, one.name), one.required ? "" : " (optional)"],
      kind(one.schema, all), [...words(one.description), limits(one.schema)],
    ])));
  }
  const body = about.requestBody?.content["application/json"]?.schema;
  if (body?.oneOf) parts.push(make("h4", {}, "Request body, as GeoJSON"), make("p", {}, kind(body, all)));
  else if (body) parts.push(make("h4", {}, "Request body, as JSON"), fields(kind(body, all), all));
  parts.push(make("h4", {}, "Responses"), table(["Status", "Body", "Meaning"], Object.entries(about.responses).map(([code, one]) => [
    make("code", {}, code), kind(Object.values(one.content ?? {})[0]?.schema, all), words(one.description),
  ])));
  const n = path.includes("/flows") ? examples.flowing : 0; // the release that the example asks
  if (method === "get" && n >= 0) {
    const given = new URLSearchParams();
    for (const one of about.parameters ?? []) {
      const example = examples[`${path.split("/").pop()}.${one.name}`] ?? examples[one.name];
      if (one.in === "query" && example !== undefined) given.set(one.name, example);
    }
    const address = `${path.slice(1).replace("{n}", n).replace("{collection}", examples.collection)}${given.size ? `?${given}` : ""}`;
    parts.push(make("p", {}, "Try ", make("a", { href: address }, `/${address}`)));
  }
  return make("article", { className: "operation" }, ...parts);
}

async function show() {
  const [told, releases, { collections: [{ id: collection }] }] = await Promise.all(
    ["openapi.json", "api/releases", "edr/collections"].map((one) => fetch(one).then((answer) => answer.json())));
  const [release] = releases;
  const inside = (low, high, share) => Number((low + (high - low) * share).toPrecision(8));
  const middle = ([west, south, east, north]) => [
    inside(west, east, 0.4), inside(south, north, 0.4), inside(west, east, 0.6), inside(south, north, 0.6),
  ];
  const [west, south, east, north] = middle(release.grid.degrees);
  const examples = { // by name, or by the end of the path and name
    west, south, east, north, collection, flowing: releases.findIndex((one) => one.flows),
    "position.coords": `POINT(${west} ${south})`,
    "area.coords": `POLYGON((${west} ${south},${east} ${south},${east} ${north},${west} ${south}))`,
    "cube.bbox": middle(release.grid.bounds).join(","), "cube.crs": release.grid.crs,
  };
  const all = told.components.schemas;
  page.replaceChildren(...paragraphs(told.info.description));
  for (const [path, methods] of Object.entries(told.paths)) {
    for (const [method, about] of Object.entries(methods)) page.append(operation(path, method, about, all, examples));
  }
  page.append(make("h2", {}, "Schemas"));
  for (const [name, schema] of Object.entries(all)) {
    page.append(make("article", { className: "operation" },
      make("h3", {}, make("code", {}, name)), ...paragraphs(schema.description), fields(name, all)));
  }
  page.removeAttribute("aria-busy");
}

show().catch((error) => page.replaceChildren(make("p", { className: "problem" }, `The description cannot be loaded: ${error.message}`)));
