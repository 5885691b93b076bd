// transformers' decoders as optimum exports them: a step and a first step in two files, or both in
// one.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_TRANSFORMERS_DECODER_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_TRANSFORMERS_DECODER_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ops/graph/graph.h"

namespace beamwright::tools {

// transformers' encoder-decoder models as optimum exports them: encoder_model.onnx,
// decoder_with_past_model.onnx, which is the step, and decoder_model.onnx, the first step. The step
// reads the keys and values of the source, and only the first step computes them, of what the
// encoder gives. A search has one step: that part of the first one becomes a part of the encoder.

// Whether the step reads keys and values of the source that the encoder does not give.
bool LacksCrossMemory(const ops::Graph& step, const ops::Graph& encoder);

// The encoder's file, whose results become the first step's present.N.encoder.key and .value, and
// the encoder's own result as encoder_hidden_states if `step` takes that, too (Moonshine: for its
// length). Both files are the content of ONNX files without further files. InvalidArgument if those
// results need more than the encoder's result and inputs of both files.
absl::StatusOr<std::string> AddCrossMemory(const std::string& encoder,
                                           const std::string& first_step, const ops::Graph& step);

// transformers' decoders as optimum writes them into one file, decoder_model_merged.onnx: an If
// whose condition is the input `use_cache_branch` holds the step, and the first step.

struct MergedDecoder {
  std::string step;
  std::string first_step;
};

// Each as one ONNX file, as optimum writes them apart. `merged`: the content of an ONNX
// file without further files; nothing if it is no such file.
std::optional<MergedDecoder> SplitMerged(const std::string& merged);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_TRANSFORMERS_DECODER_H_
