// One request while it is decoded step by step: its search, its place in each decoder's states, and
// its scorers.
//
// 1. SetUpDecoders marks the decoders that the request uses (those of the model or its ensemble,
//    and language models among the scorers that it weighs) and makes the scorers that are no
//    decoders: n-grams, lexicons, CTC prefixes.
// 2. Start, with an encoded source, or StartAlone, with inputs that the request itself brought,
//    computes the start states of each decoder. StartAlone also tries a step (TryStep), since
//    inputs of a caller may not fit the decoder; an error then is the caller's.
// 3. Step by step the driver calls Advance with the candidates of the request's rows; the scorers
//    follow the search.
// 4. Cut, ReportProgress and Answer end or report it.
//
// The prefix cache. A request of a model without an encoder may share its prompt with an earlier
// one. SkipCached finds the longest cached beginning of the prompt: the search takes the
// log-probabilities that were kept with it, and the decoder continues from the kept states.
// WantsStates says after which step the states must be kept: at the end of the prompt, and where it
// branches off from another cached one. KeepStates stores them.
#include "engine/beam/beam_request.h"

#include <algorithm>
#include <utility>

#include "engine/fusion/ngram_model.h"
#include "engine/fusion/row_scorers.h"
#include "engine/model/model_inputs.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/kernels/math.h"

namespace beamwright::engine {
namespace {

using ops::Tensor;

// The probabilities of a CTC head over the frames of one source.
absl::StatusOr<fusion::CtcFrames> FramesOf(const CtcOutput& ctc, const Tensor& output) {
  fusion::CtcFrames frames;
  frames.blank = ctc.blank;
  BW_RETURN_IF_ERROR(CtcLogProbs(ctc, output, frames.probs));
  frames.num_columns = static_cast<int>(output.dim(2));
  for (float& value : frames.probs) {
    value = ops::Exp(value);
  }
  return frames;
}

absl::Status StartCtc(const DecodeModel::Parts& parts, const EncodedSources& encoded, int64_t row,
                      BeamRequest& request) {
  for (RequestScorer& scorer : request.scorers) {
    const ScorerPart& part = *parts.FindScorer(scorer.name);
    if (!part.ctc.has_value()) {
      continue;
    }
    BW_ASSIGN_OR_RETURN(
        const Tensor output,
        ResultOfSource(*parts.encoder(), encoded.outputs[0], encoded.num_sources, row,
                       part.ctc->result, scorer.name, request.source.source_length));
    auto frames = FramesOf(*part.ctc, output);
    BW_RETURN_IF_ERROR(Annotate(frames.status(), absl::StrCat("scorer '", scorer.name, "'")));
    scorer.rows = std::make_unique<fusion::CtcPrefixScorer>(*std::move(frames),
                                                            request.search_options().end_tokens);
  }
  return absl::OkStatus();
}

// Starts the language models: decoders that read nothing of the source.
absl::Status StartLanguageModels(const ops::ExecutionContext& context,
                                 const DecodeModel::Parts& parts, BeamRequest& request) {
  for (int number = parts.num_members(); number < parts.num_decoders(); ++number) {
    RequestDecoder& decoder = request.decoders[static_cast<size_t>(number)];
    if (decoder.is_used) {
      const DecoderPart& own = parts.decoder(number);
      BW_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, DecoderInputs(own, {}, 1, 0, 0));
      BW_RETURN_IF_ERROR(Prepare(own, context, inputs, decoder.rows.start));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void BeamRequest::SetUpDecoders() {
  const DecodeModel::Parts& parts = model->parts();
  decoders.resize(static_cast<size_t>(parts.num_decoders()));
  for (int member = 0; member < parts.num_members(); ++member) {
    decoders[static_cast<size_t>(member)].is_used = true;
  }
  for (const search::ScorerWeight& wanted : search_options().scorers) {
    const ScorerPart& part = *parts.FindScorer(wanted.name);
    RequestScorer& own = scorers.emplace_back();
    own.name = part.name;
    own.decoder = part.decoder;
    if (part.decoder >= 0) {
      decoders[static_cast<size_t>(part.decoder)].is_used = true;
    } else if (part.ngram != nullptr) {
      own.rows = std::make_unique<fusion::NgramScorer>(part.ngram);
    } else if (part.words != nullptr) {
      own.rows = std::make_unique<fusion::WordNgramScorer>(part.words);
    } else if (part.lexicon != nullptr) {
      own.rows = std::make_unique<fusion::LexiconScorer>(part.lexicon);
    } else if (part.word_count != nullptr) {
      own.rows = std::make_unique<fusion::WordCountScorer>(part.word_count);
    }
  }
}

int BeamRequest::MostPositions() {
  // Other decoders and scorers follow the search step by step.
  if (model->parts().num_members() > 1 || !scorers.empty() || reads_attention) {
    return 1;
  }
  const int left = static_cast<int>(branch_) - rows().num_steps();
  return std::max(left > 0 ? left : rows().num_known_steps(), 1);
}

bool BeamRequest::WantsStates() const {
  if (!search.has_value() || search->done() || (!returns_state && prefix_cache == nullptr)) {
    return false;
  }
  const auto steps = static_cast<size_t>(search->num_steps());
  const size_t prefix = search_options().constraints.prefix.size();
  return steps == prefix ? returns_state || static_cast<size_t>(num_cached) < prefix
                         : steps > 0 && steps == branch_;
}

void BeamRequest::KeepStates(std::vector<Tensor> states) {
  const auto steps = static_cast<size_t>(search->num_steps());
  PrefixCache::Tokens tokens = PrefixTokens();
  if (returns_state && steps + 1 == tokens.size()) {
    returned = SavedState();
    returned->next_token = tokens.back();
    returned->num_read =
        static_cast<int64_t>(steps) + (source.state.has_value() ? source.state->num_read : 0);
    returned->states = states;
  }
  if (prefix_cache == nullptr || static_cast<size_t>(num_cached) >= steps) {
    return;
  }
  auto entry = std::make_shared<PrefixCache::Entry>();
  for (size_t step = 0; step < steps; ++step) {
    entry->log_probs.push_back(search->history().log_prob(static_cast<int>(step), 0));
  }
  entry->states = std::move(states);
  tokens.resize(steps + 1);
  prefix_cache->Add(origin_, std::move(tokens), std::move(entry));
}

PrefixCache::Tokens BeamRequest::PrefixTokens() const {
  const search::SearchOptions& options = search_options();
  PrefixCache::Tokens tokens = {options.begin_token};
  tokens.insert(tokens.end(), options.constraints.prefix.begin(), options.constraints.prefix.end());
  return tokens;
}

// Skips the beginning of the prompt that is cached. The search takes the log-probabilities that
// were kept when these tokens were read: they depend on the tokens only.
absl::Status BeamRequest::SkipCached(std::vector<Tensor>& states) {
  const PrefixCache::Found found = prefix_cache->Find(origin_, PrefixTokens());
  branch_ = found.branch;
  if (found.entry == nullptr) {
    return absl::OkStatus();
  }
  for (const float log_prob : found.entry->log_probs) {
    search::RowCandidates row;
    row.watched = absl::MakeConstSpan(&log_prob, 1);
    BW_RETURN_IF_ERROR(search->Advance(absl::MakeConstSpan(&row, 1)));
  }
  num_cached = search->num_steps();
  states = found.entry->states;
  return absl::OkStatus();
}

absl::Status BeamRequest::Advance(absl::Span<const search::RowCandidates> candidates) {
  BW_RETURN_IF_ERROR(rows().Advance(candidates));
  for (RequestScorer& one : scorers) {
    if (one.rows != nullptr && !rows().done()) {
      one.rows->Advance(rows().parents(), rows().tokens());
    }
  }
  return absl::OkStatus();
}

absl::Status BeamRequest::Start(const ops::ExecutionContext& context, const EncodedSources& encoded,
                                int64_t row) {
  const DecodeModel::Parts& parts = model->parts();
  for (int member = 0; member < parts.num_members(); ++member) {
    const DecoderPart& own = parts.decoder(member);
    BW_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs,
                        DecoderInputs(own, encoded.of_member(member), encoded.num_sources, row,
                                      source.source_length));
    BW_RETURN_IF_ERROR(
        Prepare(own, context, inputs, decoders[static_cast<size_t>(member)].rows.start));
  }
  BW_RETURN_IF_ERROR(StartLanguageModels(context, parts, *this));
  return StartCtc(parts, encoded, row, *this);
}

// The request brings all inputs of the decoder, so an error here is its own fault.
absl::Status BeamRequest::StartAlone(const ops::ExecutionContext& context) {
  const DecodeModel::Parts& parts = model->parts();
  StartValues& start = decoders[0].rows.start;
  absl::Status status = Prepare(parts.decoder(), context, source.decoder_inputs, start);
  // The model's own start states were tried when it was loaded.
  const std::vector<DecoderInput>& own = parts.decoder().inputs;
  const bool are_own = own.size() == source.decoder_inputs.size() &&
                       std::equal(own.begin(), own.end(), source.decoder_inputs.begin(),
                                  [](const DecoderInput& input, const Tensor& given) {
                                    return input.constant_tensor.has_value() &&
                                           input.constant_tensor.place() == given.place();
                                  });
  if (status.ok() && !are_own) {
    status = TryStep(parts.decoder(), parts.target->begin_id(), context, start);
  }
  if (!status.ok() && !absl::IsCancelled(status)) {
    return status::InvalidField("source.decoder_inputs",
                                "the decoder fails on them: ", status.message());
  }
  BW_RETURN_IF_ERROR(status);
  if (source.state.has_value()) {
    start.states = std::exchange(source.state->states, {});
  }
  if (!are_own) {
    prefix_cache = nullptr;
  }
  if (prefix_cache != nullptr) {
    BW_RETURN_IF_ERROR(SkipCached(start.states));
  }
  if (WantsStates()) {
    KeepStates(CopyStates(start.states));
  }
  return StartLanguageModels(context, parts, *this);
}

bool BeamRequest::Cut(v1::FinishReason why) {
  return search.has_value() &&
         search->Cut(why == v1::FINISH_REASON_DEADLINE ? search::FinishReason::kDeadline
                                                       : search::FinishReason::kShutdown);
}

void BeamRequest::ReportProgress() {
  if (call.progress == nullptr || !search.has_value()) {
    return;
  }
  Progress progress;
  progress.stable = stable.Update(*search);
  if (first_token == absl::InfinitePast() && !progress.stable.empty()) {
    first_token = SteadyNow();
  }
  if (call.num_provisional > 0 && !search->done()) {
    search::BeamSearch::Head best;
    std::vector<int32_t> tokens = search::BestTokensSoFar(*search, best);
    if (!tokens.empty()) {
      progress.provisional.push_back({std::move(tokens), {}, best.key});
    }
  }
  progress.stop_strings = search->options().stop_strings;
  progress.prefix_length = search->options().constraints.prefix.size();
  if (!progress.stable.empty() || !progress.provisional.empty()) {
    call.progress(std::move(progress));
  }
}

void BeamRequest::Answer() {
  BeamRequest* const self = this;
  engine::Answer(ops::ExecutionContext(), absl::MakeConstSpan(&self, 1));
}

}  // namespace beamwright::engine
