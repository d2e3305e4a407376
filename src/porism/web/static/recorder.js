// The microphone as a WAV file: what browsers record is decoded here, so that the server needs no codec.

import { fill, h } from "./dom.js";

const RATE = 16000, LONGEST = 30;

/** One channel of floats as a WAV file of 16 bits. */
export function wav(samples, rate) {
  const bytes = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (at, word) => [...word].forEach((letter, i) => bytes.setUint8(at + i, letter.charCodeAt(0)));
  text(0, "RIFF"); bytes.setUint32(4, 36 + 2 * samples.length, true); text(8, "WAVEfmt ");
  bytes.setUint32(16, 16, true); bytes.setUint16(20, 1, true); bytes.setUint16(22, 1, true);
  bytes.setUint32(24, rate, true); bytes.setUint32(28, 2 * rate, true); bytes.setUint16(32, 2, true); bytes.setUint16(34, 16, true);
  text(36, "data"); bytes.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, i) => bytes.setInt16(44 + 2 * i, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true));
  return new Blob([bytes], { type: "audio/wav" });
}

/** A button that records: {node, recording(), clear()}. Null where the browser has no microphone to offer. */
export function recorder() {
  if (!navigator.mediaDevices?.getUserMedia || !globalThis.MediaRecorder) return null;
  const button = h("button", { type: "button" }, "Record"), told = h("span", { class: "aside", "aria-live": "polite" });
  let machine = null, made = null;
  async function finish(parts, stream) {
    stream.getTracks().forEach((track) => track.stop());
    const context = new OfflineAudioContext(1, RATE * LONGEST, RATE);
    const sound = await context.decodeAudioData(await new Blob(parts).arrayBuffer());
    made = wav(sound.getChannelData(0), sound.sampleRate);
    fill(told, `${sound.duration.toFixed(1)} s recorded`);
  }
  button.addEventListener("click", async () => {
    if (machine) { machine.stop(); return; }
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true }), parts = [];
      machine = new MediaRecorder(stream);
      machine.addEventListener("dataavailable", (event) => parts.push(event.data));
      machine.addEventListener("stop", () => { machine = null; button.textContent = "Record"; finish(parts, stream).catch(() => fill(told, "The recording could not be read.")); });
      machine.start();
      const running = machine;
      setTimeout(() => { if (running.state === "recording") running.stop(); }, LONGEST * 1000);
      button.textContent = "Stop";
      fill(told, `recording, ${LONGEST} s at most`);
    } catch { fill(told, "The microphone was not allowed. Choose a file instead."); }
  });
  return { node: h("span", { class: "row" }, button, told), recording: () => made, clear: () => { made = null; fill(told); } };
}
