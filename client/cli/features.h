// Sources that are not text: tensors of features (speech frames, pictures) out of files that NumPy
// or a raw dump wrote, in the form that the model's encoder takes.
#ifndef BEAMWRIGHT_CLIENT_CLI_FEATURES_H_
#define BEAMWRIGHT_CLIENT_CLI_FEATURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/model.pb.h"
#include "client/client.h"

namespace beamwright::client {

struct FeatureFlags {
  std::vector<std::string> files;
  std::string raw_shape;
};

// --features and --features-shape. `flags` must outlive the parsing.
void AddFeatureFlags(CLI::App& app, FeatureFlags& flags);

struct NamedFeatures {
  std::string name;  // of the file, and in an archive of the array
  v1::Tensor tensor;
};

// Reads files of features: .npy holds one source, .npz one in each array (by name), anything else
// is little-endian f32 of the shape that the flags give.
class FeatureFiles {
 public:
  // For the model that the client's server describes; nothing if the flags name no files. Errors
  // are DescribeModel's and Make's.
  static absl::StatusOr<std::optional<FeatureFiles>> Open(const FeatureFlags& flags, Client& client,
                                                          const std::string& model,
                                                          const std::string& version,
                                                          absl::Time deadline);
  // `model`: what the sources are for. InvalidArgument: the model does not take features, or
  // --features-shape is not a shape.
  static absl::StatusOr<FeatureFiles> Make(const FeatureFlags& flags,
                                           const v1::ModelDescription& model);

  // The sources of one file, their elements converted to the type that the encoder reads. Errors
  // name the array, if there are several, and what is allowed.
  absl::StatusOr<std::vector<NamedFeatures>> Read(const std::string& path) const;

 private:
  v1::TensorDescription input_;
  std::string takes_;  // the input for people
  std::optional<std::vector<int64_t>> raw_shape_;
};

// The source of a model that takes features, for people: "frames f32 [length, 80]".
std::string DescribeFeatures(const v1::ModelDescription& model);
// Whether the model's encoder reads features, not ids.
bool TakesFeatures(const v1::ModelDescription& model);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_FEATURES_H_
