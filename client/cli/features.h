// Sources that are not text: tensors of features in files of NumPy or raw dumps, and sound in files
// or out of pipes.
#ifndef BEAMWRIGHT_CLIENT_CLI_FEATURES_H_
#define BEAMWRIGHT_CLIENT_CLI_FEATURES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/model.pb.h"
#include "include/beamwright/client.h"

namespace beamwright::client {

// Sources that are not text: tensors of features (speech frames, pictures) out of files that NumPy
// or a raw dump wrote, in the form that the model's encoder takes.

struct FeatureFlags {
  std::vector<std::string> files;
  std::string raw_shape;
  std::vector<std::string> further;  // NAME=FILE
};

// --features, --features-shape and --further-input. `flags` must outlive the parsing.
void AddFeatureFlags(CLI::App& app, FeatureFlags& flags);

struct NamedFeatures {
  std::string name;  // of the file, and in an archive of the array
  v1::Tensor tensor;
};

// Reads files of features: .npy holds one source, .npz one in each array (by name), anything else
// is little-endian f32 of the shape that the flags give. Files of further inputs are read at once:
// .npy holds the tensor of every source, .npz those of the first source, the second, and so on.
class FeatureFiles {
 public:
  // For the model that the client's server describes; nothing if the flags name no files. Errors
  // are DescribeModel's and Make's.
  static absl::StatusOr<std::optional<FeatureFiles>> Open(const FeatureFlags& flags, Client& client,
                                                          const std::string& model,
                                                          const std::string& version,
                                                          absl::Time deadline);
  // `model`: what the sources are for. InvalidArgument: the model does not take features or a
  // further input, --features-shape is not a shape, or a file of a further input does not fit.
  static absl::StatusOr<FeatureFiles> Make(const FeatureFlags& flags,
                                           const v1::ModelDescription& model);

  // The sources of one file, their elements converted to the type that the encoder reads. Errors
  // name the array, if there are several, and what is allowed.
  absl::StatusOr<std::vector<NamedFeatures>> Read(const std::string& path) const;

  // Gives source `number`, counted from 0, its further inputs. InvalidArgument: an archive has
  // fewer arrays.
  absl::Status AddFurtherInputs(size_t number, v1::Source& source) const;

 private:
  struct FurtherInput {
    std::string name;
    std::string path;
    bool for_all = true;
    std::vector<v1::Tensor> tensors;
  };

  static absl::StatusOr<FurtherInput> ReadFurtherInput(const std::string& flag,
                                                       const v1::ModelDescription& model);

  v1::TensorDescription input_;
  std::string takes_;  // the input for people
  std::optional<std::vector<int64_t>> raw_shape_;
  std::vector<FurtherInput> further_;
};

// The source of a model that takes features, for people: "frames f32 [length, 80]".
std::string DescribeFeatures(const v1::ModelDescription& model);
// A further input, for people: "speaker f32 [64]".
std::string DescribeFurtherInput(const v1::TensorDescription& input);
// Whether the model's encoder reads features, not ids.
bool TakesFeatures(const v1::ModelDescription& model);

// Sources that are sound: files of the usual kinds (ops/audio/sound_file.h), raw samples where the
// command line says how they are written, and both out of a pipe as they come.

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
// Whether a file of a folder is a recording, by its first bytes or by its extension; with --samples
// every file is. Hidden files and answers of `recognize` are not.
bool IsRecording(const std::string& path, const SoundFlags& flags);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_FEATURES_H_
