// What the kinds of `init` share, and the kinds that have files of their format: models that search
// by frames, Marian's, Canary's.
//
// What the files around a graph say: settings of transformers' exports, tokens of columns, Marian's
// vocabularies.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_INIT_PARTS_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_INIT_PARTS_H_

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/model.pb.h"
#include "ops/graph/graph.h"
#include "ops/import/onnx_outline.h"
#include "ops/numpy/npz.h"
#include "tools/bundle/bundle_folder.h"
#include "tools/bundle/init.h"
#include "tools/bundle/text_side.h"

namespace beamwright::tools {

// What all kinds of `init` share: reading graphs, names, writing and trying the bundle.

inline constexpr char kConfigFile[] = "model.textproto";

// Reads a graph and keeps its files: the graph and an IR's weights under `role` ("encoder.xml",
// "encoder.bin"), external data by the names that the graph knows them by. `name`: the graph's in
// the bundle.
absl::StatusOr<ops::Graph> TakeGraph(const std::string& path, const std::string& role, Files& files,
                                     std::string& name);
// Of an ONNX file; of others empty.
ops::Metadata MetadataOf(const std::string& path);
// The same graph file with other content, in the place of what TakeGraph kept as `name`.
absl::StatusOr<ops::Graph> TakeChangedGraph(const std::string& path, const std::string& name,
                                            std::string content, Files& files);

// The content of a vocabulary: bytes of a SentencePiece model, of other files lines that end with
// "\n". token_ids: the file that numbers its pieces (NumberPieces); empty: none.
absl::StatusOr<std::string> ReadText(const std::string& path, const std::string& token_ids);
// A vocabulary of one side, kept under that side's name.
absl::StatusOr<TextSide> TakeText(const std::string& side, const std::string& path,
                                  const std::string& token_ids, const SpecialTokens& special,
                                  Files& files, std::vector<std::string>& reasons);
// Without a vocabulary the file says how many ids there are.
v1::TextConfig SizedConfig(const TextSide& side);

struct EncoderSide {
  ops::Graph graph;
  v1::EncoderConfig config;
  TextSide source;
  int64_t source_rows = -1;  // of the table that it looks ids up in; -1: open
};
// options.encoder with the source's vocabulary. `from_zero`: an encoder that was exported for
// streams is taken as one for whole sources where that is possible
// (tools/bundle/encoder_input.h).
absl::StatusOr<EncoderSide> TakeEncoder(const InitOptions& options, bool from_zero, Files& files,
                                        std::vector<std::string>& reasons);

// The server takes the folder's name where the file has none.
absl::Status CheckName(const std::string& given, const std::string& out);

void PrintLines(const char* label, const std::vector<std::string>& lines, std::ostream& output);
absl::Status WriteBundle(const std::string& out, const Files& files, std::ostream& output);
// As a server does, before `init` says to serve it. `stepped`: the graph that is run step by
// step, for what may be wrong with it.
absl::Status TryWritten(const std::string& out, const ops::Graph& stepped, std::ostream& output);

// What the JSON files of transformers say of a model that optimum exported, and what no graph says:
// how sound or a picture becomes the encoder's input (preprocessor_config.json), with which tokens
// answers begin, which are never chosen and how long an answer is (generation_config.json, else
// config.json), and how texts become ids and back (tokenizer.json; of Marian source.spm, target.spm
// and vocab.json). They lie in the graphs' folder, or above
// it where that folder is named onnx.

struct ExportSettings {
  std::optional<v1::SoundConfig> sound;
  std::optional<v1::PictureConfig> picture;
  // Those of transformers' generate: its length normalisation, and log-probabilities that are not
  // renormalised over the tokens that may be chosen.
  v1::DecodeOptions options;
  std::vector<std::string> reasons;
  std::vector<std::string> unknown;
};

// Of an encoder that reads sound, pictures or, in an encoder-decoder, text; std::nullopt: there are
// no such files, or they are of another kind of model. Fills in what `options` leaves open:
// vocabularies, begin and end tokens, length_axis, input_shape. InvalidArgument names the file that
// is not JSON, or lacks the token that the options name (source_language, target_language).
absl::StatusOr<std::optional<ExportSettings>> TakeExportSettings(InitOptions& options);

// `init` for models that search by frames: CTC outputs and transducers, as icefall and sherpa,
// NeMo, Hugging Face and OCR toolkits export them, and taggers.

// Whether the graphs are such a model: by a flag, or where nothing else fits. One graph without
// tokens whose scores have three axes is CTC; with a joiner behind a predictor, or with both in one
// graph, it is a transducer; with tokens and scores for other labels than those tokens, a tagger.
// Files that can't be read are not: the next reader says why.
bool SearchesByFrames(const InitOptions& options);

// As InitBundle. Paths stand in the options as the command line has them: the last graph is
// `decoder`, the one before it `encoder`, unless there are three.
absl::Status InitFrameBundle(const InitOptions& options, std::ostream& output);

// `init` for models of the translation toolkit Marian, as Firefox ships them.

// Whether the one graph given is such a model: a .bin or .npz file.
bool IsMarianModel(const InitOptions& options);

// As InitBundle: the model, both vocabularies and the shortlist as a bundle. Nothing is written
// where they do not belong together.
absl::Status InitMarianBundle(const InitOptions& options, std::ostream& output);

// Canary and other EncDecMultiTaskModels of NeMo as sherpa-onnx's script exports them:
// encoder.onnx, whose metadata name the model's type, decoder.onnx and tokens.txt. The decoder is a
// step for one hypothesis: `decoder_input_ids` [1, 2] is a token and its position, and
// `decoder_mems_list_<i>` [1, length, width] grow by one place.

// By the encoder's metadata.
bool IsCanary(const InitOptions& options);

// The prompt: language of the sound (options.source_language, else English) and of the text
// (options.target_language, else that of the sound), with punctuation. Fills in what `options`
// leaves open: target_vocab, begin and end token, states. InvalidArgument: the vocabulary lacks a
// token of the prompt, or is missing.
absl::StatusOr<ExportSettings> TakeCanarySettings(InitOptions& options);

// The decoder's file with two inputs [rows, 1] for token and position, and any number of rows.
// InvalidArgument: it is another graph.
absl::StatusOr<std::string> CanaryStep(const std::string& decoder);

// WeNet's two files, encoder.onnx and ctc.onnx of its exporter.

// By the metadata of the first file.
bool IsWeNet(const InitOptions& options);

// The encoder's content with the CTC output (`head`, the other file's content), without inputs that
// its caller computes: it has states in their place, or is for whole sources. InvalidArgument: the
// chunks' cache has no bound, or the files are others.
absl::StatusOr<std::string> WeNetEncoder(const std::string& encoder, const std::string& head,
                                         const ops::Metadata& metadata);

// The target side of a model that searches by frames: which token, or blank, each column of its
// scores stands for. Toolkits differ: blank is the first column, the last one, or a token of the
// list; behind the tokens may stand the scores of durations.

// What is known of the scores.
struct FrameColumns {
  int64_t columns = -1;
  bool is_transducer = false;  // else CTC
  bool is_picture = false;     // the encoder reads pictures
  ops::Metadata metadata;      // of the graph files
};

struct FrameTextHints {
  std::string vocabulary;  // path; empty: none
  std::string blank;       // a token, or the number of a column; empty: look for it
  std::vector<int> durations;
};

struct FrameText {
  v1::TextConfig config;  // `vocabulary` is the file's name in the bundle
  std::string content;    // of that file
  int32_t blank = 0;
  std::vector<int> durations;  // empty: a standard transducer, or CTC
};

// InvalidArgument where columns and vocabulary do not fit each other, or nothing says which column
// is blank, with the flag that does.
absl::StatusOr<FrameText> ReadFrameText(const FrameColumns& columns, const FrameTextHints& hints,
                                        std::vector<std::string>& reasons);

// transformers' decoders as optimum exports them: a step and a first step in two files, or both in
// one.

// transformers' encoder-decoder models as optimum exports them: encoder_model.onnx,
// decoder_with_past_model.onnx, which is the step, and decoder_model.onnx, the first step. The step
// reads the keys and values of the source, and only the first step computes them, of what the
// encoder gives. A search has one step: that part of the first one becomes a part of the encoder.

// Whether the step reads keys and values of the source that the encoder does not give.
bool LacksCrossMemory(const ops::Graph& step, const ops::Graph& encoder);

// The encoder's file, whose results become the first step's present.N.encoder.key and .value, and
// the encoder's own result as encoder_hidden_states if `step` takes that, too (Moonshine: for its
// length). Both files are the content of ONNX files without further files. InvalidArgument if those
// results need more than the encoder's result and inputs of both files.
absl::StatusOr<std::string> AddCrossMemory(const std::string& encoder,
                                           const std::string& first_step, const ops::Graph& step);

// transformers' decoders as optimum writes them into one file, decoder_model_merged.onnx: an If
// whose condition is the input `use_cache_branch` holds the step, and the first step.

struct MergedDecoder {
  std::string step;
  std::string first_step;
};

// Each as one ONNX file, as optimum writes them apart. `merged`: the content of an ONNX
// file without further files; nothing if it is no such file.
std::optional<MergedDecoder> SplitMerged(const std::string& merged);

// Files of Marian's models: .npz models as .bin files, which graphs are read from, and vocabularies
// of SentencePiece models whose tokens a second file numbers.

// Marian's .npz models as .bin files, which graphs are read from.

// The content of the .bin file with the same arrays; its bytes depend on `arrays` alone.
// InvalidArgument: no options (special:model.yml). Unimplemented: types other than f32, and i8 of
// the options.
absl::StatusOr<std::string> MarianBinOf(const ops::TensorMap& arrays);

// Vocabularies as OPUS-MT's models have them: a SentencePiece model for each side, which cuts its
// texts, and one file that numbers the tokens of both (opus.spm32k-spm32k.vocab.yml). A bundle has
// the numbers in the SentencePiece models.

// Tokens by their ids. The file is YAML with a token and its id a line, `"▁de": 4`, or a JSON
// object of ids by token. InvalidArgument, of YAML naming the line: something else, an id that is
// there twice or missing.
absl::StatusOr<std::vector<std::string>> ReadTokenIds(absl::string_view content);

// The SentencePiece model `model` with its pieces in the order of `tokens`. Tokens that it lacks,
// of the other side, are in it as pieces that no text is cut into; '>>fra<<', which names a target
// language, as one that a text may begin with. Pieces that are no token are left out: texts are cut
// into others. InvalidArgument: not such a model, or none of its pieces is a token.
absl::StatusOr<std::string> NumberPieces(const std::string& model,
                                         const std::vector<std::string>& tokens);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_INIT_PARTS_H_
