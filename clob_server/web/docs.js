// The documentation: /openapi.json as a page, with a form to try each route.

import { ask, el, prose, table } from "./common.js";

const page = document.getElementById("page");
const contents = document.getElementById("contents");
let api;

function resolve(schema) {
  return schema?.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : (schema ?? {});
}

// What a value may be, in a few words.
function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(kind).filter((each) => each !== "null").join(" or ");
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(", ");
  if (schema.type === "array") return `array of ${kind(schema.items ?? {})}`;
  if (schema.type === "object" && schema.properties) return "object";
  return [].concat(schema.type ?? "anything").join(" or ");
}

function limits(schema) {
  const told = [];
  if (schema.minimum !== undefined) told.push(`from ${schema.minimum}`);
  if (schema.maximum !== undefined) told.push(`to ${schema.maximum}`);
  if (schema.default !== undefined) told.push(`default ${schema.default}`);
  return told.join(" ");
}

function fieldRows(schema) {
  const required = schema.required ?? [];
  return Object.entries(schema.properties ?? {}).map(([name, part]) => ({
    cells: [
      el("code", {}, name),
      kind(part),
      required.includes(name) ? "yes" : "",
      el("span", {}, ...prose(part.description ?? resolve(part).description ?? "")),
    ],
  }));
}

function fields(schema, heading) {
  const described = resolve(schema);
  if (described.anyOf) {
    return described.anyOf.map((each, index) => fields(each, `${heading}, form ${index + 1}`)).flat();
  }
  if (described.type === "array") return fields(described.items, `${heading}, each`);
  const made = [];
  if (described.properties) {
    made.push(el("h3", {}, heading));
    made.push(table(["Name", "Type", "Required", ""], fieldRows(described)));
    for (const [name, part] of Object.entries(described.properties)) {
      const inner = part.type === "array" ? resolve(part.items) : resolve(part);
      if (inner.properties || inner.anyOf?.some((each) => resolve(each).properties)) {
        made.push(...fields(inner, `${name}${part.type === "array" ? ", each" : ""}`));
      }
    }
  }
  return made;
}

function parameters(route) {
  if (!route.parameters.length) return [];
  const rows = route.parameters.map((each) => ({
    cells: [
      el("code", {}, each.name),
      each.in,
      [kind(each.schema), limits(each.schema)].filter(Boolean).join(", "),
      each.required ? "yes" : "",
      el("span", {}, ...prose(each.description ?? "")),
    ],
  }));
  return [el("h3", {}, "Parameters"), table(["Name", "In", "Type", "Required", ""], rows)];
}

function codeLinks(text) {
  return text.split(/`([A-Z_]+)`/).map((part, index) =>
    index % 2 ? el("a", { href: `#${part}` }, el("code", {}, part)) : document.createTextNode(part),
  );
}

function answers(route) {
  const rows = Object.entries(route.responses).map(([status, answer]) => ({
    cells: [el("code", {}, status), el("span", {}, ...codeLinks(answer.description))],
  }));
  return [el("h3", {}, "Answers"), table(["Status", ""], rows)];
}

function authority(route) {
  const { test, production } = route["x-authority"];
  const told = `Test environment: ${test}. Production: ${production}.`;
  return el("p", { className: "faint" }, ...prose(told));
}

function example(path, each) {
  if (each.schema.example !== undefined) return each.schema.example;
  return each.name === "marketId" && each.in === "path" ? "demo" : "";
}

function tryIt(method, path, route) {
  const inputs = route.parameters.map((each) => [each, el("input", { name: each.name, value: each.required ? example(path, each) : "", placeholder: each.required ? "" : "optional" })]);
  const media = route.requestBody?.content["application/json"];
  const body = media
    ? el("textarea", { name: "body", spellcheck: false, value: media.example ? JSON.stringify(media.example, null, 2) : "{}" })
    : null;
  const secret = el("input", { name: "authority", autocomplete: "off", placeholder: "optional" });
  const status = el("p", { className: "told", role: "status" });
  const answer = el("pre", { hidden: true });

  async function send(event) {
    event.preventDefault();
    let target = path;
    const query = new URLSearchParams();
    const headers = {};
    for (const [each, input] of inputs) {
      if (each.in === "path") target = target.replace(`{${each.name}}`, encodeURIComponent(input.value));
      else if (input.value && each.in === "header") headers[each.name] = input.value;
      else if (input.value) query.set(each.name, input.value);
    }
    if (secret.value) {
      if (usesToken(route)) headers.Authorization = `Bearer ${secret.value}`;
      else headers["X-API-Key"] = secret.value;
    }
    const text = query.size ? `${target}?${query}` : target;
    try {
      const got = await ask(method.toUpperCase(), text, { body: body?.value, headers });
      status.className = `told ${got.ok ? "good" : "bad"}`;
      status.textContent = `${got.status} ${got.headers.get("Content-Type") ?? ""}`;
      answer.textContent = typeof got.content === "string" ? got.text.slice(0, 20000) : JSON.stringify(got.content, null, 2);
    } catch (error) {
      status.className = "told bad";
      status.textContent = `No answer: ${error.message}`;
      answer.textContent = "";
    }
    answer.hidden = !answer.textContent;
  }

  const labelled = (name, input) => el("label", {}, name, input);
  return el(
    "details",
    {},
    el("summary", {}, "Try it"),
    el(
      "form",
      { className: "try", on: { submit: send } },
      ...inputs.map(([each, input]) => labelled(each.name, input)),
      body && labelled("Body", body),
      labelled(usesToken(route) ? "Token" : "API key", secret),
      el("div", {}, el("button", { className: "main" }, "Send")),
      status,
      answer,
    ),
  );
}

function usesToken(route) {
  return route.security.some((each) => "token" in each);
}

function section(method, path, route) {
  const media = route.requestBody?.content["application/json"];
  const answer = Object.values(route.responses["200"]?.content ?? {})[0];
  return el(
    "section",
    { className: "card route", id: route.operationId },
    el(
      "h2",
      {},
      el("span", { className: `method ${method}` }, method.toUpperCase()),
      el("span", { className: "path" }, path),
      el("span", { className: "faint" }, route.summary),
    ),
    route.description ? el("p", {}, ...prose(route.description)) : null,
    authority(route),
    ...parameters(route),
    ...(media ? fields(media.schema, "Body") : []),
    el("details", {}, el("summary", {}, "Answers"), ...fields(answer?.schema ?? {}, "200"), ...answers(route)),
    tryIt(method, path, route),
  );
}

function codes() {
  const rows = api["x-codes"].map((each) => ({
    id: each.code,
    cells: [el("code", {}, each.code), String(each.status), each.title, each.retryable ? "yes" : ""],
  }));
  return el(
    "section",
    { className: "card", id: "codes" },
    el("h2", {}, "Codes"),
    el("p", {}, "Every refusal has one of these codes. Where several apply, the first in this table is told."),
    table(["Code", "Status", "", "Try again"], rows),
  );
}

function draw() {
  const byTag = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, route] of Object.entries(methods)) {
      const tag = route.tags[0];
      if (!byTag.has(tag)) byTag.set(tag, []);
      byTag.get(tag).push([method, path, route]);
    }
  }
  document.getElementById("about").textContent =
    `version ${api.info.version}, ${api["x-environment"]} environment`;
  const sections = [];
  const links = [];
  for (const [tag, routes] of byTag) {
    links.push(el("strong", {}, tag));
    for (const [method, path, route] of routes) {
      links.push(el("a", { href: `#${route.operationId}` }, route.summary));
      sections.push(section(method, path, route));
    }
  }
  links.push(el("strong", {}, "Refusals"), el("a", { href: "#codes" }, "Codes"));
  contents.replaceChildren(...links);
  page.replaceChildren(el("p", {}, ...prose(api.info.description)), ...sections, codes());
  // The place that the address names is there only now.
  if (location.hash) {
    const place = location.hash;
    location.hash = "";
    location.hash = place;
  }
}

const got = await ask("GET", "/openapi.json");
api = got.content;
draw();
