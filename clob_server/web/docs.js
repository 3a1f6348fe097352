// The API reference: /openapi.json as a page, with a form to try each route.

import { el, send, table } from "./common.js";

const page = document.getElementById("page");
const contents = document.getElementById("contents");
let api;

// Return a text as nodes, with `code` as code elements.
function prose(text) {
  return text
    .split(/`([^`]+)`/)
    .map((part, index) => (index % 2 ? el("code", {}, part) : document.createTextNode(part)));
}

function resolve(schema) {
  return schema?.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : (schema ?? {});
}

// Return a short description of the values that a schema allows.
function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(kind).filter((each) => each !== "null").join(" or ");
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(", ");
  if (schema.type === "array") return `array of ${kind(schema.items ?? {})}`;
  if (schema.type === "object" && schema.properties) return "object";
  return [].concat(schema.type ?? "anything").join(" or ");
}

function limits(schema) {
  const parts = [];
  if (schema.minimum !== undefined) parts.push(`from ${schema.minimum}`);
  if (schema.maximum !== undefined) parts.push(`to ${schema.maximum}`);
  if (schema.default !== undefined) parts.push(`default ${schema.default}`);
  return parts.join(" ");
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
  const sections = [];
  if (described.properties) {
    sections.push(el("h3", {}, heading));
    sections.push(table(["Name", "Type", "Required", "Meaning"], fieldRows(described)));
    for (const [name, part] of Object.entries(described.properties)) {
      const inner = part.type === "array" ? resolve(part.items) : resolve(part);
      if (inner.properties || inner.anyOf?.some((each) => resolve(each).properties)) {
        sections.push(...fields(inner, `${name}${part.type === "array" ? ", each" : ""}`));
      }
    }
  }
  return sections;
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
  return [el("h3", {}, "Parameters"), table(["Name", "In", "Type", "Required", "Meaning"], rows)];
}

function codeLinks(text) {
  return text.split(/`([A-Z_]+)`/).map((part, index) =>
    index % 2 ? el("a", { href: `#${part}` }, el("code", {}, part)) : document.createTextNode(part),
  );
}

function responses(route) {
  const rows = Object.entries(route.responses).map(([status, response]) => ({
    cells: [el("code", {}, status), el("span", {}, ...codeLinks(response.description))],
  }));
  return [el("h3", {}, "Responses"), table(["Status", "Meaning"], rows)];
}

function authority(route) {
  const { test, production } = route["x-authority"];
  const text = `Test environment: ${test}. Production: ${production}.`;
  return el("p", { className: "faint" }, ...prose(text));
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
  const status = el("p", { className: "result", role: "status" });
  const answer = el("pre", { hidden: true });

  // Return the address and the headers of the request that the form describes.
  function request() {
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
    return { target: query.size ? `${target}?${query}` : target, headers };
  }

  async function submit(event) {
    event.preventDefault();
    const { target, headers } = request();
    try {
      const response = await send(method.toUpperCase(), target, { body: body?.value, headers });
      status.className = `result ${response.ok ? "good" : "bad"}`;
      status.textContent = `${response.status} ${response.headers.get("Content-Type") ?? ""}`;
      answer.textContent = typeof response.content === "string" ? response.text.slice(0, 20000) : JSON.stringify(response.content, null, 2);
    } catch (error) {
      status.className = "result bad";
      status.textContent = `No response: ${error.message}`;
      answer.textContent = "";
    }
    answer.hidden = !answer.textContent;
  }

  async function copy() {
    const { target, headers } = request();
    const text = curl(method.toUpperCase(), target, headers, body?.value);
    answer.textContent = text;
    answer.hidden = false;
    status.className = "result";
    // Browsers offer the clipboard to secure pages only; the command is shown in any case.
    const isCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    status.textContent = isCopied ? "Copied." : "The command, to copy:";
  }

  const labelled = (name, input) => el("label", {}, name, input);
  return el(
    "details",
    {},
    el("summary", {}, "Try it"),
    el(
      "form",
      { className: "try", on: { submit } },
      ...inputs.map(([each, input]) => labelled(each.name, input)),
      body && labelled("Body", body),
      labelled(usesToken(route) ? "Token" : "API key", secret),
      el(
        "div",
        { className: "actions" },
        el("button", { className: "main" }, "Send"),
        el("button", { type: "button", on: { click: copy } }, "Copy as curl"),
      ),
      status,
      answer,
    ),
  );
}

// Return a request as a command for a POSIX shell.
function curl(method, target, headers, body) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const parts = ["curl"];
  if (method !== "GET") parts.push("-X", method);
  for (const [name, value] of Object.entries(headers)) parts.push("-H", quoted(`${name}: ${value}`));
  if (body !== undefined) parts.push("-H", quoted("Content-Type: application/json"), "-d", quoted(body));
  return [...parts, quoted(location.origin + target)].join(" ");
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
    el("details", {}, el("summary", {}, "Responses"), ...fields(answer?.schema ?? {}, "200"), ...responses(route)),
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
    el("p", {}, "Every rejection has one of these codes. If several apply, the server returns the first in this table."),
    table(["Code", "Status", "Meaning", "Retryable"], rows),
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
  links.push(el("strong", {}, "Errors"), el("a", { href: "#codes" }, "Codes"));
  const search = el("input", { type: "search", placeholder: "Search", ariaLabel: "Search routes, fields and codes" });
  search.addEventListener("input", () => filter(search.value));
  const found = el("p", { className: "faint", role: "status" });
  contents.replaceChildren(search, found, ...links);
  page.replaceChildren(el("p", {}, ...prose(api.info.description)), ...sections, codes());
  // Scroll to the section of the URL, which exists only now.
  if (location.hash) {
    const target = location.hash;
    location.hash = "";
    location.hash = target;
  }
}

// Show only the routes and codes that contain every word of a text, anywhere in their section.
function filter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (element) => {
    const content = element.textContent.toLowerCase();
    return words.every((word) => content.includes(word));
  };
  let count = 0;
  for (const each of page.querySelectorAll("section.route")) {
    each.hidden = !matches(each);
    count += !each.hidden;
    contents.querySelector(`a[href="#${each.id}"]`).hidden = each.hidden;
  }
  for (const row of page.querySelectorAll("#codes tbody tr")) {
    row.hidden = !matches(row);
    count += !row.hidden;
  }
  for (const tag of contents.querySelectorAll("strong")) {
    let next = tag.nextElementSibling;
    while (next?.hidden) next = next.nextElementSibling;
    tag.hidden = next?.tagName !== "A";
  }
  contents.querySelector("[role=status]").textContent = words.length ? `${count} found` : "";
}

api = (await send("GET", "/openapi.json")).content;
draw();
