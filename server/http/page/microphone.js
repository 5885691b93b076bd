// What the microphone hears, block by block, to the page: the part that runs on the thread of the sound.
registerProcessor('microphone', class extends AudioWorkletProcessor {
  process([[channel]]) {
    if (channel) this.port.postMessage(channel.slice());
    return true;
  }
});
