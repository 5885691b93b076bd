// A request inside the engine: what was asked, its search, and its place in the running batch.
#ifndef BEAMWRIGHT_SERVER_ENGINE_REQUEST_H_
#define BEAMWRIGHT_SERVER_ENGINE_REQUEST_H_

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "server/engine/attention.h"
#include "server/engine/engine.h"
#include "server/engine/parts.h"
#include "server/engine/step_runner.h"
#include "server/fusion/row_scorer.h"
#include "server/search/beam_search.h"
#include "server/search/stable_tokens.h"
#include "server/search/target_scorer.h"
#include "server/status/error_details.h"

namespace beamwright::engine {

// A source in the form that the encoder, or the decoder, takes.
struct PreparedSource {
  int source_length = 0;
  std::vector<int32_t> ids;  // of text and ids
  std::vector<int32_t> unknown_positions;
  std::optional<ops::Tensor> encoder_input;  // [1, length, ...]
  std::vector<ops::Tensor> decoder_inputs;   // where there is no encoder: [1, ...] per parts.inputs
};

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

struct Request {
  Request() = default;
  // One that goes without its answer was lost on the way to it, because memory ran out there, and
  // is told so.
  ~Request() {
    if (!is_answered) {
      Fail(status::OutOfMemory());
    }
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  std::shared_ptr<const DecodeModel> model;
  PreparedSource source;
  // One of them.
  std::optional<search::BeamSearch> search;
  std::optional<search::TargetScorer> scorer;
  int beam_size = 0;  // most rows
  int max_steps = 0;
  bool wants_lattice = false;
  v1::Attention wants_attention = v1::ATTENTION_NONE;
  bool reads_attention = false;  // for the answer, or for the search
  AttentionHistory attention;
  int64_t price_bytes = 0;
  CallOptions call;
  bool may_be_cut = false;  // the search may answer with what it has
  // When it is to; in the infinite future: never.
  absl::Time cut_at = absl::InfiniteFuture();
  std::variant<Engine::Callback, Engine::ScoreCallback> done;
  bool is_answered = false;
  int64_t row_steps = 0;  // SourceFacts
  // Of the step under way, or to be repeated: whether it takes part, and with how many rows.
  bool takes_part = false;
  int step_rows = 0;
  // Its encoder run was given up because of others in it.
  bool encodes_alone = false;
  absl::Time accepted;
  absl::Time started;
  // Of a stream: what was told, and when its first token was.
  search::StableTokens stable;
  absl::Time first_token = absl::InfinitePast();

  std::vector<RequestDecoder> decoders;  // by decoder of the model
  std::vector<RequestScorer> scorers;    // in the order of the search's options

  // Makes `decoders` and `scorers` for the search's options; CTC's rows come with the encoder's
  // results.
  void Prepare();
  // A step of the search, and of those scorers that follow it row by row.
  absl::Status Advance(absl::Span<const search::RowCandidates> candidates);

  // OK, or why the request must end now.
  absl::Status CheckAlive(absl::Time now) const;
  // Answers it, unless it has its answer.
  void Fail(const absl::Status& status) {
    if (is_answered) {
      return;
    }
    is_answered = true;
    std::visit(
        [&](const auto& callback) {
          if (callback != nullptr) {
            callback(status);
          }
        },
        done);
  }
  // Answers it; it must not have an answer.
  template <typename Answer>
  void Give(Answer answer) {
    is_answered = true;
    std::get<std::function<void(absl::StatusOr<Answer>)>>(done)(std::move(answer));
  }
  // What decides about its rows.
  search::RowSearch& rows() {
    return scorer.has_value() ? static_cast<search::RowSearch&>(*scorer) : *search;
  }
  const search::SearchOptions& search_options() const {
    return scorer.has_value() ? scorer->options() : search->options();
  }
};

// Tokenises or converts a source and checks it against the model: InvalidArgument naming the field.
absl::StatusOr<PreparedSource> PrepareSource(const DecodeModel& model, const v1::Source& source);

// The longest source that the model, or else anything here, takes.
int MaxSourceLength(const DecodeModel& model);

// Bytes that a request holds at most while it runs: states and history of its rows, values that its
// steps share.
int64_t PriceBytes(const DecodeModel& model, const search::SearchOptions& options,
                   int source_length, bool keeps_attention);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_REQUEST_H_
