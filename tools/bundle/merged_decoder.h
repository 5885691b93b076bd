// transformers' decoders as optimum writes them into one file, decoder_model_merged.onnx: an If
// whose condition is the input `use_cache_branch` holds the step, and the first step.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_MERGED_DECODER_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_MERGED_DECODER_H_

#include <optional>
#include <string>

namespace beamwright::tools {

struct MergedDecoder {
  std::string step;
  std::string first_step;
};

// Each as one ONNX file, as optimum writes them apart. `merged`: the content of an ONNX
// file without further files; nothing if it is no such file.
std::optional<MergedDecoder> SplitMerged(const std::string& merged);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_MERGED_DECODER_H_
