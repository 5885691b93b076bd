// Features of sound as the server computes them, for kaldi_features.py.
//
//   sound_features SOUND PIECE < samples > features
//
// SOUND is a SoundConfig in text form. Samples and features are raw 32-bit floats; PIECE samples
// are handed over at a time, all of them if 0.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "engine/sound/front_end.h"

int main(int argc, char** argv) {
  beamwright::v1::SoundConfig config;
  if (argc != 3 || !google::protobuf::TextFormat::ParseFromString(argv[1], &config)) {
    return 2;
  }
  const auto front_end = beamwright::sound::FrontEnd::Create(config);
  if (!front_end.ok()) {
    std::fprintf(stderr, "%s\n", front_end.status().ToString().c_str());
    return 1;
  }
  std::vector<float> samples;
  for (float sample = 0; std::fread(&sample, sizeof(sample), 1, stdin) == 1;) {
    samples.push_back(sample);
  }
  const auto given = static_cast<size_t>(std::atoi(argv[2]));
  const size_t piece = given == 0 ? std::max<size_t>(1, samples.size()) : given;
  beamwright::sound::FrontEndStream stream(*front_end);
  std::vector<float> features;
  for (size_t at = 0; at < samples.size(); at += piece) {
    stream.Add(absl::MakeConstSpan(samples).subspan(at, piece), features);
  }
  stream.Finish(features);
  (*front_end)->Complete(features);
  return std::fwrite(features.data(), sizeof(float), features.size(), stdout) == features.size()
             ? 0
             : 1;
}
