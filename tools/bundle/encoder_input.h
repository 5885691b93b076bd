// What an encoder reads, where `init` has to find it out: how sound and pictures become its input;
// how the export laid out its axes; encoders that are exported for streams; and trials over made-up
// sources where names and types leave it open.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_INPUT_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_INPUT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"
#include "ops/graph/graph.h"
#include "ops/import/onnx_outline.h"
#include "tools/bundle/init_parts.h"
#include "tools/graph/roles.h"

namespace beamwright::tools {

// How a picture becomes what an encoder reads, as the shape of its input suggests.

// Sets config.picture if the encoder reads f32 of four axes, of which one has 1 or 3 extents
// (channels), and no sound; `reasons` gets a line.
void AddPicture(const ops::Graph& encoder, v1::ModelConfig& config,
                std::vector<std::string>& reasons);

// How sound becomes what an encoder reads, as its exporter's metadata and ports say.

struct SoundFacts {
  v1::SoundConfig config;
  std::string cmvn;    // content of config.cmvn
  float frame_ms = 0;  // of the encoder's frames; 0: unknown
};

// None: nothing says it. `reasons` gets a line for each guess. `has_decoder`: of a model that is
// decoded token by token.
std::optional<SoundFacts> FindSound(const ops::Graph& encoder, const v1::EncoderConfig& config,
                                    const ops::Metadata& metadata, bool has_decoder,
                                    std::vector<std::string>& reasons);

// Adds what was found, if anything.
void AddSound(const std::optional<SoundFacts>& facts, Files& files, v1::ModelConfig& config);

// Encoders run over a made-up source, where names and types leave open what they read.

inline constexpr int64_t kTrialLength = 5;

// The index into graph.parameters of a port; -1: the graph has no such port.
int ParameterOf(const ops::Graph& graph, const std::string& name);

// One source [1, kTrialLength, ...] of zeros for `source` and its length; other extents that are
// open are 1, other inputs zeros.
std::vector<ops::Tensor> TrialInputs(const ops::Graph& graph, const std::string& source,
                                     const ops::EncoderRoles& roles);

// Whether the mask over the source, roles.length_input, is true where there is no token: where it
// is true everywhere, some result does not follow the source that does where it is false.
bool IsTrueAtPadding(const ops::Graph& encoder, const ops::EncoderRoles& roles);

// How an export laid out its encoder's axes: sources [length, rows, ...], and extents that it fixed
// at those of its example.

// Encoders that read sources [length, rows, ...], as PyTorch's recurrent layers do without
// batch_first. The bundle's file has a Transpose in front, so that its source is [rows, length,
// ...] as everywhere else; results may count rows on any axis.

// The same ONNX file with the first two axes of `input` exchanged; that input is called
// RowsFirstName(input). InvalidArgument: the file is no ONNX model, or `input` has fewer axes.
absl::StatusOr<std::string> RowsFirst(const std::string& onnx, const std::string& input);
std::string RowsFirstName(const std::string& input);

// Why a graph's source is [length, rows, ...]; empty: it is not, or nothing says so. `given`: the
// file's graph; `rows_first`: that of RowsFirst, with the same other ports. Rows that are proven
// to stay apart in one of the two say it; else which of the two runs over a source of 5 positions.
std::string ReadsTimeFirst(const ops::Graph& given, const ops::Graph& rows_first,
                           const ops::EncoderRoles& roles);

// Extents that an export fixed at those of its example, where requests will bring others.

// One line for each, with what to export instead: the length of sources, and memory whose length
// the encoder varies. `encoder`: null if missing. Graphs as InferGraph leaves them.
std::vector<std::string> FixedExtents(const ops::Graph* encoder, const v1::EncoderConfig& config,
                                      const ops::Graph& decoder, const ops::DecoderRoles& roles,
                                      bool is_padded = false);

// Of an encoder alone.
// How many ids every source must have; 0: as many as it likes, or it has no ids.
int64_t FixedLength(const ops::Graph& encoder, const v1::EncoderConfig& config);

std::vector<std::string> FixedSource(const ops::Graph& encoder, const v1::EncoderConfig& config);

// Encoders that toolkits export for streams, and bundles that run them chunk by chunk
// (docs/speech.md): those whose files say how, and those whose states have to be found.

// Encoders that toolkits export for streams: states go in and come out, and a call reads one chunk.
// Where the states are those of recurrent layers and a call may be of any length, a call over the
// whole source is the same with states of zeros; so it is with encoders that are called with zeros,
// forward(input, hidden). Others are run chunk by chunk, if their file says how.

struct EncoderState {
  std::string input;
  std::string output;  // its next value, which goes with it; empty: nothing goes
};

// By names alone: `state0` and `new_state0`, `cache` and `cache_next`. Empty: it has none.
std::vector<EncoderState> FindEncoderStates(const ops::Graph& encoder);

// Of `forward(input, hidden)`: inputs by the names of states that a recurrent layer starts with.
// Outputs stay, a decoder may start from them. `source_input`, if not empty, is excluded.
std::vector<EncoderState> FindInitialStates(const ops::Graph& encoder,
                                            const std::string& source_input);

// InvalidArgument, if the encoder cannot run over a whole source at once: chunks of a fixed length,
// states that count, or caches of attention. `model_type`: what the file says it is; may be empty.
absl::Status CheckWholeSource(const ops::Graph& encoder, absl::Span<const EncoderState> states,
                              const std::string& model_type);

// The same ONNX file without these states: each begins as zeros, as many rows as the first of the
// other inputs has, also where the file declares 1. `encoder`: the file's graph. InvalidArgument:
// the file is no ONNX model, or a state's shape leaves more open than its rows.
absl::StatusOr<std::string> StartAtZero(const std::string& onnx, const ops::Graph& encoder,
                                        absl::Span<const EncoderState> states);

// Encoders that toolkits export for streams, and whose files say how: a bundle that runs them chunk
// by chunk (docs/speech.md).

// What a file's metadata says of its chunks: T and decode_chunk_len of icefall's, window_size and
// chunk_shift of NeMo's as sherpa-onnx's scripts write them, chunk_size, subsampling and right
// context of WeNet's. None: nothing that makes sense.
struct ChunkFacts {
  int chunk = 0;
  int shift = 0;
  bool is_nemo = false;
  const char* keys = "";  // of the metadata
};
std::optional<ChunkFacts> FindChunks(const ops::Metadata& metadata);

// The bundle's words for it. `reasons` gets a line for each guess.
v1::StreamingConfig StreamingConfigOf(const ChunkFacts& facts,
                                      absl::Span<const EncoderState> states,
                                      std::vector<std::string>& reasons);

// The axis of the source `input` on which its frames are: 2 of [rows, width, chunk], else 1.
int ChunkAxis(const ops::Graph& encoder, const std::string& input, int chunk);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_INPUT_H_
