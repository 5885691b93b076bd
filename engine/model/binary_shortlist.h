// Binary lexical shortlists as Marian's converter writes them (lex.50.50.DIR.s2t.bin). Private to
// engine/model/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_BINARY_SHORTLIST_H_
#define BEAMWRIGHT_ENGINE_MODEL_BINARY_SHORTLIST_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::engine {

struct BinaryShortlist {
  int num_frequent = 0;  // the first ids of the target vocabulary, which are open to every source
  // Target ids of source id i, ascending: targets[starts[i]] to targets[starts[i + 1] - 1].
  std::vector<size_t> starts;
  std::vector<int32_t> targets;
};

// Whether the content begins as such a file does; text does not.
bool IsBinaryShortlist(absl::string_view content);

// InvalidArgument: cut short, a checksum that does not fit, another number of source ids than the
// vocabulary has, target ids outside [0, target_size), lists that do not ascend.
absl::StatusOr<BinaryShortlist> ParseBinaryShortlist(absl::string_view content, int source_size,
                                                     int target_size);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_BINARY_SHORTLIST_H_
