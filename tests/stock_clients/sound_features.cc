// Features of sound as the server computes them, for kaldi_features.py.
//
//   sound_features RATE BINS HIGH_FREQUENCY INTEGER_SCALE SNIP_EDGES PIECE < samples > features
//
// Samples and features are raw 32-bit floats; PIECE samples are handed over at a time, all of them
// if 0.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "engine/sound/fbank.h"

int main(int argc, char** argv) {
  if (argc != 7) {
    return 2;
  }
  beamwright::sound::FbankOptions options;
  options.sample_rate = std::atoi(argv[1]);
  options.num_bins = std::atoi(argv[2]);
  options.high_frequency = static_cast<float>(std::atof(argv[3]));
  options.integer_scale = std::atoi(argv[4]) != 0;
  options.snip_edges = std::atoi(argv[5]) != 0;
  const auto fbank = beamwright::sound::Fbank::Create(options);
  if (!fbank.ok()) {
    std::fprintf(stderr, "%s\n", fbank.status().ToString().c_str());
    return 1;
  }
  std::vector<float> samples;
  for (float sample = 0; std::fread(&sample, sizeof(sample), 1, stdin) == 1;) {
    samples.push_back(sample);
  }
  const auto told = static_cast<size_t>(std::atoi(argv[6]));
  const size_t piece = told == 0 ? std::max<size_t>(1, samples.size()) : told;
  beamwright::sound::FbankStream stream(*fbank);
  std::vector<float> features;
  for (size_t at = 0; at < samples.size(); at += piece) {
    stream.Add(absl::MakeConstSpan(samples).subspan(at, piece), features);
  }
  stream.Finish(features);
  return std::fwrite(features.data(), sizeof(float), features.size(), stdout) == features.size()
             ? 0
             : 1;
}
