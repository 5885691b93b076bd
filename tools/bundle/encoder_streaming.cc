#include "tools/bundle/encoder_streaming.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/graph/ports.h"

namespace beamwright::tools {
namespace {

// Silence behind a source, so that its last words come out: 0.66 s, as sherpa-onnx's programs add.
constexpr int kSilence = 66;

// The tail with which as many chunks are read as sherpa-onnx reads: it leaves out a chunk that its
// silence does not fill, where a tail counts the frames that a last chunk begins with.
int TailOf(int chunk) { return std::max(kSilence - (chunk - 1), 0); }

// The logarithm of what NeMo adds to energies, 2^-24.
constexpr float kNemoSilence = -16.635532F;

// 0: it does not say.
int NumberOf(const ops::Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  int value = 0;
  return found != metadata.end() && absl::SimpleAtoi(found->second, &value) ? value : 0;
}

}  // namespace

std::optional<ChunkFacts> FindChunks(const ops::Metadata& metadata) {
  const struct {
    const char* chunk;
    const char* shift;
    bool is_nemo;
  } kinds[] = {{"T", "decode_chunk_len", false}, {"window_size", "chunk_shift", true}};
  for (const auto& kind : kinds) {
    const ChunkFacts facts = {NumberOf(metadata, kind.chunk), NumberOf(metadata, kind.shift),
                              kind.is_nemo};
    if (facts.shift > 0 && facts.chunk >= facts.shift) {
      return facts;
    }
  }
  return std::nullopt;
}

v1::StreamingConfig StreamingConfigOf(const ChunkFacts& facts,
                                      absl::Span<const EncoderState> states,
                                      std::vector<std::string>& reasons) {
  v1::StreamingConfig config;
  config.set_chunk(facts.chunk);
  config.set_shift(facts.shift);
  const int tail = TailOf(facts.chunk);
  config.set_tail(tail);
  reasons.push_back(
      absl::StrCat("the encoder reads a source chunk by chunk, ", facts.chunk, " frames, the next ",
                   facts.shift, " later: metadata has ",
                   facts.is_nemo ? "window_size and chunk_shift" : "T and decode_chunk_len"));
  if (facts.is_nemo) {
    config.set_silence(kNemoSilence);
  }
  reasons.push_back(absl::StrCat("tail ", tail,
                                 ": as many chunks of silence are read behind a source as by "
                                 "sherpa-onnx's programs, for its last words to come out"));
  for (const EncoderState& state : states) {
    v1::EncoderStateConfig& added = *config.add_states();
    added.set_input(state.input);
    added.set_output(state.output);
  }
  reasons.push_back(absl::StrCat("encoder states '", states[0].input, "' <- '", states[0].output,
                                 "'", states.size() > 1 ? " and so on" : "", ", ", states.size(),
                                 " of them: alike but for words such as new and next; they begin "
                                 "at zero"));
  return config;
}

int ChunkAxis(const ops::Graph& encoder, const std::string& input, int chunk) {
  const ops::Ports inputs = ops::InputPorts(encoder);
  const ops::Port* const source = ops::FindPort(inputs, input);
  if (source == nullptr || !source->info.shape.has_rank() || source->info.shape.rank() != 3) {
    return 1;
  }
  const int64_t first = source->info.shape.dim(1);
  const int64_t second = source->info.shape.dim(2);
  const bool is_second = second == ops::PartialShape::kDynamic || second == chunk;
  return is_second && first != ops::PartialShape::kDynamic && first != chunk ? 2 : 1;
}

}  // namespace beamwright::tools
