// The options of a Marian model: what its architecture is, or by which options it is one that is
// not implemented. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_MARIAN_OPTIONS_H_
#define BEAMWRIGHT_OPS_IMPORT_MARIAN_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::ops {

enum class MarianActivation { kRelu, kSwish, kGelu };

// A transformer encoder, and a decoder of recurrent cells or of self-attention, with attention to
// the source; or, of the types s2s and nematus, GRU cells on both sides (marian_s2s.h).
struct MarianOptions {
  bool is_s2s = false;
  bool has_nematus_names = false;  // of arrays
  int64_t state_width = 0;         // of s2s
  int64_t width = 0;               // of embeddings and layers
  int64_t heads = 0;
  int64_t encoder_layers = 0;
  int64_t decoder_layers = 0;
  int64_t encoder_ffn = 0;  // width between the two products of a feed-forward layer
  int64_t decoder_ffn = 0;
  MarianActivation activation = MarianActivation::kSwish;  // of feed-forward layers
  bool has_self_attention = false;                         // in the decoder, in the place of cells
  bool has_gru_cells = false;                              // in the decoder; else SSRU cells
  bool shared_embeddings = false;        // 'Wemb' is the source's table and the target's
  bool tied_output = false;              // the target's table is the output matrix as well
  std::vector<std::string> passed_over;  // names of options that do not matter here

  // Arrays of embeddings.
  std::string source_table() const {
    return shared_embeddings || has_nematus_names ? "Wemb" : "encoder_Wemb";
  }
  std::string target_table() const {
    return shared_embeddings ? "Wemb" : has_nematus_names ? "Wemb_dec" : "decoder_Wemb";
  }
};

// `yaml`: an option a line, `name: value`, and lists. InvalidArgument: other lines, numbers
// out of range. Unimplemented: options that change the result and ask for what is not implemented,
// all of them by name.
absl::StatusOr<MarianOptions> ParseMarianOptions(absl::string_view yaml);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_MARIAN_OPTIONS_H_
