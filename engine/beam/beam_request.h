// BeamRequest: a source that is decoded by beam search, or whose targets are scored. Private to
// engine/.
#ifndef BEAMWRIGHT_ENGINE_BEAM_BEAM_REQUEST_H_
#define BEAMWRIGHT_ENGINE_BEAM_BEAM_REQUEST_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/beam/step_runner.h"
#include "engine/fusion/row_scorers.h"
#include "engine/request/request.h"
#include "engine/request/saved_state.h"
#include "engine/search/beam_search.h"
#include "engine/search/target_scorer.h"
#include "ops/graph/operator.h"

namespace beamwright::engine {

// One decoder of the model at work for a request.
struct RequestDecoder {
  bool is_used = false;
  DecoderRows rows;
};

// One of the scorers that count in a request.
struct RequestScorer {
  std::string name;
  int decoder = -1;                         // that says it; -1:
  std::unique_ptr<fusion::RowScorer> rows;  // who says it
};

struct BeamRequest : Request {
  // One of them.
  std::optional<search::BeamSearch> search;
  std::optional<search::TargetScorer> scorer;
  bool wants_lattice = false;
  v1::Attention wants_attention = v1::ATTENTION_NONE;
  bool reads_attention = false;  // for the answer, or for the search
  AttentionHistory attention;
  int max_known_rows = 0;  // EngineOptions
  int positions = 1;       // that each of its rows reads in the step under way
  // Of the step under way, or to be repeated: a row's positions stand one behind the other.
  int step_rows = 0;
  int group = -1;  // of requests whose states have the same shapes; -1: not found yet
  // Of a stream: what was sent, and when its first token was.
  search::StableTokens stable;
  absl::Time first_token = absl::InfinitePast();

  // Of a model with portable states. returned: behind the target prefix, once that is read.
  bool returns_state = false;
  std::string state_key;  // EngineOptions
  std::optional<SavedState> returned;
  // Null: its prefix is neither looked up nor kept.
  std::shared_ptr<PrefixCache> prefix_cache;
  int num_cached = 0;  // tokens of the prefix whose state was kept

  std::vector<RequestDecoder> decoders;  // by decoder of the model
  std::vector<RequestScorer> scorers;    // in the order of the search's options

  // Makes `decoders` and `scorers` for the search's options; CTC's rows come with the encoder's
  // results.
  void SetUpDecoders();
  absl::Status Start(const ops::ExecutionContext& context, const EncodedSources& encoded,
                     int64_t row) override;
  absl::Status StartAlone(const ops::ExecutionContext& context) override;
  // Positions that each row can read in the next step, 1 or more.
  int MostPositions();
  // Whether the states behind the search's only row are wanted now, for the answer or the cache;
  // and what takes them, copies.
  bool WantsStates() const;
  void KeepStates(std::vector<ops::Tensor> states);
  // Of its prefix in the cache: the model, and what the first token is read behind.
  void set_origin(std::string origin) { origin_ = std::move(origin); }
  // A step of the search, and of those scorers that follow it row by row.
  absl::Status Advance(absl::Span<const search::RowCandidates> candidates);

  // For RequestDriver.
  bool Cut(v1::FinishReason why);
  void ReportProgress();
  void Answer();
  int steps_made() const { return scorer.has_value() ? scorer->num_steps() : search->num_steps(); }

  // What decides about its rows.
  search::RowSearch& rows() {
    return scorer.has_value() ? static_cast<search::RowSearch&>(*scorer) : *search;
  }
  const search::SearchOptions& search_options() const {
    return scorer.has_value() ? scorer->options() : search->options();
  }

 private:
  // Begins behind what is kept of the prefix: `states` become those, and the search has advanced.
  absl::Status SkipCached(std::vector<ops::Tensor>& states);
  // What the first step reads, and the prefix.
  PrefixCache::Tokens PrefixTokens() const;

  std::string origin_;  // of prefixes in the cache
  // Tokens to read up to where other prefixes go another way, to be kept there; 0: nowhere.
  size_t branch_ = 0;
};

// Answers requests whose searches have ended, at one step: one GatherTree for all. An error of one
// request concerns that one alone.
void Answer(const ops::ExecutionContext& context, absl::Span<BeamRequest* const> requests);

// Finalisation: the n-best lists of requests that finished at the same step, by one GatherTree over
// [time, request, slot] (docs/architecture.md, 'Slots').

// N-best list of each search; an element's error concerns that search alone.
std::vector<absl::StatusOr<std::vector<search::Hypothesis>>> Finalise(
    const ops::ExecutionContext& context, absl::Span<const search::BeamSearch* const> searches);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_BEAM_BEAM_REQUEST_H_
