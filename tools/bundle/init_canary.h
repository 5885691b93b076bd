// Canary and other EncDecMultiTaskModels of NeMo as sherpa-onnx's script exports them:
// encoder.onnx, whose metadata name the model's type, decoder.onnx and tokens.txt. The decoder is a
// step for one hypothesis: `decoder_input_ids` [1, 2] is a token and its position, and
// `decoder_mems_list_<i>` [1, length, width] grow by one place.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_INIT_CANARY_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_INIT_CANARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/bundle/export_settings.h"
#include "tools/bundle/init.h"

namespace beamwright::tools {

// By the encoder's metadata.
bool IsCanary(const InitOptions& options);

// The prompt: language of the sound (options.source_language, else English) and of the text
// (options.target_language, else that of the sound), with punctuation. Fills in what `options`
// leaves open: target_vocab, begin and end token, states. InvalidArgument: the vocabulary lacks a
// token of the prompt, or is missing.
absl::StatusOr<ExportSettings> TakeCanarySettings(InitOptions& options);

// The decoder's file with two inputs [rows, 1] for token and position, and any number of rows.
// InvalidArgument: it is another graph.
absl::StatusOr<std::string> CanaryStep(const std::string& decoder);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_INIT_CANARY_H_
