// Sources that are sound: files of the usual kinds (ops/audio/sound_file.h), raw samples where the
// command line says how they are written, and both out of a pipe as they come.
#ifndef BEAMWRIGHT_CLIENT_CLI_SOUND_H_
#define BEAMWRIGHT_CLIENT_CLI_SOUND_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"

namespace beamwright::client {

struct SoundFlags {
  std::string samples;  // pcm16 or f32: what bytes of no known kind are; empty: they are refused
  int sample_rate = 16000;  // of them
  int channel = 0;          // from 1; 0: the mean of all
};

// --channel.
void AddChannelFlag(CLI::App& app, SoundFlags& flags);
// --samples and --sample-rate as well. `flags` must outlive the parsing.
void AddSoundFlags(CLI::App& app, SoundFlags& flags);

// Of one sample.
size_t SampleBytes(const v1::AudioFormat& format);

struct Sound {
  v1::AudioFormat format;
  // The next samples in `format`; empty: the source has ended, or it is broken here (`failure`).
  std::function<std::string()> next;
  std::shared_ptr<absl::Status> failure = std::make_shared<absl::Status>();
};

// Opens a file, or standard input for "-": a piece is a tenth of a second. InvalidArgument: its
// kind is not known and `flags` do not say that it is raw samples, or it cannot be read.
absl::StatusOr<Sound> OpenSound(const std::string& path, const SoundFlags& flags);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_SOUND_H_
