// Requests, jobs and the one stream of events of a page, open only while its tab is in sight.

/** Whether this is a room saved as one file: nothing is behind it. */
export const isFile = document.documentElement.hasAttribute("data-file");

/** What a request was refused with: {code, message, hint, field}. */
export class Refused extends Error {
  constructor(answer) {
    super(answer.message);
    this.hint = answer.hint ?? "";
    this.code = answer.code ?? "";
  }
}

async function answered(request) {
  let response;
  try { response = await request; } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused({ code: "not_connected", message: "The server does not answer.", hint: "Is porism serve still running?" });
  }
  const text = await response.text();
  let body = null;
  try { body = text ? JSON.parse(text) : null; } catch { /* not JSON: told below */ }
  if (!response.ok) {
    throw new Refused(body?.message ? body : { message: `The server answered ${response.status}.` });
  }
  return body;
}

export const ask = (path, options) => answered(fetch(path, options));
export const post = (path, body) => ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
export const upload = (file, type) => ask("/api/uploads", { method: "POST", headers: { "Content-Type": type || file.type || "application/octet-stream" }, body: file });

const jobs = new Map(), watched = new Set(), heard = { run: [], job: [], part: [], connected: [] };
let source = null, opened = "", isConnected = true;
const ENDED = ["done", "failed", "cancelled", "timed_out"];

/** Be told of events: `run`, `job`, `part`, and `connected` with true or false. */
export const hear = (kind, listener) => heard[kind].push(listener);
const tellAll = (kind, data) => heard[kind].forEach((listener) => listener(data));

function connected(now) {
  if (now === isConnected) return;
  isConnected = now;
  tellAll("connected", now);
}

function open() {
  if (isFile) return;
  const open = running().map(({ job }) => job);
  const parameters = [watched.size && `runs=${[...watched].map(encodeURIComponent).join(",")}`, open.length && `jobs=${open.join(",")}`].filter(Boolean).join("&");
  const address = `/api/events${parameters ? `?${parameters}` : ""}`;
  if (document.hidden) { source?.close(); source = null; return; }
  if (source && source.readyState !== 2 && opened === address) return;
  source?.close();
  source = new EventSource(address);
  opened = address;
  const here = source;
  here.onopen = () => { connected(true); recover(); };
  here.onerror = () => {
    connected(false);
    // A browser gives up where the answer was no stream; otherwise it tries again by itself.
    if (here.readyState === 2) setTimeout(() => { if (source === here) { source = null; open(); } }, 2000);
  };
  for (const kind of ["run", "job", "part"]) {
    here.addEventListener(kind, (event) => { const data = JSON.parse(event.data); if (kind === "job") update(data); tellAll(kind, data); });
  }
}

/** After a break: jobs may have ended meanwhile. */
async function recover() {
  for (const job of running()) await look(job);
}

/** Ask how a job stands. */
async function look(job) {
  try { update(await ask(`/api/jobs/${job.job}`)); } catch (error) {
    if (error.code === "not_connected") return;
    const gone = { message: "The server has lost it: it was started anew.", hint: "Ask once more." };
    update({ ...job, state: "failed", error: error.code === "no_job" ? gone : { message: error.message, hint: error.hint } });
  }
}

/** Hear of these runs; "*" for all that are listed. */
export function watch(...runs) {
  runs.forEach((run) => watched.add(run));
  open();
}

function update(job) {
  const known = jobs.get(job.job);
  // What comes late by the stream must not write over the result.
  if (!known || known.ended) return;
  known.job = { ...known.job, ...job };
  known.progress?.(known.job);
  tellAll("job", known.job);
  if (!ENDED.includes(job.state)) return;
  known.ended = true;
  open();
  if (job.state === "done") known.resolve(known.job.result);
  else known.reject(new Refused({ code: job.state, ...(job.error ?? { message: { cancelled: "Cancelled.", timed_out: "It took too long and was stopped." }[job.state] ?? "It failed." }) }));
}

/** Start a job and wait for its result; `progress(job)` is called on the way. The promise has `cancel()`. */
export function run(path, body, progress) {
  let id = null, isCancelled = false;
  const result = (async () => {
    const job = await post(path, body);
    id = job.job;
    return new Promise((resolve, reject) => {
      jobs.set(id, { job, progress, resolve, reject });
      progress?.(job);
      if (isCancelled) cancel(id);
      if (ENDED.includes(job.state)) update(job);
      else { tellAll("job", job); open(); poll(id); }
    });
  })();
  result.cancel = () => { isCancelled = true; if (id) cancel(id); };
  return result;
}

/** A stream may be late or closed (a hidden tab): look every two seconds, too. */
async function poll(id) {
  while (!jobs.get(id).ended) {
    await new Promise((resolve) => setTimeout(resolve, 2000));
    if (!jobs.get(id).ended) await look(jobs.get(id).job);
  }
}

/** Stop a job; where the server does not answer, no longer wait for it. */
export const cancel = (id) => ask(`/api/jobs/${id}`, { method: "DELETE" }).then((job) => job?.job && update(job)).catch((error) => {
  if (error.code === "not_connected") update({ job: id, state: "cancelled", error: { message: "Cancelled here. The server does not answer." } });
});
export const running = () => [...jobs.values()].map(({ job }) => job).filter((job) => !ENDED.includes(job.state));

/** "3 of 12 sizes", "queued, 2 before it". */
export function progressText(job) {
  if (job.state === "queued") return job.position ? `queued, ${job.position} before it` : "queued";
  const { done, of, unit } = job.progress ?? {};
  if (of) return `${done} of ${of} ${unit ?? ""}`.trim();
  return done ? `${done} ${unit ?? ""}`.trim() : unit || "running";
}

/** Start the stream, and keep it only while the tab is in sight. */
export function connect() {
  document.addEventListener("visibilitychange", open);
  open();
}
