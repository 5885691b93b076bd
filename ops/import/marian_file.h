// Marian's .bin files: a model's arrays by name, its options as YAML, and what they say of its
// architecture. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_MARIAN_FILE_H_
#define BEAMWRIGHT_OPS_IMPORT_MARIAN_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/import/graph_file.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// Marian's .bin files: a model's arrays by name, and its options as YAML. The arrays stay in the
// file until a constant is made of them.
//
// Layout, little-endian: u64 version (1); u64 count; per array 4 u64 (bytes of the name with its
// NUL, type, rank, bytes of the elements); the names; the extents as i32; u64 gap and that many
// bytes; the elements of one array behind those of the other.

struct MarianArray {
  enum class Type {
    kF32,
    kI8,  // plain bytes: the options
    // i8 with one f32 multiplier behind them: an element is integer / multiplier. A matrix
    // [depth, columns] has its elements transposed, a table of embeddings has not.
    kIntgemm8,
  };
  Type type = Type::kF32;
  Shape shape;  // as the model means it, whatever the order of the elements
  int64_t offset = 0;
};

class MarianFile {
 public:
  // InvalidArgument: not a Marian file, or arrays that do not lie in it. Unimplemented: a type of
  // elements that is not read. Nothing is allocated beyond a small multiple of the file's bytes.
  static absl::StatusOr<MarianFile> Read(InputFilePtr file);

  const std::map<std::string, MarianArray>& arrays() const { return arrays_; }
  // nullptr if the file has no such array.
  const MarianArray* Find(absl::string_view name) const;

  // The options of the model: the array special:model.yml, without the NUL behind it.
  absl::StatusOr<std::string> Options() const;

  // The elements as f32 in the file's order, under a shape with as many elements.
  absl::StatusOr<Tensor> Floats(const MarianArray& array, const Shape& shape) const;
  // The integers of a kIntgemm8, and what they are divided by.
  absl::StatusOr<Tensor> Integers(const MarianArray& array, const Shape& shape) const;
  absl::StatusOr<float> Multiplier(const MarianArray& array) const;

 private:
  InputFilePtr file_;
  std::map<std::string, MarianArray> arrays_;
};

// The options of a Marian model: what its architecture is, or by which options it is one that is
// not implemented.

enum class MarianActivation { kRelu, kSwish, kGelu };

// A transformer encoder, and a decoder of recurrent cells or of self-attention, with attention to
// the source; or, of the types s2s and nematus, GRU cells on both sides (marian_nodes.h).
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

#endif  // BEAMWRIGHT_OPS_IMPORT_MARIAN_FILE_H_
