// What the JSON files of transformers say of a model that optimum exported, and what no graph says:
// how sound or a picture becomes the encoder's input (preprocessor_config.json), with which tokens
// answers begin, which are never chosen and how long an answer is (generation_config.json, else
// config.json), and how texts become ids and back (tokenizer.json; of Marian source.spm, target.spm
// and vocab.json). They lie in the graphs' folder, or above
// it where that folder is named onnx.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_EXPORT_SETTINGS_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_EXPORT_SETTINGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/model.pb.h"
#include "tools/bundle/init.h"

namespace beamwright::tools {

struct ExportSettings {
  std::optional<v1::SoundConfig> sound;
  std::optional<v1::PictureConfig> picture;
  // Those of transformers' generate: its length normalisation, and log-probabilities that are not
  // renormalised over the tokens that may be chosen.
  v1::DecodeOptions options;
  std::vector<std::string> reasons;
  std::vector<std::string> unknown;
};

// Of an encoder that reads sound, pictures or, in an encoder-decoder, text; std::nullopt: there are
// no such files, or they are of another kind of model. Fills in what `options` leaves open:
// vocabularies, begin and end tokens, length_axis, input_shape. InvalidArgument names the file that
// is not JSON, or lacks the token that the options name (source_language, target_language).
absl::StatusOr<std::optional<ExportSettings>> TakeExportSettings(InitOptions& options);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_EXPORT_SETTINGS_H_
