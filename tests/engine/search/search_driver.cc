#include "tests/engine/search/search_driver.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "gtest/gtest.h"
#include "ops/base/status.h"

namespace beamwright::search_testing {

using search::BeamSearch;
using search::RowCandidates;
using search::SearchOptions;
using search::SlotHistory;

Candidates BestOf(const std::vector<float>& log_probs, int count) {
  Candidates result;
  result.tokens.resize(log_probs.size());
  std::iota(result.tokens.begin(), result.tokens.end(), 0);
  std::stable_sort(result.tokens.begin(), result.tokens.end(), [&](int32_t a, int32_t b) {
    return log_probs[static_cast<size_t>(a)] > log_probs[static_cast<size_t>(b)];
  });
  result.tokens.resize(std::min(result.tokens.size(), static_cast<size_t>(count)));
  for (const int32_t token : result.tokens) {
    result.log_probs.push_back(log_probs[static_cast<size_t>(token)]);
  }
  return result;
}

std::vector<int32_t> WalkPaths(const SlotHistory& history) {
  const int slots = history.num_slots();
  std::vector<int32_t> paths(history.slot_ids().size());
  for (int slot = 0; slot < slots; ++slot) {
    int at = slot;
    for (int step = history.num_steps() - 1; step >= 0; --step) {
      const size_t index = static_cast<size_t>(step * slots);
      paths[index + static_cast<size_t>(slot)] =
          history.slot_ids()[index + static_cast<size_t>(at)];
      at = history.slot_parents()[index + static_cast<size_t>(at)];
      EXPECT_TRUE(at >= 0 && at < slots) << "parent of step " << step << ", slot " << slot;
    }
  }
  return paths;
}

namespace {

// Laws of the slots that GatherTree's result rests on. Returns the uses of finished slots.
int64_t CheckSlots(const SlotHistory& history, int beam_size) {
  int64_t uses = 0;
  for (int step = 0; step < history.num_steps(); ++step) {
    for (int slot = 0; slot < history.num_slots(); ++slot) {
      const int id = history.slot_id(step, slot);
      const int parent = history.slot_parent(step, slot);
      if (id == -1) {
        EXPECT_EQ(parent, slot) << "a slot at rest is its own parent";
      } else {
        EXPECT_EQ(id, slot);
        EXPECT_LT(parent, beam_size) << "only live rows are continued";
        EXPECT_TRUE(step == 0 ? parent == 0 : history.slot_id(step - 1, parent) == parent);
        uses += slot >= beam_size ? 1 : 0;
      }
    }
  }
  return uses;
}

// The search's rules as a plain list; nothing but padding is expected in them.
std::vector<int32_t> Banned(const RowRules& rules) {
  std::vector<int32_t> banned;
  for (const LogitEdit& edit : rules.edits) {
    EXPECT_EQ(edit.kind, EditKind::kExclude);
    banned.push_back(edit.token);
  }
  EXPECT_TRUE(!rules.has_allowed && rules.temperature == 1 && rules.bonuses.empty());
  return banned;
}

}  // namespace

absl::StatusOr<DrivenResult> Drive(const DrivenModel& model, const SearchOptions& options,
                                   int extra_candidates) {
  BW_ASSIGN_OR_RETURN(BeamSearch search, BeamSearch::Create(options));
  EXPECT_EQ(search.num_rows(), 1);
  EXPECT_EQ(search.tokens()[0], options.begin_token);
  std::vector<std::vector<int32_t>> prefixes(1);
  DrivenResult result;
  while (!search.done()) {
    std::vector<Candidates> lists;
    std::vector<RowCandidates> views;
    for (int row = 0; row < search.num_rows(); ++row) {
      const size_t r = static_cast<size_t>(row);
      lists.push_back(BestOf(model(prefixes[r], Banned(search.rules()[r])),
                             search.candidates_per_row() + extra_candidates));
    }
    for (const Candidates& list : lists) {
      views.push_back({list.tokens, list.log_probs});
    }
    BW_RETURN_IF_ERROR(search.Advance(views));
    ++result.steps;
    std::vector<std::vector<int32_t>> next;
    for (int row = 0; row < search.num_rows(); ++row) {
      const size_t r = static_cast<size_t>(row);
      next.push_back(prefixes.at(static_cast<size_t>(search.parents()[r])));
      next.back().push_back(search.tokens()[r]);
    }
    prefixes = std::move(next);
  }
  EXPECT_EQ(search.num_rows(), 0);
  EXPECT_EQ(search.history().num_steps(), result.steps);
  result.num_finished = search.num_finished();
  result.finished_slot_uses = CheckSlots(search.history(), options.beam_size);
  const std::vector<int32_t> paths = WalkPaths(search.history());
  BW_ASSIGN_OR_RETURN(result.hypotheses, search.Collect({paths, search.num_slots()}));
  return result;
}

}  // namespace beamwright::search_testing
