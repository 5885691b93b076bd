// Vocabulary: the tokens of a vocabulary file, one a line, the line number (from 0) its id. As
// bundles have them.
#ifndef BEAMWRIGHT_OPS_BASE_VOCABULARY_H_
#define BEAMWRIGHT_OPS_BASE_VOCABULARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright {

// Thread-safe after Parse.
class Vocabulary {
 public:
  // What lines may hold.
  enum class Lines {
    kDistinct,  // texts are distinct: every token can be spelled
    kColumns,   // a name for each column of a model's scores: two columns may share a text, and the
                // text of a column may be empty
  };
  // InvalidArgument naming the line (from 1, as editors count): an empty or duplicate token
  // (kDistinct), a carriage return at the end of a line, a byte order mark, what is not UTF-8; or
  // no line at all. The newline at the end of the file may be missing.
  static absl::StatusOr<Vocabulary> Parse(absl::string_view content,
                                          Lines lines = Lines::kDistinct);

  int size() const { return static_cast<int>(tokens_.size()); }
  // -1 if there is no such token. Of columns that share a text the last: lists of columns become
  // dictionaries in training, where the last entry stays.
  int32_t Find(absl::string_view token) const;
  // id in [0, size()).
  const std::string& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }

 private:
  std::vector<std::string> tokens_;
  absl::flat_hash_map<std::string, int32_t> ids_;
};

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_VOCABULARY_H_
