// LexicalTable: which target tokens a source token may become. A request that asks for it chooses
// among those of its own source's tokens, and the most frequent ones; never among its batch's.
#ifndef BEAMWRIGHT_ENGINE_MODEL_LEXICAL_TABLE_H_
#define BEAMWRIGHT_ENGINE_MODEL_LEXICAL_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"
#include "engine/bundle/text_codec.h"

namespace beamwright::engine {

// Immutable and thread-safe. 4 bytes an entry.
class LexicalTable {
 public:
  // content: of the file that `config` names; target_size: tokens that the decoder chooses from.
  // InvalidArgument naming the line: not two or three fields, a token that a vocabulary lacks, a
  // probability that is not a finite number. A pair that is there twice counts once, with its first
  // probability's place; without probabilities lines count in their order.
  static absl::StatusOr<std::shared_ptr<const LexicalTable>> Read(
      absl::string_view content, const v1::LexicalTableConfig& config,
      const bundle::TextCodec& source, const bundle::TextCodec& target, int target_size);

  // Target tokens for a source of these ids: ascending, distinct, frequent ones included.
  std::vector<int32_t> Shortlist(absl::Span<const int32_t> source_ids) const;

 private:
  LexicalTable() = default;

  int num_frequent_ = 0;
  // Target tokens of sources_[i]: targets_[starts_[i]] to targets_[starts_[i + 1] - 1].
  std::vector<int32_t> sources_;  // ascending
  std::vector<size_t> starts_;
  std::vector<int32_t> targets_;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_LEXICAL_TABLE_H_
