// What the kinds of `init` share, and the kinds that have files of their format: models that search
// by frames, Marian's, Canary's.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_INIT_PARTS_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_INIT_PARTS_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ops/graph/graph.h"
#include "ops/import/onnx_outline.h"
#include "tools/bundle/bundle_folder.h"
#include "tools/bundle/export_settings.h"
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
// "\n". token_ids: the file that numbers its pieces (tools/bundle/marian_files.h); empty: none.
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
// (tools/bundle/encoder_streaming.h).
absl::StatusOr<EncoderSide> TakeEncoder(const InitOptions& options, bool from_zero, Files& files,
                                        std::vector<std::string>& reasons);

// The server takes the folder's name where the file has none.
absl::Status CheckName(const std::string& given, const std::string& out);

void PrintLines(const char* label, const std::vector<std::string>& lines, std::ostream& output);
absl::Status WriteBundle(const std::string& out, const Files& files, std::ostream& output);
// As a server does, before `init` says to serve it. `stepped`: the graph that is run step by
// step, for what may be wrong with it.
absl::Status TryWritten(const std::string& out, const ops::Graph& stepped, std::ostream& output);

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

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_INIT_PARTS_H_
