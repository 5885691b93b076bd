// Marian's .bin files: a model's arrays by name, and its options as YAML. The arrays stay in the
// file until a constant is made of them. Private to import/.
//
// Layout, little-endian: u64 version (1); u64 count; per array 4 u64 (bytes of the name with its
// NUL, type, rank, bytes of the elements); the names; the extents as i32; u64 gap and that many
// bytes; the elements of one array behind those of the other.
#ifndef BEAMWRIGHT_OPS_IMPORT_MARIAN_FILE_H_
#define BEAMWRIGHT_OPS_IMPORT_MARIAN_FILE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/import/import_options.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_MARIAN_FILE_H_
