// Reads models of the translation toolkit Marian from its .bin files (float32 or intgemm8, as
// browsermt's marian-conv writes them) into Graphs: transformer encoders, and decoders of recurrent
// cells (SSRU or GRU) or of self-attention; and the older models s2s and nematus, of GRU cells.
// What is read and what is refused: docs/translation.md. A file is not trusted: whatever it holds,
// the answer is a Graph or an error that names the array or the option, and memory stays in
// proportion to the file.
#ifndef BEAMWRIGHT_OPS_IMPORT_MARIAN_H_
#define BEAMWRIGHT_OPS_IMPORT_MARIAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/graph/graph.h"
#include "ops/import/graph_file.h"

namespace beamwright::ops {

// The graphs that a file holds.
enum class MarianPart {
  // source i64 [rows, length] -> memory f32 [rows, length, width].
  kEncoder,
  // A step: token i64 [rows], position f32 [rows, 1], cell1.. f32 [rows, width], memory -> logits
  // f32 [rows, tokens], position_next, cell1_next.., alignment f32 [rows, length]. States begin
  // with zeros, cell1 of s2s with the encoder's second result `start`. Of self-attention, in the
  // place of cells: keys1, values1.. f32 [rows, heads, places, width / heads], which begin empty
  // and grow by a place. At position 0 the token does not matter: its embedding counts as zeros.
  kDecoder,
};

// A file with the part that is meant behind it: "model.bin#encoder", "model.bin#decoder".
struct MarianGraphName {
  std::string path;
  MarianPart part = MarianPart::kEncoder;
};
bool IsMarianGraphName(absl::string_view name);
// `name` must be one.
MarianGraphName ParseMarianGraphName(absl::string_view name);

// InvalidArgument: a wrong file; Unimplemented: options or types of elements that are not
// supported, all options by name. Errors do not name the file.
absl::StatusOr<Graph> ReadMarian(InputFilePtr file, MarianPart part);

// What a model's bundle must know of it.
struct MarianFacts {
  int64_t source_tokens = 0;
  int64_t target_tokens = 0;
  int64_t decoder_layers = 0;
  bool shared_embeddings = false;        // source and target have one table
  bool has_start_state = false;          // cell1 begins with the encoder's result `start`
  bool has_self_attention = false;       // states are keys1, values1.. in the place of cell1..
  bool is_quantised = false;             // some matrix has 8 bits
  std::vector<std::string> passed_over;  // options without effect, by name
};
absl::StatusOr<MarianFacts> ReadMarianFacts(InputFilePtr file);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_MARIAN_H_
