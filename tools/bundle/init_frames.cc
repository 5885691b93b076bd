// `beamwright-graph init` for models that are searched by frames: CTC, transducers and taggers.
//
// 1. SearchesByFrames decides by the flags, else by the ports of the last graph, whether a model is
//    one of these; SortFiles says which of the given files is encoder, predictor and joiner.
// 2. ReadEncoder, as for models with a decoder (TakeEncoder).
// 3. ReadCtc, ReadTags or ReadTransducer guess the ports of the other graphs and which column of
//    the scores is what: tokens, the blank, durations (ReadText). A tagger's CRF comes from an .npz
//    archive and is written as text (ReadTransitions).
// 4. SetStart: what a transducer's predictor reads before the first token, and how many tokens a
//    frame may yield, which graphs do not say; toolkits (icefall, NeMo) have their habits, and the
//    metadata shows the toolkit.
// 5. The bundle is written, with the reasons of all guesses, and tried as the server would.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "ops/graph/trace.h"
#include "ops/import/graph_file.h"
#include "ops/numpy/npz.h"
#include "tools/bundle/bundle_folder.h"
#include "tools/bundle/encoder_input.h"
#include "tools/bundle/init_parts.h"
#include "tools/bundle/token_file.h"
#include "tools/graph/ports.h"
#include "tools/graph/roles.h"

namespace beamwright::tools {
namespace {

using ops::Graph;

// Tokens that a frame may yield at most: about as many as the toolkits of such models allow.
constexpr int kUsualMaxSymbols = 10;
constexpr char kTransitionsFile[] = "transitions.txt";

// Reads a graph only to look at its ports, and keeps none of its files. A graph that cannot be read
// is an error later, when it is read to be kept.
std::optional<Graph> Peek(const std::string& path) {
  Files files;
  std::string name;
  absl::StatusOr<Graph> graph = TakeGraph(path, "graph", files, name);
  return graph.ok() ? std::make_optional(*std::move(graph)) : std::nullopt;
}

// Lines of scores [rows, labels] of an array; zeros if it is missing.
absl::StatusOr<std::string> ScoreLines(const ops::TensorMap& arrays, const std::string& name,
                                       const ops::Shape& shape) {
  ops::Tensor scores = ops::Tensor::Zeros(ops::DType::kF32, shape);
  if (const auto found = arrays.find(name); found != arrays.end()) {
    if (found->second.shape() != shape || !ops::IsFloat(found->second.dtype())) {
      return Invalid("'", name, "' is ", ops::Name(found->second.dtype()),
                     ops::ToString(found->second.shape()), "; it must be floats of shape ",
                     ops::ToString(shape), ", as the model has labels");
    }
    BW_ASSIGN_OR_RETURN(scores, Convert(found->second, ops::DType::kF32));
  }
  std::string text;
  for (int64_t i = 0; i < scores.num_elements(); ++i) {
    absl::StrAppendFormat(&text, "%.9g%c", scores.data<float>()[i],
                          (i + 1) % shape.back() == 0 ? '\n' : ' ');
  }
  return text;
}

// The file of a CRF's scores (TagsConfig.transitions) from arrays as pytorch-crf names them.
absl::StatusOr<std::string> ReadTransitions(const std::string& path, int64_t labels) {
  BW_ASSIGN_OR_RETURN(const ops::TensorMap arrays, ops::ReadNpz(path));
  if (arrays.count("transitions") == 0) {
    return Invalid("'", path, "' has no array 'transitions'; it has ",
                   absl::StrJoin(arrays, ", ", [](std::string* out, const auto& array) {
                     absl::StrAppend(out, "'", array.first, "'");
                   }));
  }
  std::string content;
  for (const char* const name : {"start_transitions", "end_transitions", "transitions"}) {
    const bool is_matrix = absl::string_view(name) == "transitions";
    const auto lines =
        ScoreLines(arrays, name, is_matrix ? ops::Shape{labels, labels} : ops::Shape{labels});
    if (!lines.ok()) {
      return Annotate(lines.status(), absl::StrCat("'", path, "'"));
    }
    content += *lines;
  }
  return content;
}

// Which of the files is what.
struct GraphFiles {
  std::string encoder;    // empty: requests bring its frames
  std::string predictor;  // empty: CTC
  std::string joiner;     // empty: the predictor is both
  bool is_tagger = false;
};

// Whether the only graph is a tagger. A graph that reads tokens may also be a step of a decoder
// without an encoder; that has no sources, so a source vocabulary shows a tagger.
bool IsTagger(const InitOptions& options, const std::optional<Graph>& graph) {
  bool reads_other_tokens = false;
  return options.kind == InitKind::kGuess && graph.has_value() && options.encoder.empty() &&
         ops::LooksLikeTagger(*graph, reads_other_tokens) &&
         (reads_other_tokens || !options.source_vocab.empty() || !options.transitions.empty());
}

// The files as the command line has them, and what they are:
//
//   E P J    encoder, predictor, joiner: three files are always these
//   P J      predictor and joiner, where the last one reads no tokens
//   E P      encoder, and a predictor that is joiner, too (NeMo's decoder_joint)
//   P        the same without an encoder
//   M        CTC or a tagger, by its ports or a flag
absl::StatusOr<GraphFiles> SortFiles(const InitOptions& options) {
  if (!options.joiner.empty()) {
    return GraphFiles{options.encoder, options.decoder, options.joiner, false};
  }
  if (IsWeNet(options)) {
    return GraphFiles{options.encoder.empty() ? options.decoder : options.encoder, "", "", false};
  }
  std::optional<Graph> last = Peek(options.decoder);
  const bool reads_tokens = last.has_value() && !ops::ReadsNoTokens(*last);
  if (options.kind == InitKind::kTags || IsTagger(options, last)) {
    if (!options.encoder.empty()) {
      return Invalid("a tagger is one graph, but there are two: '", options.encoder, "' and '",
                     options.decoder, "'");
    }
    return GraphFiles{options.decoder, "", "", true};
  }
  const bool is_transducer = options.kind == InitKind::kTransducer ||
                             (options.kind == InitKind::kGuess && last.has_value() &&
                              (ops::IsJoiner(*last) || ops::IsPredictorAndJoiner(*last)));
  if (!is_transducer) {
    if (!options.encoder.empty()) {
      return Invalid("a CTC model is one graph, but there are two: '", options.encoder, "' and '",
                     options.decoder, "'");
    }
    return GraphFiles{options.decoder, "", "", false};
  }
  if (!options.encoder.empty() && last.has_value() && !reads_tokens) {
    return GraphFiles{"", options.encoder, options.decoder, false};
  }
  return GraphFiles{options.encoder, options.decoder, "", false};
}

class FrameInitialiser {
 public:
  FrameInitialiser(const InitOptions& options, std::ostream& output)
      : options_(options), output_(output) {}

  absl::Status Run() {
    BW_RETURN_IF_ERROR(CheckOut(options_.out));
    BW_RETURN_IF_ERROR(CheckName(options_.name, options_.out));
    BW_RETURN_IF_ERROR(CheckFlags());
    BW_ASSIGN_OR_RETURN(paths_, SortFiles(options_));
    config_.set_format_version(1);
    config_.set_name(options_.name);
    BW_RETURN_IF_ERROR(ReadEncoder());
    BW_RETURN_IF_ERROR(paths_.is_tagger           ? ReadTags()
                       : paths_.predictor.empty() ? ReadCtc()
                                                  : ReadTransducer());
    PrintLines("guess   ", reasons_, output_);
    files_[kConfigFile] = FormatBundle(config_, reasons_);
    BW_RETURN_IF_ERROR(WriteBundle(options_.out, files_, output_));
    PrintLines("note    ", Notes(), output_);
    BW_RETURN_IF_ERROR(TryWritten(options_.out, stepped_, output_));
    output_ << "serve it: beamwright-server --model-path " << Printable(options_.out) << "\n";
    return absl::OkStatus();
  }

 private:
  // Refuses options of models with a decoder.
  absl::Status CheckFlags() const {
    const struct {
      const char* flag;
      bool given;
    } flags[] = {{"--begin", !options_.special.begin.empty()},
                 {"--end", !options_.special.ends.empty()},
                 {"--pairs", !options_.pairs.empty()},
                 {"--replay", !options_.replay.empty()}};
    for (const auto& [flag, given] : flags) {
      if (given) {
        return Invalid(flag, ": is for models with a decoder; this one searches by frames");
      }
    }
    if (options_.kind == InitKind::kCtc && !options_.durations.empty()) {
      return Invalid("--durations: is for transducers; this is a CTC model");
    }
    return absl::OkStatus();
  }

  absl::Status CheckTagFlags() const {
    if (!options_.blank.empty() || !options_.durations.empty()) {
      return Invalid(options_.blank.empty() ? "--durations" : "--blank",
                     ": is for CTC and transducers; this is a tagger");
    }
    return absl::OkStatus();
  }

  void KeepMetadata(const std::string& path) {
    const ops::Metadata metadata = MetadataOf(path);
    metadata_.insert(metadata.begin(), metadata.end());
  }

  absl::Status ReadEncoder() {
    if (paths_.encoder.empty()) {
      if (!options_.source_vocab.empty()) {
        return Invalid("--source-vocab: without an encoder no source text can be read");
      }
      reasons_.push_back("no encoder: requests bring its frames as features");
      return absl::OkStatus();
    }
    InitOptions options = options_;
    options.encoder = paths_.encoder;
    BW_ASSIGN_OR_RETURN(EncoderSide side, TakeEncoder(options, true, files_, reasons_));
    encoder_ = std::move(side.graph);
    *config_.mutable_encoder() = std::move(side.config);
    *config_.mutable_source() = SizedConfig(side.source);
    KeepMetadata(paths_.encoder);
    AddSound(FindSound(*encoder_, config_.encoder(), metadata_, false, reasons_), files_, config_);
    AddPicture(*encoder_, config_, reasons_);
    return absl::OkStatus();
  }

  absl::StatusOr<FrameText> ReadText(int64_t columns) {
    FrameColumns known;
    known.columns = columns;
    known.is_transducer = !paths_.predictor.empty();
    known.metadata = metadata_;
    if (encoder_.has_value()) {
      const ops::Ports inputs = ops::InputPorts(*encoder_);
      const ops::Port* source = ops::FindPort(inputs, config_.encoder().input());
      known.is_picture =
          source != nullptr && source->info.shape.has_rank() && source->info.shape.rank() == 4;
    }
    BW_ASSIGN_OR_RETURN(
        FrameText text,
        ReadFrameText(known, {options_.target_vocab, options_.blank, options_.durations},
                      reasons_));
    *config_.mutable_target() = text.config;
    if (!text.config.vocabulary().empty()) {
      BW_RETURN_IF_ERROR(AddFile(text.config.vocabulary(), text.content, files_));
    }
    return text;
  }

  absl::Status ReadCtc() {
    reasons_.push_back("a CTC model: the graph reads no tokens");
    stepped_ = *encoder_;
    absl::StatusOr<ops::CtcRoles> roles = ops::GuessCtcRoles(*encoder_, options_.hints, reasons_);
    if (!roles.ok()) {
      return Annotate(roles.status(), absl::StrCat("'", paths_.encoder, "'"));
    }
    BW_ASSIGN_OR_RETURN(const FrameText text, ReadText(roles->columns));
    *config_.mutable_ctc() = CtcConfigOf(*roles, text.blank);
    return absl::OkStatus();
  }

  absl::Status ReadTags() {
    BW_RETURN_IF_ERROR(CheckTagFlags());
    reasons_.push_back("a tagger: each position of a source gets a label");
    stepped_ = *encoder_;
    absl::StatusOr<ops::CtcRoles> roles = ops::GuessTagRoles(*encoder_, options_.hints, reasons_);
    if (!roles.ok()) {
      return Annotate(roles.status(), absl::StrCat("'", paths_.encoder, "'"));
    }
    BW_RETURN_IF_ERROR(ReadLabels(roles->columns));
    v1::TagsConfig& tags = *config_.mutable_tags();
    tags.set_encoder_output(roles->output);
    tags.set_kind(CtcConfigOf(*roles, 0).kind());
    if (!options_.transitions.empty()) {
      BW_ASSIGN_OR_RETURN(std::string content,
                          ReadTransitions(options_.transitions, roles->columns));
      BW_RETURN_IF_ERROR(AddFile(kTransitionsFile, std::move(content), files_));
      tags.set_transitions(kTransitionsFile);
      reasons_.push_back("a CRF: labels are scored with their neighbours by the transitions given");
    }
    return absl::OkStatus();
  }

  // The target side of a tagger: its labels.
  absl::Status ReadLabels(int64_t columns) {
    v1::TextConfig& target = *config_.mutable_target();
    if (options_.target_vocab.empty()) {
      target.set_size(static_cast<int32_t>(columns));
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const std::string content, ReadFile(options_.target_vocab));
    BW_ASSIGN_OR_RETURN(TokenFile file, ReadTokenFile(options_.target_vocab, content, reasons_));
    std::vector<std::string>& labels = file.tokens;
    const auto extra = static_cast<int64_t>(labels.size()) - columns;
    if (extra > 0 && extra <= file.empty_tail) {
      labels.resize(static_cast<size_t>(columns));
    }
    if (static_cast<int64_t>(labels.size()) != columns) {
      return Invalid("the scores have ", columns, " columns, but '", options_.target_vocab,
                     "' has ", labels.size(), " labels");
    }
    const bool has_spaces = std::all_of(labels.begin(), labels.end(), [](const std::string& label) {
      return !label.empty() && absl::c_none_of(label, absl::ascii_isspace);
    });
    target.set_form(has_spaces ? v1::TEXT_FORM_WHITESPACE : v1::TEXT_FORM_CHARACTERS);
    reasons_.push_back(has_spaces
                           ? "an answer's text is its labels with spaces between"
                           : "an answer's text is its labels without spaces between: one of them "
                             "is empty, or contains white space");
    target.set_vocabulary("target.vocab");
    return AddFile(target.vocabulary(), absl::StrCat(absl::StrJoin(labels, "\n"), "\n"), files_);
  }

  absl::Status ReadTransducer() {
    std::string predictor_name;
    std::string joiner_name;
    BW_ASSIGN_OR_RETURN(Graph predictor,
                        TakeGraph(paths_.predictor, "predictor", files_, predictor_name));
    std::optional<Graph> joiner;
    if (!paths_.joiner.empty()) {
      BW_ASSIGN_OR_RETURN(joiner, TakeGraph(paths_.joiner, "joiner", files_, joiner_name));
      KeepMetadata(paths_.joiner);
    }
    KeepMetadata(paths_.predictor);
    reasons_.push_back(joiner.has_value() ? "a transducer: a predictor and a joiner"
                                          : "a transducer: predictor and joiner are one graph");
    absl::StatusOr<ops::TransducerRoles> roles = ops::GuessTransducerRoles(
        encoder_.has_value() ? &*encoder_ : nullptr, predictor,
        joiner.has_value() ? &*joiner : nullptr, options_.hints, reasons_);
    if (!roles.ok()) {
      return Annotate(
          roles.status(),
          absl::StrCat("'", paths_.predictor, "'", paths_.joiner.empty() ? "" : " and '",
                       paths_.joiner, paths_.joiner.empty() ? "" : "'"));
    }
    BW_ASSIGN_OR_RETURN(const FrameText text, ReadText(roles->joiner.columns));
    v1::TransducerConfig& config = *config_.mutable_transducer();
    config = TransducerConfigOf(predictor_name, joiner_name, *roles);
    config.set_blank(text.blank);
    BW_RETURN_IF_ERROR(CheckTable(*roles, text));
    if (!text.durations.empty()) {
      config.set_kind(v1::TRANSDUCER_KIND_TOKEN_AND_DURATION);
      config.mutable_durations()->Assign(text.durations.begin(), text.durations.end());
      // Scores may be normalised over tokens and durations together; each part is normalised anew.
      config.mutable_joiner()->set_logits_kind(v1::LOGITS_KIND_LOGITS);
    }
    SetStart(*roles, config);
    stepped_ = std::move(predictor);
    return absl::OkStatus();
  }

  // Finds files of different models: their tables rarely have the same size. Columns of durations
  // are not tokens.
  absl::Status CheckTable(const ops::TransducerRoles& roles, const FrameText& text) const {
    const int64_t rows = roles.predictor.tokens;
    const int64_t tokens = roles.joiner.columns - static_cast<int64_t>(text.durations.size());
    // The blank may be without a row where nothing feeds it.
    if (rows >= 0 && rows < tokens - 1) {
      return Invalid("the predictor's table has ", rows, " rows, but the joiner has scores for ",
                     tokens, " tokens and blank; are the files of one model?");
    }
    return absl::OkStatus();
  }

  // What the predictor reads first, and how many tokens a frame may yield.
  void SetStart(const ops::TransducerRoles& roles, v1::TransducerConfig& config) {
    if (roles.predictor.context_size > 0) {
      if (metadata_.count("context_size") > 0 && config.context_size() > 1) {
        config.mutable_predictor()->set_context_start(-1);
        reasons_.push_back(
            "before the first token the predictor reads -1 and then blank, as icefall has it: the "
            "file's metadata has context_size");
      }
      reasons_.push_back(
          "one token a frame at most, as stateless predictors are trained and decoded; "
          "max_symbols in the file, or max_symbols_per_frame of a request, for more");
      return;
    }
    config.set_max_symbols(kUsualMaxSymbols);
    reasons_.push_back(absl::StrCat("at most ", kUsualMaxSymbols,
                                    " tokens a frame, as NeMo decodes; fewer are faster"));
  }

  // What the bundle cannot express, and its user has to see to.
  std::vector<std::string> Notes() const {
    std::vector<std::string> notes;
    if (encoder_.has_value() && !config_.encoder().has_streaming()) {
      notes = FixedSource(*encoder_, config_.encoder());
    }
    const auto normalize = metadata_.find("normalize_type");
    if (normalize != metadata_.end() && normalize->second == "per_feature" &&
        !config_.has_sound()) {
      notes.push_back(
          "metadata says normalize_type per_feature: each column of an utterance's frames must "
          "have "
          "mean 0 and deviation 1 before it is sent");
    }
    return notes;
  }

  const InitOptions& options_;
  std::ostream& output_;
  GraphFiles paths_;
  v1::ModelConfig config_;
  std::vector<std::string> reasons_;
  Files files_;
  std::optional<Graph> encoder_;
  Graph stepped_;
  ops::Metadata metadata_;
};

}  // namespace

bool SearchesByFrames(const InitOptions& options) {
  if (options.kind == InitKind::kDecoder) {
    return false;
  }
  if (options.kind != InitKind::kGuess || !options.joiner.empty() || !options.blank.empty() ||
      !options.durations.empty() || !options.transitions.empty() || IsWeNet(options)) {
    return true;
  }
  const std::optional<Graph> last = Peek(options.decoder);
  if (!last.has_value() || IsTagger(options, last)) {
    return last.has_value();
  }
  return options.encoder.empty() ? ops::LooksLikeCtc(*last) || ops::IsPredictorAndJoiner(*last)
                                 : ops::IsJoiner(*last) || ops::IsPredictorAndJoiner(*last);
}

absl::Status InitFrameBundle(const InitOptions& options, std::ostream& output) {
  return FrameInitialiser(options, output).Run();
}

}  // namespace beamwright::tools
