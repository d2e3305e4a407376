// A room's state and its address: what is shown can be copied, opened elsewhere and gone back to.

/**
 * The state of a room, kept in the address. `read(parameters)` makes a state of URLSearchParams, `write(state)` the
 * parameters of a state. set(changes) while something slides replaces the address; choose(changes) makes a step that
 * Back undoes.
 */
export function createStore({ read, write }) {
  const parameters = () => new URLSearchParams(location.search);
  const listeners = [];
  let state = read(parameters());
  let slid = 0;

  const address = () => {
    const text = Object.entries(write(state)).filter(([, value]) => value !== "" && value !== null && value !== undefined)
      .map(([name, value]) => `${name}=${encodeURIComponent(value).replace(/%2C/g, ",").replace(/%3A/g, ":").replace(/%2F/g, "/").replace(/%20/g, "+")}`).join("&");
    return location.pathname + (text ? `?${text}` : "");
  };
  const tell = () => listeners.forEach((listener) => listener(state));
  const record = (push) => {
    clearTimeout(slid);
    // A saved file has an address that cannot be changed; the room works all the same.
    try { history[push ? "pushState" : "replaceState"](null, "", address()); } catch { /* file: */ }
  };
  addEventListener("popstate", () => { clearTimeout(slid); state = read(parameters()); tell(); });
  addEventListener("pagehide", () => { if (slid) record(false); });
  return {
    get state() { return state; },
    get address() { return location.origin + address(); },
    subscribe(listener) { listeners.push(listener); },
    set(changed) {
      state = { ...state, ...changed };
      tell();
      // Browsers refuse more than about a hundred changes of the address in a few seconds.
      clearTimeout(slid);
      slid = setTimeout(() => { slid = 0; record(false); }, 60);
    },
    choose(changed) {
      if (slid) record(false);
      slid = 0;
      state = { ...state, ...changed };
      record(true);
      tell();
    },
  };
}
