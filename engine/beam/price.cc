// The memory that a request of the search over tokens may take at most, which admission reserves
// before it runs (PriceBytes). It is the sum of: the states of each decoder, twice (old and new),
// and values that its steps share (DecoderBytes); caches at their longest; scorers and their rows
// of scores (ScorerBytes); lists of tokens that options name (ListBytes); the history of
// hypotheses, per slot and step; trace, coverage and attention.
//
// The price is an upper bound for the request's whole life, so that a request that runs is never
// refused memory later.
#include "engine/beam/price.h"

#include "absl/algorithm/container.h"
#include "engine/fusion/ctc_prefix.h"

namespace beamwright::engine {
namespace {

// Bytes that a request holds of one decoder: twice the states (old and new), and what its steps
// share. A state that grows, such as a cache of keys, counts with its longest extent, and once more
// for what a step makes of it.
int64_t DecoderBytes(const DecoderPart& decoder, int beam_size, int source_length, int64_t steps) {
  int64_t row_bytes = 0;
  int64_t shared_bytes = 0;
  const auto bytes = [&](const ops::ValueInfo& info) {
    int64_t count = ops::SizeOf(info.dtype);
    for (int axis = 1; axis < info.shape.rank(); ++axis) {
      const int64_t dim = info.shape.dim(axis);
      count *= dim == ops::PartialShape::kDynamic ? source_length : dim;
    }
    return count;
  };
  const ops::Graph& body = decoder.body->loop().body;
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    for (const ops::ValueInfo& output : body.nodes[i].outputs) {
      if (decoder.body->scopes()[i] == ops::Scope::kRequest) {
        shared_bytes += bytes(output);
      }
    }
  }
  for (size_t i = 0; i < decoder.body->carried().size(); ++i) {
    const auto rule = static_cast<size_t>(decoder.body->carried()[i]);
    const ops::LoopInput& input = decoder.body->loop().inputs[rule];
    ops::ValueInfo info =
        body.node(body.parameters[static_cast<size_t>(input.body_parameter)]).outputs[0];
    if (const int axis = decoder.body->growing_axis(i); axis >= 0) {
      const bool starts_empty = absl::c_any_of(decoder.inputs, [&](const DecoderInput& from) {
        return from.has_constant && decoder.state_values[i] == ops::ValueId{from.node, 0};
      });
      ops::Shape longest = info.shape.dims();
      longest[static_cast<size_t>(axis)] = steps + (starts_empty ? 0 : source_length);
      info.shape = ops::PartialShape(std::move(longest));
      row_bytes += bytes(info);
    }
    row_bytes += 2 * bytes(info);
  }
  return row_bytes * beam_size + shared_bytes;
}

// Bytes of the scorers of a request, and of the rows of scores that they are joined in.
int64_t ScorerBytes(const DecodeModel::Parts& parts, const search::SearchOptions& options,
                    int source_length, int64_t steps) {
  int64_t bytes = 0;
  for (const search::ScorerWeight& wanted : options.scorers) {
    const ScorerPart& part = *parts.FindScorer(wanted.name);
    bytes += int64_t{4} * parts.vocabulary_size() * options.beam_size;
    if (part.decoder >= 0) {
      bytes += DecoderBytes(parts.decoder(part.decoder), options.beam_size, source_length, steps);
    } else if (part.ctc.has_value()) {
      // An encoder gives a frame for a source position at most, or nearly so.
      bytes += fusion::CtcPrefixScorer::NumBytes(source_length, parts.vocabulary_size() + 1,
                                                 options.beam_size);
    }
  }
  return bytes +
         (options.scorers.empty() ? 0 : int64_t{8} * parts.vocabulary_size() * options.beam_size);
}

// Bytes of the lists of tokens that processors hold for options.
int64_t ListBytes(const search::SearchOptions& options) {
  constexpr int64_t kTokenBytes = sizeof(int32_t);
  // A node, its edge, and the phrase by which others find the automaton. Shared, but the last
  // request that reads it may be any.
  constexpr int64_t kAutomatonBytes = 64;
  const auto count = [](const auto& lists) {
    int64_t tokens = 0;
    for (const auto& list : lists) {
      tokens += static_cast<int64_t>(list.size());
    }
    return tokens;
  };
  const search::ProcessorOptions& processors = options.processors;
  const search::ConstraintOptions& constraints = options.constraints;
  int64_t hotwords = 0;
  for (const search::Hotword& hotword : constraints.hotwords) {
    hotwords += static_cast<int64_t>(hotword.tokens.size());
  }
  const auto single =
      static_cast<int64_t>(processors.suppressed.size() + 2 * processors.logit_bias.size() +
                           processors.suppressed_at_begin.size() + constraints.shortlist.size() +
                           constraints.soft_prefix.size());
  return 2 * kTokenBytes *
             (single + count(processors.suppressed_sequences) + count(constraints.required)) +
         kAutomatonBytes * hotwords +
         (options.stop_strings != nullptr ? options.stop_strings->num_bytes() : 0) +
         (constraints.allowed != nullptr ? constraints.allowed->num_bytes() : 0) +
         (constraints.text != nullptr ? grammar::Constraint::kMostBytes : 0);
}

}  // namespace

int64_t PriceBytes(const DecodeModel& model, const search::SearchOptions& options,
                   int source_length, bool keeps_attention) {
  // 20 bytes per slot and step of history and 4 for each scorer and each decoder of an ensemble,
  // what processors remember of rows, recorded alternatives.
  const DecodeModel::Parts& parts = model.parts();
  const int64_t slots = options.beam_size + options.n_best;
  const int64_t steps =
      options.max_length + static_cast<int64_t>(options.constraints.prefix.size());
  const int64_t slot_bytes =
      20 + 4 * (static_cast<int64_t>(options.scorers.size()) + options.num_members);
  constexpr int64_t kRowHistoryBytes = 2 * sizeof(int32_t);
  const int64_t step_bytes =
      slot_bytes * slots + kRowHistoryBytes * options.beam_size +
      int64_t{sizeof(search::TopToken)} * options.num_top_tokens * options.beam_size;
  int64_t bytes = step_bytes * steps + ScorerBytes(parts, options, source_length, steps);
  for (int member = 0; member < parts.num_members(); ++member) {
    bytes += DecoderBytes(parts.decoder(member), options.beam_size, source_length, steps);
  }
  if (options.trace > 0) {
    bytes += search::SearchTrace::MaxBytes(options);
  }
  if (options.coverage_penalty > 0) {
    bytes += 2 * int64_t{sizeof(double)} * options.beam_size * source_length;
  }
  if (keeps_attention) {
    bytes += int64_t{sizeof(float)} * options.beam_size * source_length * steps;
  }
  return bytes + ListBytes(options);
}

}  // namespace beamwright::engine
