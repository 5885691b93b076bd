// A stream of sound to the server's WebSocket listener, and its answers.
import { token } from './api.js';

const PIECE_SECONDS = 0.1;
const MOST_BUFFERED = 1 << 20;

const base64url = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)))
  .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');

/** One source. `calls`: onanswer(object), onend(error text or ''). */
export class SoundStream {
  constructor(port, parameters, calls) {
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
    // A token cannot be a header here; it travels as a protocol.
    const protocols = ['beamwright', ...(token.get() ? [`beamwright.bearer.${base64url(token.get())}`] : [])];
    this.socket = new WebSocket(`${scheme}://${location.hostname}:${port}/?${new URLSearchParams(parameters)}`, protocols);
    this.calls = calls;
    this.error = '';
    this.done = false;
    this.finished = false;
    this.opened = new Promise((resolve) => { this.socket.onopen = () => resolve(true); this.closed = () => resolve(false); });
    this.socket.onmessage = ({ data }) => this.#hear(data);
    this.socket.onclose = ({ code, reason }) => {
      this.closed();
      if (!this.done) this.#end(this.error || reason || (code === 1006 ? 'The server did not accept the stream, or is gone.' : `The stream ended (${code}).`));
    };
  }

  #hear(data) {
    if (data === 'Done!') {
      this.#end('');
      this.socket.close();
      return;
    }
    const answer = JSON.parse(data);
    if (answer.error) this.error = answer.error.message;
    else this.calls.onanswer(answer);
  }

  #end(error) {
    this.done = true;
    this.calls.onend(error);
  }

  /** Samples, at most a few seconds of them. What comes behind the end of the source is dropped: a microphone's last samples
      may have been under way when it was stopped. */
  send(samples) {
    if (!this.finished && this.socket.readyState === WebSocket.OPEN) this.socket.send(samples);
  }

  /** All of a recording, no faster than the server takes it. */
  async sendAll(samples, rate) {
    const size = Math.round(rate * PIECE_SECONDS);
    for (let at = 0; at < samples.length && !this.done; at += size) {
      this.send(samples.slice(at, at + size));
      while (this.socket.bufferedAmount > MOST_BUFFERED && !this.done) await new Promise((resolve) => { setTimeout(resolve, 20); });
    }
    this.finish();
  }

  finish() {
    if (!this.finished && this.socket.readyState === WebSocket.OPEN) this.socket.send('Done');
    this.finished = true;
  }
}

/** The mean of the channels of a file that the browser can decode, at that rate. */
export async function samplesOf(file, rate) {
  const context = new OfflineAudioContext(1, 1, rate);
  const sound = await context.decodeAudioData(await file.arrayBuffer());
  const mean = new Float32Array(sound.length);
  for (let channel = 0; channel < sound.numberOfChannels; channel++) {
    sound.getChannelData(channel).forEach((sample, i) => { mean[i] += sample / sound.numberOfChannels; });
  }
  return mean;
}

/** Listens to the microphone, until it is stopped: `take` gets pieces of samples. */
export class Microphone {
  static async open(rate, take) {
    const media = await navigator.mediaDevices.getUserMedia({
      audio: { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false } });
    const context = new AudioContext({ sampleRate: rate });
    await context.audioWorklet.addModule('/page/microphone.js');
    const node = new AudioWorkletNode(context, 'microphone', { numberOfOutputs: 0 });
    const size = Math.round(rate * PIECE_SECONDS);
    let piece = new Float32Array(size);
    let filled = 0;
    node.port.onmessage = ({ data }) => {
      for (const sample of data) {
        piece[filled++] = sample;
        if (filled === size) {
          take(piece);
          piece = new Float32Array(size);
          filled = 0;
        }
      }
    };
    context.createMediaStreamSource(media).connect(node);
    return new Microphone(media, context);
  }

  constructor(media, context) {
    this.media = media;
    this.context = context;
  }

  stop() {
    for (const track of this.media.getTracks()) track.stop();
    this.context.close();
  }
}
