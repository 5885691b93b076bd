#include "server/engine/compile_fusion.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "ops/base/status.h"
#include "ops/decoder/decoder_form.h"
#include "server/engine/compile_graphs.h"
#include "server/engine/self_check.h"
#include "server/fusion/arpa.h"

namespace beamwright::engine {
namespace {

using Parts = DecodeModel::Parts;

// A decoder of its own with the texts of the model.
std::unique_ptr<Parts> BesideOf(const Parts& parts, const v1::DecoderConfig& decoder) {
  auto beside = std::make_unique<Parts>();
  beside->precision = parts.precision;
  beside->config = parts.config;
  beside->options = parts.options;
  *beside->config.mutable_decoder() = decoder;
  beside->source = parts.source;
  beside->target = parts.target;
  return beside;
}

absl::Status FinishBeside(ops::Graph graph, const Parts& parts, Parts& beside) {
  BW_RETURN_IF_ERROR(CompileDecoder(std::move(graph), beside));
  if (beside.vocabulary_size != parts.vocabulary_size) {
    return Invalid("has scores for ", beside.vocabulary_size, " tokens, the model's decoder for ",
                   parts.vocabulary_size);
  }
  return SelfCheck(beside);
}

absl::Status CompileMember(const v1::EnsembleMember& config, model::Bundle::Member graphs,
                           const Parts& parts, std::unique_ptr<Parts>& member) {
  member = BesideOf(parts, config.decoder());
  member->encoder = parts.encoder;
  if (config.has_encoder()) {
    *member->config.mutable_encoder() = config.encoder();
    absl::Status status = CompileEncoder(*std::move(graphs.encoder), *member);
    if (!status.ok()) {
      return Annotate(status, config.encoder().graph());
    }
  } else {
    member->encoder_proof = parts.encoder_proof;
    member->encoder_input = parts.encoder_input;
    member->encoder_length_input = parts.encoder_length_input;
  }
  return Annotate(FinishBeside(std::move(graphs.decoder), parts, *member),
                  config.decoder().graph());
}

absl::Status CompileEnsemble(model::Bundle& bundle, Parts& parts) {
  const v1::EnsembleConfig& config = bundle.config.ensemble();
  if (!bundle.config.has_ensemble()) {
    return absl::OkStatus();
  }
  parts.mix_kind =
      config.mean() == v1::ENSEMBLE_MEAN_PROBS ? ops::MixKind::kProbs : ops::MixKind::kLogProbs;
  parts.member_weights.push_back(config.has_weight() ? config.weight() : 1);
  for (int i = 0; i < config.members_size(); ++i) {
    std::unique_ptr<Parts> member;
    absl::Status status = CompileMember(
        config.members(i), std::move(bundle.members[static_cast<size_t>(i)]), parts, member);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("ensemble.members[", i, "]"));
    }
    parts.beside.push_back(std::move(member));
    parts.member_weights.push_back(config.members(i).has_weight() ? config.members(i).weight() : 1);
  }
  const float sum = std::accumulate(parts.member_weights.begin(), parts.member_weights.end(), 0.0f);
  for (float& weight : parts.member_weights) {
    weight /= sum;
  }
  return absl::OkStatus();
}

absl::Status CompileNgram(const v1::NgramConfig& config, const std::string& content,
                          const Parts& parts, ScorerPart& scorer) {
  fusion::NgramVocabulary vocabulary;
  vocabulary.num_tokens = parts.vocabulary_size;
  vocabulary.end_tokens = parts.target->end_ids();
  const auto token_of = [&](absl::string_view word) {
    int32_t id = -1;
    if (!config.ids()) {
      id = parts.target->TokenId(std::string(word));
    } else if (!absl::SimpleAtoi(word, &id)) {
      id = -1;
    }
    return id < parts.vocabulary_size ? std::max(id, -1) : -1;
  };
  auto model = fusion::ReadArpa(content, vocabulary, token_of);
  if (!model.ok()) {
    return Annotate(model.status(), config.file());
  }
  scorer.ngram = *std::move(model);
  return absl::OkStatus();
}

absl::Status CompileLanguageModel(const v1::DecoderConfig& config, ops::Graph graph, Parts& parts,
                                  ScorerPart& scorer) {
  std::unique_ptr<Parts> beside = BesideOf(parts, config);
  beside->config.clear_encoder();
  absl::Status status = FinishBeside(std::move(graph), parts, *beside);
  if (!status.ok()) {
    return Annotate(status, config.graph());
  }
  for (const DecoderInput& input : beside->inputs) {
    if (!input.has_constant) {
      return Invalid(config.graph(), ": input '", input.name,
                     "' is neither the token nor a state that starts from a constant, which is all "
                     "that a language model may read");
    }
  }
  parts.beside.push_back(std::move(beside));
  scorer.decoder = static_cast<int>(parts.beside.size());
  return absl::OkStatus();
}

absl::Status CompileCtc(const v1::CtcConfig& config, const Parts& parts, ScorerPart& scorer) {
  const ops::Graph& encoder = parts.encoder->graph();
  BW_ASSIGN_OR_RETURN(scorer.ctc_output, ops::FindResult(encoder, "ctc.encoder_output",
                                                         config.encoder_output(), "encoder"));
  scorer.ctc_blank = config.blank();
  scorer.ctc_kind = KindOf(config.kind());
  const ops::Node& result = encoder.node(encoder.results[static_cast<size_t>(scorer.ctc_output)]);
  const ops::ValueInfo& info = encoder.info(result.inputs[0]);
  if (info.dtype != ops::DType::kF32 || (info.shape.has_rank() && info.shape.rank() != 3)) {
    return Invalid("ctc.encoder_output: '", config.encoder_output(), "' is ", ops::Name(info.dtype),
                   info.shape.ToString(), "; CTC scores are f32 [rows, frames, columns]");
  }
  const int64_t columns =
      info.shape.has_rank() ? info.shape.dims().back() : ops::PartialShape::kDynamic;
  if (columns != ops::PartialShape::kDynamic && config.blank() >= columns) {
    return Invalid("ctc.blank: ", config.blank(), " is outside [0, ", columns,
                   "), the columns of '", config.encoder_output(), "'");
  }
  return absl::OkStatus();
}

absl::Status CompileScorer(const v1::ScorerConfig& config, model::Bundle& bundle, Parts& parts) {
  ScorerPart& scorer = parts.scorers.emplace_back();
  scorer.name = config.name();
  constexpr float kMost = 100;
  scorer.min_weight = config.has_min_weight() ? config.min_weight() : config.has_ctc() ? 0 : -kMost;
  scorer.max_weight = config.has_max_weight() ? config.max_weight() : kMost;
  if (config.has_ngram()) {
    return CompileNgram(config.ngram(), bundle.ngrams[config.name()], parts, scorer);
  }
  if (config.has_language_model()) {
    return CompileLanguageModel(config.language_model(),
                                std::move(bundle.language_models[config.name()]), parts, scorer);
  }
  return CompileCtc(config.ctc(), parts, scorer);
}

}  // namespace

absl::Status CompileFusion(model::Bundle& bundle, DecodeModel::Parts& parts) {
  BW_RETURN_IF_ERROR(CompileEnsemble(bundle, parts));
  for (const v1::ScorerConfig& scorer : bundle.config.scorers()) {
    BW_RETURN_IF_ERROR(Annotate(CompileScorer(scorer, bundle, parts),
                                absl::StrCat("scorer '", scorer.name(), "'")));
  }
  if (bundle.config.has_lexical_table()) {
    const v1::LexicalTableConfig& config = bundle.config.lexical_table();
    auto table = LexicalTable::Read(bundle.lexical_table, config, *parts.source, *parts.target,
                                    parts.vocabulary_size);
    if (!table.ok()) {
      return Annotate(table.status(), config.file());
    }
    parts.lexical_table = *std::move(table);
  }
  return absl::OkStatus();
}

}  // namespace beamwright::engine
