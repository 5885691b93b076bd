// LexicalConstraints: token sequences that every hypothesis must contain (Post and Vilar 2018,
// "Fast lexically constrained decoding with dynamic beam allocation"; Hu et al. 2019 for the
// bookkeeping). It reports to the search how much of them a row has met, its bank, and keeps end
// tokens away until that is all. How rows of different banks share the beam is docs/decoding.md,
// 'Required sequences'.
//
// Progress is exact but for one simplification: a token counts for one constraint only, and a
// constraint that breaks off starts again from its beginning, with the breaking token at most.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_LEXICAL_CONSTRAINTS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_LEXICAL_CONSTRAINTS_H_

#include <vector>

#include "engine/search/options.h"
#include "engine/search/processor.h"

namespace beamwright::search {

class LexicalConstraints final : public Processor {
 public:
  // 1 to kMaxConstraints sequences of 1 to kMaxConstraintLength tokens. in_order: the first before
  // the second and so on; else in any order.
  LexicalConstraints(std::vector<TokenSequence> sequences, bool in_order,
                     std::vector<int32_t> end_tokens);

  absl::string_view option() const override { return "required_sequences"; }
  int64_t Next(int64_t state, int32_t token) const override;
  void Apply(const RowView& row, RuleBuffer& rules) const override;
  bool MayBeCut(int64_t state) const override { return Bank(state) == total_; }
  int Bank(int64_t state) const override;
  void AddBankTokens(int64_t state, std::vector<int32_t>& tokens) const override;

 private:
  // What a state says: which sequences are complete, and how far into which one the row is.
  struct Progress {
    uint32_t done = 0;   // one bit a sequence
    size_t current = 0;  // with matched > 0: a sequence that is not done
    size_t matched = 0;  // its tokens, fewer than all
  };
  static Progress Unpack(int64_t state);
  static int64_t Pack(const Progress& progress);

  // Whether sequence i may be worked on now.
  bool IsOpen(size_t i, const Progress& progress) const;
  // Moves to the first open sequence that starts with the `matched` tokens of `current` and goes on
  // with `token`; false without one. A sequence that is complete with it is preferred.
  bool Extend(int32_t token, size_t matched, Progress& progress) const;

  std::vector<TokenSequence> sequences_;
  bool in_order_;
  std::vector<int32_t> end_tokens_;
  int total_ = 0;  // tokens of all sequences
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_LEXICAL_CONSTRAINTS_H_
