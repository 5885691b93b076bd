// `beamwright-graph init` for models of Marian, one .bin or .npz file each, as OPUS-MT and Firefox
// publish them. The file says how it computes, so that nothing is guessed about ports; flags that
// choose ports are refused (CheckOptions).
//
// 1. ReadModel: the facts of the file (layers, kinds of cells, 8-bit matrices); an .npz becomes a
//    .bin (MarianBinOf).
// 2. SetGraphs: the configuration of "model.bin#encoder" and "model.bin#decoder", with a state per
//    layer.
// 3. ReadTexts: both vocabularies, SentencePiece or lists. OPUS-MT numbers the pieces of two
//    SentencePiece models by a third file (--token-ids). The number of tokens must be that of the
//    model.
// 4. ReadShortlist: the lexical shortlist, which limits the target tokens to those that the
//    source's tokens open.
// 5. SetDefaults: the search as the projects run these models: greedy for Firefox' students, a beam
//    for teachers.
// 6. SetLanguages: from flags, else from names such as model.enfr.intgemm.alphas.bin.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/bundle/text_codec.h"
#include "engine/model/lexicons.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "ops/import/graph_file.h"
#include "ops/import/marian.h"
#include "ops/numpy/npz.h"
#include "tools/bundle/bundle_folder.h"
#include "tools/bundle/init_parts.h"

namespace beamwright::tools {
namespace {

constexpr char kModelFile[] = "model.bin";
constexpr char kShortlistFile[] = "lex.s2t.bin";
constexpr char kEnd[] = "</s>";
constexpr char kUnknown[] = "<unk>";
constexpr int kTeacherBeam = 6;  // students are trained for greedy search

// "enfr" of model.enfr.intgemm.alphas.bin and lex.50.50.enfr.s2t.bin, as Firefox names files; empty
// if the name has no piece of four letters.
std::string DirectionOf(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  const std::vector<std::string> pieces = absl::StrSplit(name, '.');
  for (size_t i = 1; i + 1 < pieces.size(); ++i) {
    if (pieces[i].size() == 4 &&
        std::all_of(pieces[i].begin(), pieces[i].end(), absl::ascii_islower)) {
      return pieces[i];
    }
  }
  return "";
}

class MarianInitialiser {
 public:
  MarianInitialiser(const InitOptions& options, std::ostream& output)
      : options_(options), output_(output) {}

  absl::Status Run() {
    BW_RETURN_IF_ERROR(CheckOptions());
    BW_RETURN_IF_ERROR(CheckOut(options_.out));
    BW_RETURN_IF_ERROR(CheckName(options_.name, options_.out));
    BW_RETURN_IF_ERROR(Annotate(ReadModel(), absl::StrCat("'", options_.decoder, "'")));
    config_.set_format_version(1);
    config_.set_name(options_.name);
    SetGraphs();
    BW_RETURN_IF_ERROR(ReadTexts());
    BW_RETURN_IF_ERROR(ReadShortlist());
    SetDefaults();
    BW_RETURN_IF_ERROR(SetLanguages());
    PrintLines("guess   ", reasons_, output_);
    files_[kConfigFile] = FormatBundle(config_, reasons_);
    BW_RETURN_IF_ERROR(WriteBundle(options_.out, files_, output_));
    BW_ASSIGN_OR_RETURN(const ops::Graph decoder,
                        ops::ReadGraph(absl::StrCat(options_.out, "/", kModelFile, "#decoder")));
    BW_RETURN_IF_ERROR(TryWritten(options_.out, decoder, output_));
    output_ << "serve it: beamwright-server --model-path " << options_.out << "\n";
    return absl::OkStatus();
  }

 private:
  absl::Status CheckOptions() const {
    const SpecialTokens& special = options_.special;
    const std::pair<bool, const char*> foreign[] = {
        {!options_.pairs.empty(), "--pairs"},
        {!options_.replay.empty(), "--replay"},
        {!options_.hints.states.empty(), "--state"},
        {!options_.hints.token_input.empty(), "--token-input"},
        {!options_.hints.logits_output.empty(), "--logits-output"},
        {!options_.source_input.empty(), "--source-input"},
        {options_.length_axis.has_value(), "--length-axis"},
        {!special.begin.empty(), "--begin"},
        {!special.ends.empty(), "--end"},
        {special.source_begin.has_value(), "--source-begin"},
        {special.source_end.has_value(), "--source-end"},
        {!options_.blank.empty(), "--blank"},
        {!options_.durations.empty(), "--durations"},
    };
    for (const auto& [is_given, flag] : foreign) {
      if (is_given) {
        return Invalid(flag, ": a Marian model leaves no choice of it");
      }
    }
    if (options_.source_vocab.empty() || options_.target_vocab.empty()) {
      return Invalid(options_.source_vocab.empty() ? "--source-vocab" : "--target-vocab",
                     ": is not set; a Marian model needs both of its vocabularies, which may be "
                     "one file");
    }
    return absl::OkStatus();
  }

  absl::Status ReadModel() {
    std::string content;
    if (absl::EndsWith(options_.decoder, ".npz")) {
      BW_ASSIGN_OR_RETURN(const std::string archive, ReadFile(options_.decoder));
      BW_ASSIGN_OR_RETURN(const ops::TensorMap arrays, ops::ParseNpz(archive));
      BW_ASSIGN_OR_RETURN(content, MarianBinOf(arrays));
    } else {
      BW_ASSIGN_OR_RETURN(content, ReadFile(options_.decoder));
    }
    BW_ASSIGN_OR_RETURN(facts_, ops::ReadMarianFacts(InputFile::OfContent(content)));
    if (!facts_.passed_over.empty()) {
      reasons_.push_back(absl::StrCat("without effect on what this model computes: options ",
                                      absl::StrJoin(facts_.passed_over, ", ")));
    }
    return AddFile(kModelFile, std::move(content), files_);
  }

  // States of a decoder: `position`, the number of the step; for each layer with self-attention its
  // keys and values, which begin with nothing, else the state of its cell, which begins with the
  // encoder's result `start` or with zeros. Each state's next value has the name with _next behind
  // it (ops/import/marian.h).
  void SetGraphs() {
    v1::EncoderConfig& encoder = *config_.mutable_encoder();
    encoder.set_graph(absl::StrCat(kModelFile, "#encoder"));
    v1::DecoderConfig& decoder = *config_.mutable_decoder();
    decoder.set_graph(absl::StrCat(kModelFile, "#decoder"));
    decoder.set_token_input("token");
    decoder.set_logits_output("logits");
    decoder.set_attention_output("alignment");
    const auto add_state = [&](const std::string& name) -> v1::StateConfig* {
      v1::StateConfig& state = *decoder.add_states();
      state.set_input(name);
      state.set_output(name + "_next");
      return &state;
    };
    add_state("position")->set_constant(0);
    for (int64_t i = 1; i <= facts_.decoder_layers; ++i) {
      if (facts_.has_self_attention) {
        add_state(absl::StrCat("keys", i))->set_constant(0);
        add_state(absl::StrCat("values", i))->set_constant(0);
      } else if (v1::StateConfig& state = *add_state(absl::StrCat("cell", i));
                 facts_.has_start_state) {
        state.set_encoder_output("start");
      } else {
        state.set_constant(0);
      }
    }
    if (facts_.is_quantised) {
      config_.set_precision(v1::PRECISION_INT8);
      reasons_.push_back(
          "precision int8: the file's matrices have 8 bits; each row of them and of what they "
          "multiply gets a scale of its values, and the file's scales of activations are not used");
    }
  }

  // One side: its vocabulary, and how many tokens of it the model knows.
  absl::StatusOr<std::unique_ptr<bundle::TextCodec>> ReadText(const std::string& side,
                                                              const std::string& path,
                                                              int64_t model_tokens,
                                                              v1::TextConfig& config) {
    SpecialTokens special;
    special.begin = kEnd;
    special.ends = {kEnd};
    special.source_end = kEnd;
    BW_ASSIGN_OR_RETURN(std::string content, tools::ReadText(path, options_.token_ids));
    std::vector<std::string> reasons;  // of files that no toolkit is known of
    BW_ASSIGN_OR_RETURN(TextSide text, ReadTextSide(side, path, content, special, reasons));
    config = std::move(text.config);
    config.set_begin_token(side == "target" ? kEnd : "");
    config.mutable_end_tokens()->Clear();
    config.add_end_tokens(kEnd);
    config.clear_pad_token();
    config.set_unknown_token(kUnknown);
    config.set_lowercase(false);
    if (config.form() == v1::TEXT_FORM_CHARACTERS) {
      config.set_form(v1::TEXT_FORM_WHITESPACE);
    }
    auto codec = bundle::TextCodec::Create(config, content);
    if (!codec.ok()) {
      return Annotate(codec.status(), absl::StrCat(side, " vocabulary '", path, "'"));
    }
    if ((*codec)->size() != model_tokens) {
      return Invalid(side, " vocabulary '", path, "' has ", (*codec)->size(),
                     " tokens, but the model has ", model_tokens,
                     "; is it the vocabulary of another model or of the other side?");
    }
    BW_RETURN_IF_ERROR(AddFile(config.vocabulary(), std::move(content), files_));
    return codec;
  }

  // Both sides may be one file, which the bundle then has once.
  absl::Status ReadTexts() {
    BW_ASSIGN_OR_RETURN(source_, ReadText("source", options_.source_vocab, facts_.source_tokens,
                                          *config_.mutable_source()));
    BW_ASSIGN_OR_RETURN(target_, ReadText("target", options_.target_vocab, facts_.target_tokens,
                                          *config_.mutable_target()));
    reasons_.push_back(absl::StrCat("sources end with '", kEnd,
                                    "', which ends targets as well: as Marian has it"));
    v1::TextConfig& target = *config_.mutable_target();
    const std::string source_name = config_.source().vocabulary();
    if (target.vocabulary() != source_name && files_[target.vocabulary()] == files_[source_name]) {
      files_.erase(target.vocabulary());
      target.set_vocabulary(source_name);
    }
    return absl::OkStatus();
  }

  absl::Status ReadShortlist() {
    if (options_.shortlist.empty()) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(std::string content, ReadFile(options_.shortlist));
    v1::LexicalTableConfig& config = *config_.mutable_lexical_table();
    config.set_file(kShortlistFile);
    const auto table = engine::LexicalTable::Read(content, config, *source_, *target_,
                                                  static_cast<int>(facts_.target_tokens));
    if (!table.ok()) {
      return Annotate(table.status(), absl::StrCat("--shortlist '", options_.shortlist, "'"));
    }
    config_.mutable_default_options()->set_lexical_shortlist(true);
    reasons_.push_back(
        "lexical_shortlist: a shortlist is given; a source's tokens open the target tokens, those "
        "of other sources never do");
    return AddFile(kShortlistFile, std::move(content), files_);
  }

  // Scores are divided by the length (pow with alpha 1), targets end at twice the source's length
  // and 4 more. Marian normalises over the shortlist if there is one, else over all tokens: without
  // one, `renormalize` false keeps the log-probabilities of all tokens although <unk> may not be
  // chosen.
  void SetDefaults() {
    v1::DecodeOptions& defaults = *config_.mutable_default_options();
    defaults.set_beam_size(facts_.has_self_attention ? kTeacherBeam : 1);
    defaults.set_length_penalty(v1::LENGTH_PENALTY_POW);
    defaults.set_length_penalty_alpha(1);
    defaults.set_max_length_factor(2);
    defaults.set_max_length_offset(4);
    defaults.mutable_suppress_tokens()->mutable_ids()->add_ids(target_->unknown_id());
    if (options_.shortlist.empty()) {
      defaults.set_renormalize(false);
    }
    reasons_.push_back(absl::StrCat("default_options: ",
                                    facts_.has_self_attention ? "as OPUS-MT's decoder.yml has them"
                                                              : "as Firefox asks its models",
                                    "; '", kUnknown, "' is never generated, as in Marian"));
  }

  // By the flags, else by the file name; a shortlist whose name says another direction is refused.
  absl::Status SetLanguages() {
    std::string source = options_.source_language;
    std::string target = options_.target_language;
    if (source.empty() != target.empty()) {
      return Invalid(source.empty() ? "--from" : "--to",
                     ": is not set; the model has two languages");
    }
    const std::string named = DirectionOf(options_.decoder);
    const std::string listed = DirectionOf(options_.shortlist);
    if (!named.empty() && !listed.empty() && named != listed) {
      return Invalid("--shortlist '", options_.shortlist, "' is of the direction ", listed,
                     " by its name, but the model is of ", named);
    }
    if (source.empty() && !named.empty()) {
      source = named.substr(0, 2);
      target = named.substr(2);
      reasons_.push_back(
          absl::StrCat("translation: from ", source, " to ", target, ", as the file name says"));
    }
    if (source.empty()) {
      reasons_.push_back(
          "translation: the file name says no languages; --from and --to say them, for /translate");
      return absl::OkStatus();
    }
    config_.mutable_translation()->set_source_language(source);
    config_.mutable_translation()->set_target_language(target);
    return absl::OkStatus();
  }

  const InitOptions& options_;
  std::ostream& output_;
  ops::MarianFacts facts_;
  v1::ModelConfig config_;
  std::unique_ptr<bundle::TextCodec> source_;
  std::unique_ptr<bundle::TextCodec> target_;
  std::vector<std::string> reasons_;
  Files files_;
};

}  // namespace

bool IsMarianModel(const InitOptions& options) {
  return options.encoder.empty() && options.joiner.empty() && options.kind == InitKind::kGuess &&
         (absl::EndsWith(options.decoder, ".bin") || absl::EndsWith(options.decoder, ".npz"));
}

absl::Status InitMarianBundle(const InitOptions& options, std::ostream& output) {
  return MarianInitialiser(options, output).Run();
}

}  // namespace beamwright::tools
