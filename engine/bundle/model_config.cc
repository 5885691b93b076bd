// Reads a bundle's model.textproto and checks it. ParseModelConfig returns a configuration whose
// fields agree with each other; whether they fit the graphs is checked later, when the graphs are
// compiled.
//
// 1. The format version is checked first: in a file of a newer version no other field can be
//    judged.
// 2. CheckRules applies the rules that the .proto file states for single fields: ranges, lengths,
//    known values of enums.
// 3. The functions Check... below check what concerns several fields: CheckEncoder, CheckSearch
//    (one of decoder, ctc, transducer, tags, with what belongs to it), CheckEnsemble, CheckScorers,
//    CheckTokenLists, CheckText, CheckTranslation.
// 4. CheckDefaults, only if all else is right: the model's default options must be within its own
//    limits.
//
// All faults are collected (Faults), so that an author sees all of them at once, each with the path
// of its field: "decoder.states[2].input: 'cache' is given twice".

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/proto_text.h"
#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "ops/base/names.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::bundle {
namespace {

constexpr int kFormatVersion = 1;

using status::Faults;

bool SearchesByFrames(const v1::ModelConfig& config) {
  return SearchOf(config) != v1::SEARCH_TOKENS;
}

// The tokens that begin and end a hypothesis: needed by a decoder; in a search by frames the first
// and the last frame do this.
void CheckEnds(const v1::ModelConfig& config, Faults& faults) {
  const bool by_frames = SearchesByFrames(config);
  if (by_frames != config.target().begin_token().empty()) {
    faults.Add("target.begin_token", by_frames ? "is only for models with a decoder"
                                               : "is not set; it is what the first step reads");
  }
  if (by_frames != config.target().end_tokens().empty()) {
    faults.Add("target.end_tokens", by_frames
                                        ? "is only for models with a decoder; the last frame ends "
                                          "a hypothesis"
                                        : "is not set; at least one token must end a hypothesis");
  }
}

// Texts of both sides. What a vocabulary file says is checked when it is read (TextCodec).
void CheckText(const v1::ModelConfig& config, Faults& faults) {
  CheckEnds(config, faults);
  if (config.source().end_tokens_size() > 1) {
    faults.Add("source.end_tokens", "has ", config.source().end_tokens_size(),
               " tokens; at most one can follow a source");
  }
  if (config.target().pad_to_length() > 0) {
    faults.Add("target.pad_to_length", "is for sources");
  }
  if (config.source().pad_to_length() > 0 &&
      (config.source().pad_token().empty() ||
       config.encoder().length_kind() != v1::LENGTH_INPUT_NONE)) {
    faults.Add("source.pad_to_length",
               "needs source.pad_token, and an encoder that takes no length and no mask");
  }
  if (!config.has_encoder() && config.source().form() != v1::TEXT_FORM_IDS) {
    faults.Add("source.form", "without an encoder no source text can be read");
  }
}

void CheckTokenLists(const v1::ModelConfig& config, Faults& faults) {
  for (int i = 0; i < config.token_lists_size(); ++i) {
    const v1::TokenListConfig& list = config.token_lists(i);
    const std::string field = absl::StrCat("token_lists[", i, "]");
    if (list.name().empty()) {
      faults.Add(field + ".name", "is not set");
    }
    if (list.file().empty()) {
      faults.Add(field + ".file", "is not set; it names the list's file");
    }
    for (int j = 0; j < i; ++j) {
      if (config.token_lists(j).name() == list.name()) {
        faults.Add(absl::StrCat(field, ".name"), "'", list.name(), "' is given twice");
      }
    }
  }
}

template <typename Entries>
bool ReadsInput(const Entries& entries, int count, const std::string& input) {
  return !input.empty() && std::any_of(entries.begin(), entries.begin() + count,
                                       [&](const auto& entry) { return entry.input() == input; });
}

// path: of the decoder's field, "decoder".
void CheckDecoder(const v1::DecoderConfig& decoder, const std::string& path, bool has_encoder,
                  Faults& faults) {
  if (decoder.graph().empty()) {
    faults.Add(path + ".graph", "is not set; it names the decoder's graph file");
  }
  for (int i = 0; i < decoder.states_size(); ++i) {
    const v1::StateConfig& state = decoder.states(i);
    const std::string field = absl::StrCat(path, ".states[", i, "]");
    if (state.input().empty()) {
      faults.Add(field + ".input", "is not set");
    }
    if (ReadsInput(decoder.states(), i, state.input())) {
      faults.Add(absl::StrCat(field, ".input"), "'", state.input(), "' is given twice");
    }
    // A mask has the output of the cache that it is over (docs/bundle.md).
    const bool may_mask = state.has_constant() && state.constant() != 0;
    for (int j = 0; j < i && !may_mask; ++j) {
      if (!state.output().empty() && decoder.states(j).output() == state.output()) {
        faults.Add(absl::StrCat(field, ".output"), "'", state.output(), "' is given twice");
      }
    }
    if (state.has_encoder_output() && !has_encoder) {
      faults.Add(field + ".encoder_output", "the model has no encoder");
    }
  }
  for (int i = 0; i < decoder.memory_size(); ++i) {
    const std::string field = absl::StrCat(path, ".memory[", i, "]");
    if (decoder.memory(i).input().empty()) {
      faults.Add(field + ".input", "is not set");
    }
    if (ReadsInput(decoder.memory(), i, decoder.memory(i).input())) {
      faults.Add(absl::StrCat(field, ".input"), "'", decoder.memory(i).input(), "' is given twice");
    }
    if (ReadsInput(decoder.states(), decoder.states_size(), decoder.memory(i).input())) {
      faults.Add(absl::StrCat(field, ".input"), "'", decoder.memory(i).input(), "' is one of ",
                 path, ".states");
    }
    if (!decoder.memory(i).encoder_output().empty() && !has_encoder) {
      faults.Add(field + ".encoder_output", "the model has no encoder");
    }
  }
}

void CheckCtc(const v1::ModelConfig& config, Faults& faults) {
  if (!config.has_encoder() && !config.ctc().encoder_output().empty()) {
    faults.Add("ctc.encoder_output",
               "the model has no encoder; leave it out, and requests bring the frames");
  }
}

// A predictor knows its tokens in one of two ways, never both: it reads the last context_size of
// them, or it keeps states.
void CheckPredictor(const v1::TransducerConfig& transducer, Faults& faults) {
  const v1::PredictorConfig& predictor = transducer.predictor();
  const bool has_context = transducer.context_size() > 0;
  if (predictor.graph().empty()) {
    faults.Add("transducer.predictor.graph", "is not set; it names the predictor's graph file");
  }
  if (has_context == !predictor.states().empty()) {
    faults.Add("transducer.context_size, transducer.predictor.states",
               "set one: a predictor reads its last tokens, or keeps states");
  }
  if (predictor.has_context_start() && !has_context) {
    faults.Add("transducer.predictor.context_start", "needs context_size");
  }
  for (int i = 0; i < predictor.states_size(); ++i) {
    const v1::StateConfig& state = predictor.states(i);
    const std::string field = absl::StrCat("transducer.predictor.states[", i, "]");
    if (state.input().empty()) {
      faults.Add(field + ".input", "is not set");
    }
    if (state.output().empty()) {
      faults.Add(field + ".output", "is not set");
    }
    if (state.has_encoder_output()) {
      faults.Add(field + ".encoder_output", "a predictor reads nothing but tokens; set constant");
    }
    for (int j = 0; j < i; ++j) {
      if (predictor.states(j).input() == state.input()) {
        faults.Add(absl::StrCat(field, ".input"), "'", state.input(), "' is given twice");
      }
    }
  }
}

// Predictor, joiner and, for token-and-duration models, the list of durations: ascending, and with
// one above 0, for else no frame would ever be left.
void CheckTransducer(const v1::ModelConfig& config, Faults& faults) {
  const v1::TransducerConfig& transducer = config.transducer();
  CheckPredictor(transducer, faults);
  const bool has_durations = transducer.kind() == v1::TRANSDUCER_KIND_TOKEN_AND_DURATION;
  if (has_durations == transducer.durations().empty()) {
    faults.Add("transducer.durations", has_durations
                                           ? "is empty; a token-and-duration model lists them"
                                           : "is only for TRANSDUCER_KIND_TOKEN_AND_DURATION");
  }
  for (int i = 1; i < transducer.durations_size(); ++i) {
    if (transducer.durations(i) <= transducer.durations(i - 1)) {
      faults.Add(absl::StrCat("transducer.durations[", i, "]"), transducer.durations(i),
                 " is not above the one before it, ", transducer.durations(i - 1));
    }
  }
  if (has_durations && transducer.durations_size() == 1 && transducer.durations(0) == 0) {
    faults.Add("transducer.durations", "has nothing but 0, which never ends");
  }
  if (transducer.joiner().encoder_input().empty()) {
    faults.Add("transducer.joiner.encoder_input", "is not set; it takes the encoder's frames");
  }
  if (!config.has_encoder() && !transducer.encoder_output().empty()) {
    faults.Add("transducer.encoder_output",
               "the model has no encoder; leave it out, and requests bring the frames");
  }
}

// A tagger's search is a lattice over its labels, so nothing that weighs or rules tokens applies.
void CheckTags(const v1::ModelConfig& config, Faults& faults) {
  const v1::TagsConfig& tags = config.tags();
  if (!config.has_encoder()) {
    faults.Add("tags", "the model has no encoder, which scores the labels");
  }
  if (config.encoder().has_streaming()) {
    faults.Add("encoder.streaming", "is not for taggers, which read the whole source");
  }
  if (!tags.transitions().empty() && tags.kind() == v1::LOGITS_KIND_PROBS) {
    faults.Add("tags.kind", "is probabilities; a CRF adds scores: logits or log-probabilities");
  }
  if (!config.scorers().empty()) {
    faults.Add("scorers", "are not for taggers");
  }
  if (!config.token_lists().empty()) {
    faults.Add("token_lists", "are not for taggers");
  }
}

// How targets are found: by a decoder, or frame by frame.
void CheckSearch(const v1::ModelConfig& config, Faults& faults) {
  if (int{config.has_decoder()} + int{config.has_ctc()} + int{config.has_transducer()} +
          int{config.has_tags()} >
      1) {
    faults.Add("decoder, ctc, transducer, tags", "set one of them");
  }
  if (config.has_ctc()) {
    CheckCtc(config, faults);
  } else if (config.has_transducer()) {
    CheckTransducer(config, faults);
  } else if (config.has_tags()) {
    CheckTags(config, faults);
  } else {
    CheckDecoder(config.decoder(), "decoder", config.has_encoder(), faults);
  }
  if (!SearchesByFrames(config)) {
    return;
  }
  if (config.has_ensemble()) {
    faults.Add("ensemble", "is only for models with a decoder");
  }
  if (config.has_lexical_table()) {
    faults.Add("lexical_table", "is only for models with a decoder");
  }
  for (int i = 0; i < config.scorers_size(); ++i) {
    if (config.scorers(i).has_ctc()) {
      faults.Add(absl::StrCat("scorers[", i, "].ctc"),
                 "is only for models with a decoder; those with ctc or transducer take scorers of "
                 "the kinds ngram and language_model");
    }
  }
}

void CheckFurtherInputs(const v1::EncoderConfig& encoder, const std::string& path, Faults& faults) {
  if (encoder.further_inputs_size() > 0 && encoder.input().empty()) {
    faults.Add(path + ".input", "is not set; with further_inputs it must be");
  }
  std::set<std::string> known = {encoder.input(), encoder.length_input()};
  for (int i = 0; i < encoder.further_inputs_size(); ++i) {
    const v1::FurtherInputConfig& input = encoder.further_inputs(i);
    const std::string field = absl::StrCat(path, ".further_inputs[", i, "]");
    if (!known.insert(input.input()).second) {
      faults.Add(field + ".input", input.input().empty()
                                       ? "is not set"
                                       : absl::StrCat("'", input.input(), "' has a use already"));
    }
    if (!std::isfinite(input.constant())) {
      faults.Add(field + ".constant", "is not finite");
    }
  }
}

// The settings of an encoder that is run chunk by chunk.
void CheckStreaming(const v1::EncoderConfig& encoder, const std::string& path, Faults& faults) {
  const v1::StreamingConfig& streaming = encoder.streaming();
  if (streaming.chunk() == 0) {
    faults.Add(path + ".chunk", "is not set; it is the number of frames that a run reads");
  } else if (streaming.shift() > streaming.chunk()) {
    faults.Add(path + ".shift", streaming.shift(), " is above chunk, ", streaming.chunk(),
               "; frames between chunks would be lost");
  }
  for (int i = 0; i < streaming.states_size(); ++i) {
    const v1::EncoderStateConfig& state = streaming.states(i);
    const std::string field = absl::StrCat(path, ".states[", i, "]");
    if (state.input().empty()) {
      faults.Add(field + ".input", "is not set");
    }
    if (state.output().empty()) {
      faults.Add(field + ".output", "is not set");
    }
    for (int j = 0; j < i; ++j) {
      if (!state.input().empty() && streaming.states(j).input() == state.input()) {
        faults.Add(absl::StrCat(field, ".input"), "'", state.input(), "' is given twice");
      }
      if (!state.output().empty() && streaming.states(j).output() == state.output()) {
        faults.Add(absl::StrCat(field, ".output"), "'", state.output(), "' is given twice");
      }
    }
  }
  if (encoder.further_inputs_size() > 0) {
    faults.Add(path, "is not for an encoder with further_inputs");
  }
  const v1::LengthInput kind = encoder.length_kind();
  if (kind != v1::LENGTH_INPUT_NONE && kind != v1::LENGTH_INPUT_LENGTHS) {
    faults.Add(path, "is only for encoders without length_kind, or with LENGTH_INPUT_LENGTHS");
  }
  if (encoder.length_axis() > 2) {
    faults.Add(path,
               "is only for length_axis 1 or 2: [rows, chunk, width] or [rows, width, chunk]");
  }
}

// path: of the encoder's field: the model's, or that of a member of an ensemble.
void CheckEncoder(const v1::EncoderConfig& encoder, const std::string& path, Faults& faults) {
  if (encoder.graph().empty()) {
    faults.Add(absl::StrCat(path, ".graph"), "is not set; leave out `encoder` if unused");
  }
  if (encoder.length_axis() < 0) {
    faults.Add(
        absl::StrCat(path, ".length_axis"),
        absl::StrCat(encoder.length_axis(),
                     " is not an axis; axis 0 is that of the rows, the others count from 1"));
  }
  for (int i = 0; i < encoder.shape_size(); ++i) {
    if (encoder.shape(i) < 1 && encoder.shape(i) != -1) {
      faults.Add(absl::StrCat(path, ".shape[", i, "]"), encoder.shape(i),
                 " is no extent; allowed are numbers from 1, and -1 for that of the graph");
    }
  }
  if ((encoder.length_kind() != v1::LENGTH_INPUT_NONE) != !encoder.length_input().empty()) {
    faults.Add(absl::StrCat(path, ".length_kind, ", path, ".length_input"), "set both or neither");
  }
  CheckFurtherInputs(encoder, path, faults);
  if (encoder.has_streaming()) {
    CheckStreaming(encoder, path + ".streaming", faults);
  }
}

void CheckEnsemble(const v1::ModelConfig& config, Faults& faults) {
  if (!config.has_ensemble()) {
    return;
  }
  if (config.ensemble().members().empty()) {
    faults.Add("ensemble.members", "is empty; a model without ensemble has no `ensemble`");
  }
  if (!config.has_encoder()) {
    faults.Add("ensemble", "the model has no encoder for its members to read");
  }
  for (int i = 0; i < config.ensemble().members_size(); ++i) {
    const v1::EnsembleMember& member = config.ensemble().members(i);
    const std::string field = absl::StrCat("ensemble.members[", i, "]");
    if (member.has_encoder()) {
      CheckEncoder(member.encoder(), field + ".encoder", faults);
      if (member.encoder().has_streaming()) {
        faults.Add(field + ".encoder.streaming", "is only for models that are searched by frames");
      }
    }
    CheckDecoder(member.decoder(), field + ".decoder", true, faults);
  }
}

// Names are those by which requests weigh the scorers, so each is given once.
void CheckScorers(const v1::ModelConfig& config, Faults& faults) {
  for (int i = 0; i < config.scorers_size(); ++i) {
    const v1::ScorerConfig& scorer = config.scorers(i);
    const std::string field = absl::StrCat("scorers[", i, "]");
    if (scorer.name().empty()) {
      faults.Add(field + ".name", "is not set");
    }
    for (int j = 0; j < i; ++j) {
      if (config.scorers(j).name() == scorer.name()) {
        faults.Add(absl::StrCat(field, ".name"), "'", scorer.name(), "' is given twice");
      }
    }
    switch (scorer.kind_case()) {
      case v1::ScorerConfig::kNgram:
        if (scorer.ngram().file().empty()) {
          faults.Add(field + ".ngram.file", "is not set; it names an ARPA file");
        }
        break;
      case v1::ScorerConfig::kLanguageModel:
        CheckDecoder(scorer.language_model(), field + ".language_model", false, faults);
        break;
      case v1::ScorerConfig::kCtc:
        if (!config.has_encoder()) {
          faults.Add(field + ".ctc", "the model has no encoder");
        }
        if (scorer.has_min_weight() && scorer.min_weight() < 0) {
          faults.Add(absl::StrCat(field, ".min_weight"), "is ", scorer.min_weight(),
                     "; CTC scores cannot be subtracted");
        }
        break;
      case v1::ScorerConfig::KIND_NOT_SET:
        faults.Add(field, "set ngram, language_model or ctc");
        break;
    }
    if (scorer.has_min_weight() && scorer.has_max_weight() &&
        scorer.min_weight() > scorer.max_weight()) {
      faults.Add(field + ".min_weight", "is above max_weight");
    }
  }
}

// A BCP 47 tag as far as its form goes: subtags of letters and digits with '-' between, the first
// of two or three letters.
bool IsLanguageTag(absl::string_view tag) {
  const std::vector<absl::string_view> subtags = absl::StrSplit(tag, '-');
  const auto has_form = [](absl::string_view subtag, size_t least, size_t most, auto is_good) {
    return subtag.size() >= least && subtag.size() <= most &&
           std::all_of(subtag.begin(), subtag.end(), is_good);
  };
  return has_form(subtags[0], 2, 3, absl::ascii_isalpha) &&
         std::all_of(subtags.begin() + 1, subtags.end(), [&](absl::string_view subtag) {
           return has_form(subtag, 1, 8, absl::ascii_isalnum);
         });
}

void CheckTranslation(const v1::ModelConfig& config, Faults& faults) {
  if (!config.has_translation()) {
    return;
  }
  const v1::TranslationConfig& translation = config.translation();
  for (const auto& [field, tag] : {std::pair("source_language", &translation.source_language()),
                                   {"target_language", &translation.target_language()}}) {
    if (!IsLanguageTag(*tag)) {
      faults.Add(absl::StrCat("translation.", field), "'", Printable(*tag),
                 "' is not a language tag such as en, pt-BR or zh-Hans");
    }
  }
  if (translation.source_language() == translation.target_language()) {
    faults.Add("translation.target_language", "is the source language");
  }
  for (const auto& [side, text] :
       {std::pair("source", &config.source()), {"target", &config.target()}}) {
    if (text->form() == v1::TEXT_FORM_IDS) {
      faults.Add("translation", "needs texts, but ", side, ".form is TEXT_FORM_IDS");
    }
  }
}

// A model whose defaults exceed its limits would refuse every plain request. Only options that the
// model sets are checked: others shrink to fit.
void CheckDefaults(const v1::ModelConfig& config, Faults& faults) {
  if (config.limits().max_source_length() > 0 &&
      config.limits().min_source_length() > config.limits().max_source_length()) {
    faults.Add("limits.min_source_length", config.limits().min_source_length(),
               " is above limits.max_source_length ", config.limits().max_source_length());
  }
  const v1::DecodeOptions& own = config.default_options();
  v1::DecodeOptions options = own;
  ApplyDefaults(v1::DecodeOptions(), options);
  const v1::LimitsConfig& limits = config.limits();
  if (limits.max_beam_size() > 0 && own.has_beam_size() &&
      own.beam_size() > limits.max_beam_size()) {
    faults.Add("default_options.beam_size", own.beam_size(), " is above limits.max_beam_size ",
               limits.max_beam_size());
  }
  if (own.has_n_best() && own.n_best() > options.beam_size()) {
    faults.Add("default_options.n_best", own.n_best(), " is above the beam size ",
               options.beam_size());
  }
  if (limits.max_target_length() > 0 && own.has_max_length() &&
      own.max_length() > limits.max_target_length()) {
    faults.Add("default_options.max_length", own.max_length(),
               " is above limits.max_target_length ", limits.max_target_length());
  }
}

absl::Status CheckConfig(const v1::ModelConfig& config) {
  // First: in a file of a newer format no other field can be judged.
  if (config.format_version() != kFormatVersion) {
    return Invalid(
        "format_version: ",
        config.format_version() == 0 ? "is not set" : absl::StrCat("is ", config.format_version()),
        "; this server reads ", kFormatVersion);
  }
  Faults faults;
  CheckRules(config, "", faults);
  if (!config.name().empty()) {
    const absl::Status status = CheckModelName(config.name());
    if (!status.ok()) {
      faults.Add("name", status.message());
    }
  }
  if (config.has_encoder()) {
    CheckEncoder(config.encoder(), "encoder", faults);
    if (config.encoder().has_streaming() && !SearchesByFrames(config)) {
      faults.Add("encoder.streaming", "is only for models that are searched by frames");
    }
  }
  CheckSearch(config, faults);
  CheckEnsemble(config, faults);
  CheckScorers(config, faults);
  if (config.has_lexical_table() && config.lexical_table().file().empty()) {
    faults.Add("lexical_table.file", "is not set");
  }
  CheckTokenLists(config, faults);
  CheckText(config, faults);
  CheckTranslation(config, faults);
  CheckSearches(config.default_options(), SearchOf(config), "default_options", faults);
  if (faults.empty()) {
    CheckDefaults(config, faults);
  }
  return status::OkOrInvalid(faults);
}

}  // namespace

absl::StatusOr<v1::ModelConfig> ParseModelConfig(const std::string& text) {
  v1::ModelConfig config;
  BW_RETURN_IF_ERROR(ParseTextProto(text, config));
  BW_RETURN_IF_ERROR(CheckConfig(config));
  return config;
}

}  // namespace beamwright::bundle
