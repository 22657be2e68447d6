/* Questions to the service, by relative addresses, so that it may live under any path. */

const TOKEN = "decentrl token";
const WHO = "decentrl reviewer";

/** The run that the address names, "" for the first one that is served. */
export const chosenRun = new URLSearchParams(location.search).get("run") ?? "";
const BASE = chosenRun ? `v1/runs/${encodeURIComponent(chosenRun)}` : "v1";

/** What the service answered when it refused, in its own words. */
export class Refused extends Error {
  constructor(status, message, near = []) {
    super(message);
    this.status = status;
    this.near = near;
  }
}

/** Who decides: the name stays in this browser, the token in this tab. */
export const reviewer = {
  get name() { return kept(localStorage, WHO); },
  set name(value) { keep(localStorage, WHO, value); },
  get token() { return kept(sessionStorage, TOKEN); },
  set token(value) { keep(sessionStorage, TOKEN, value); },
};

function kept(store, key) {
  try {
    return store.getItem(key) ?? "";
  } catch {
    return ""; // a browser that keeps nothing
  }
}

function keep(store, key, value) {
  try {
    store.setItem(key, value);
  } catch {
    // It lasts as long as the page, then.
  }
}

function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  }
  return `${BASE}/${path}${query.size ? `?${query}` : ""}`;
}

async function answer(response) {
  const kind = response.headers.get("content-type") ?? "";
  const body = kind.includes("json") ? await response.json() : {};
  if (response.ok) return body;
  const said = body.error ?? `The service answered ${response.status}`;
  throw new Refused(response.status, body.remedy ? `${said}: ${body.remedy}` : said, body.suggestions ?? []);
}

async function asked(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The service does not answer. Is it still running?");
  }
}

/** GET /v1/path. */
export async function get(path, parameters, signal) {
  return answer(await asked(address(path, parameters), { signal, headers: { accept: "application/json" } }));
}

/** All runs that are served. */
export const getRuns = async () => (await answer(await asked("v1/runs", {}))).runs;

/** A request that changes the run, or reads with the token. */
export async function send(method, path, body, parameters) {
  const headers = { accept: "application/json" };
  if (reviewer.token) headers.authorization = `Bearer ${reviewer.token}`;
  if (body) headers["content-type"] = "application/json";
  return answer(await asked(address(path, parameters), { method, headers, body: body && JSON.stringify(body) }));
}

/** What a promise gives, if it does so soon; undefined if it fails or takes longer. */
export function soon(promise, milliseconds) {
  return Promise.race([promise?.catch(() => undefined), new Promise((done) => { setTimeout(done, milliseconds); })]);
}

/** Where a file can be fetched. */
export const download = (path, parameters) => address(path, parameters);

/** The address of a page of the explorer. */
export function route(page, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  return `#/${page}${query.size ? `?${query}` : ""}`;
}

/** The page of an entity. */
export const entityRoute = (entity, side = entity.side) => route("entity", { side, id: entity.id ?? entity.label });
