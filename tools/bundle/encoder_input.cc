// Three guesses about what an encoder reads:
//
// 1. AddPicture: a source of four axes with 1 or 3 channels may be a picture; sizes and channels
//    show the package whose preparation it needs (Guess).
// 2. FindSound: features of sound, by the metadata of the file, the name of the input and the width
//    of a frame.
// 3. IsTrueAtPadding: what a mask means, by runs of the encoder on made-up sources.
#include "tools/bundle/encoder_input.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/picture/front_end.h"
#include "ops/graph/trace.h"
#include "ops/loop/model.h"
#include "tools/graph/ports.h"

namespace beamwright::tools {
namespace {

constexpr int64_t kMostHeight = 1024;

// Frames of mel bins with an axis for the channel of a convolution.
bool MayBeSound(const picture::Axes& axes, int64_t height) {
  return axes.channels == 1 && (axes.width < axes.height || height == 80 || height == 128);
}

void SetRange(float mean, float scale, v1::PictureConfig& picture) {
  picture.add_mean(mean);
  picture.add_scale(scale);
}

// Fills `picture` by the package that such an input is known from; returns what it says.
std::string Guess(const ops::PartialShape& shape, const picture::Axes& axes,
                  v1::PictureConfig& picture) {
  const int64_t channels = shape.dim(axes.channels);
  const int64_t height = shape.dim(axes.height);
  const bool is_open = shape.dim(axes.width) == ops::PartialShape::kDynamic;
  const bool is_first = axes.channels == 1;
  if (is_first && channels == 3 && is_open && (height == 48 || height == 32)) {
    picture.set_order(v1::PICTURE_ORDER_BGR);
    SetRange(0.5F, 2, picture);
    picture.set_min_width(320);
    return "blue first, levels from -1 to 1, as PaddleOCR's recognisers read them";
  }
  if (is_first && channels == 1 && is_open && height == 64) {
    picture.set_filter(v1::PICTURE_FILTER_PILLOW_LANCZOS);
    return "grey, levels from 0 to 1, as ddddocr reads them";
  }
  if (is_first && channels == 1) {
    SetRange(0.5F, 2, picture);
    picture.set_filter(v1::PICTURE_FILTER_PILLOW_BILINEAR);
    return "grey, levels from -1 to 1, as crnn.pytorch reads them";
  }
  return absl::StrCat(channels == 1 ? "grey" : "red first", ", levels from 0 to 1");
}

}  // namespace

void AddPicture(const ops::Graph& encoder, v1::ModelConfig& config,
                std::vector<std::string>& reasons) {
  const ops::Ports inputs = ops::InputPorts(encoder);
  const std::string& name = config.encoder().input();
  const ops::Port* const source =
      name.empty() && inputs.size() == 1 ? &inputs[0] : ops::FindPort(inputs, name);
  if (source == nullptr || source->info.dtype != ops::DType::kF32 ||
      !source->info.shape.has_rank() || source->info.shape.rank() != 4 || config.has_sound() ||
      config.encoder().has_streaming()) {
    return;
  }
  const ops::PartialShape& shape = source->info.shape;
  const int length_axis = config.encoder().length_axis() > 0 ? config.encoder().length_axis()
                                                             : ops::FindLengthAxis(shape);
  const picture::Axes axes = picture::PictureAxes(shape, 0, length_axis);
  const int64_t channels = shape.dim(axes.channels);
  const int64_t height = shape.dim(axes.height);
  if ((channels != 1 && channels != 3) || height < 1 || height > kMostHeight ||
      (channels == 1 && MayBeSound(axes, height))) {
    return;
  }
  const std::string found = Guess(shape, axes, *config.mutable_picture());
  reasons.push_back(absl::StrCat("requests may bring pictures, PNG or JPEG: ", found,
                                 "; check `picture` in the bundle against the code that "
                                 "prepares pictures for this model"));
}

// Guesses how sound is prepared for an encoder (FindSound), from the metadata of its file, the name
// of its input and the width of a frame. Each toolkit has a rule (FunAsr, WeNet, Icefall, Nemo,
// Whisper, Samples); the first that applies sets the configuration and says why. If no rule
// applies, requests bring features.
//
// The details (window, scale of samples, edges, frequencies) are those of each toolkit's feature
// extractor: with features that are only similar a model recognises worse, without an error.

namespace {

constexpr char kCmvnFile[] = "am.mvn";
constexpr int kFrameMs = 10;

// What is known of an encoder, for the rules below.
struct Encoder {
  const ops::Metadata& metadata;
  std::string input;
  int rank = 0;
  int64_t width = 0;  // of a frame; -1: open
  bool is_streaming = false;
  bool has_decoder = false;

  // Empty: it does not say.
  std::string Value(const char* key) const {
    const auto found = metadata.find(key);
    return found == metadata.end() ? "" : found->second;
  }
  int Number(const char* key) const {
    int value = 0;
    return absl::SimpleAtoi(Value(key), &value) ? value : 0;
  }
};

bool IsWidth(int64_t width, std::initializer_list<int64_t> usual) {
  return std::find(usual.begin(), usual.end(), width) != usual.end();
}

// Each rule sets `facts` and returns the reason; an empty text if it does not apply.

std::string FunAsr(const Encoder& encoder, SoundFacts& facts) {
  const int stack = encoder.Number("lfr_window_size");
  if (stack <= 0 || encoder.width % stack != 0 || encoder.is_streaming) {
    return "";
  }
  v1::SoundConfig& config = facts.config;
  config.set_num_bins(static_cast<int>(encoder.width / stack));
  config.set_window(v1::SOUND_WINDOW_HAMMING);
  config.set_integer_scale(encoder.Number("normalize_samples") == 0);
  config.set_snip_edges(true);
  config.set_high_frequency(0);
  config.set_stack(stack);
  config.set_stack_shift(encoder.Number("lfr_window_shift"));
  const std::string mean = encoder.Value("neg_mean");
  if (!mean.empty()) {
    const auto numbers = [](const std::string& list) {
      return absl::StrReplaceAll(list, {{",", " "}});
    };
    config.set_cmvn(kCmvnFile);
    facts.cmvn = absl::StrCat("<AddShift> [ ", numbers(mean), " ]\n<Rescale> [ ",
                              numbers(encoder.Value("inv_stddev")), " ]\n");
  }
  return "FunASR's features, some frames side by side: metadata has lfr_window_size";
}

std::string WeNet(const Encoder& encoder, SoundFacts& facts) {
  const bool is_own = encoder.Number("decoding_window") > 0 && encoder.Number("feature_size") > 0;
  if ((encoder.Value("model_author") != "wenet" && !is_own) || encoder.width != 80) {
    return "";
  }
  facts.config.set_integer_scale(true);
  facts.config.set_snip_edges(true);
  facts.config.set_high_frequency(0);
  return "80 log-mel features of 16-bit samples as Kaldi has them, up to half the sample rate: "
         "metadata says the model is WeNet's";
}

std::string Icefall(const Encoder& encoder, SoundFacts& facts) {
  if (encoder.Value("model_author") != "k2-fsa" || encoder.width != 80 ||
      encoder.Value("feature") == "whisper") {
    return "";
  }
  facts.config.set_kind(v1::SOUND_KIND_KALDI);
  return "80 log-mel features as Kaldi has them: metadata says the model is icefall's, and it "
         "reads this number";
}

std::string Nemo(const Encoder& encoder, SoundFacts& facts) {
  const std::string normalize = encoder.Value("normalize_type");
  const bool is_nemo = encoder.Value("model_author") == "NeMo" || !normalize.empty();
  const bool is_whole = normalize == "per_feature";
  const bool is_known = is_whole || normalize.empty() || normalize == "NA";
  if (!is_nemo || !is_known || (is_whole && encoder.is_streaming) ||
      !IsWidth(encoder.width, {64, 80, 128})) {
    return "";
  }
  facts.config.set_kind(v1::SOUND_KIND_NEMO);
  facts.config.set_num_bins(static_cast<int>(encoder.width));
  if (!is_whole) {
    facts.config.set_normalize(false);
  }
  facts.frame_ms = static_cast<float>(kFrameMs * encoder.Number("subsampling_factor"));
  return absl::StrCat(encoder.width, " log-mel features as NeMo has them, ",
                      is_whole ? "each normalised over the source" : "not normalised",
                      ": metadata has ",
                      normalize.empty() ? "model_author NeMo" : "normalize_type");
}

std::string Whisper(const Encoder& encoder, SoundFacts& facts) {
  const bool is_named = encoder.input == "input_features" && encoder.has_decoder;
  if ((!is_named && !absl::StartsWith(encoder.Value("model_type"), "whisper")) ||
      !IsWidth(encoder.width, {80, 128})) {
    return "";
  }
  facts.config.set_kind(v1::SOUND_KIND_WHISPER);
  facts.config.set_num_bins(static_cast<int>(encoder.width));
  return absl::StrCat(encoder.width, " log-mel features of 30 s, as Whisper has them: by ",
                      is_named ? "the name of the input" : "model_type in the metadata");
}

std::string Samples(const Encoder& encoder, SoundFacts& facts) {
  if (encoder.rank != 2 || encoder.input != "input_values") {
    return "";
  }
  facts.config.set_kind(v1::SOUND_KIND_SAMPLES);
  facts.config.set_normalize(!encoder.has_decoder);
  return encoder.has_decoder
             ? "the samples as they are, as Moonshine reads them: by the name of the input"
             : "the samples, with mean 0 and deviation 1 over the source, as wav2vec2 reads them: "
               "by "
               "the name of the input; do_normalize false in preprocessor_config.json is "
               "normalize: "
               "false here";
}

}  // namespace

// Rules are in the order of how certain they are: metadata of a toolkit first, names of inputs
// last.
std::optional<SoundFacts> FindSound(const ops::Graph& encoder, const v1::EncoderConfig& config,
                                    const ops::Metadata& metadata, bool has_decoder,
                                    std::vector<std::string>& reasons) {
  const ops::Ports inputs = ops::InputPorts(encoder);
  // Of a graph with one input the bundle does not name it.
  const ops::Port* const source = config.input().empty() && inputs.size() == 1
                                      ? &inputs[0]
                                      : ops::FindPort(inputs, config.input());
  if (source == nullptr || source->info.dtype != ops::DType::kF32 ||
      !source->info.shape.has_rank()) {
    return std::nullopt;
  }
  const ops::PartialShape& shape = source->info.shape;
  Encoder known{metadata, source->name, static_cast<int>(shape.rank())};
  if (known.rank == 3) {
    known.width = shape.dim(config.length_axis() == 2 ? 1 : 2);
  }
  known.is_streaming = config.has_streaming();
  known.has_decoder = has_decoder;
  for (const auto& rule : {FunAsr, WeNet, Icefall, Nemo, Whisper, Samples}) {
    SoundFacts facts;
    const std::string reason = rule(known, facts);
    if (!reason.empty()) {
      reasons.push_back(absl::StrCat("sound becomes ", reason));
      return facts;
    }
  }
  return std::nullopt;
}

void AddSound(const std::optional<SoundFacts>& facts, Files& files, v1::ModelConfig& config) {
  if (!facts.has_value()) {
    return;
  }
  *config.mutable_sound() = facts->config;
  if (!facts->cmvn.empty()) {
    files[facts->config.cmvn()] = facts->cmvn;
  }
  if (facts->frame_ms > 0 && !config.encoder().has_streaming()) {
    config.set_frame_ms(facts->frame_ms);
  }
}

// Runs an encoder on made-up inputs (TrialInputs: one source of kTrialLength positions, zeros, and
// true lengths) to see what it does.
//
// IsTrueAtPadding finds the meaning of a mask: it runs two sources with the mask at 0, and both
// with the mask at 1. If results differ between the sources only at 0, the mask is true where the
// source ends.

namespace {

ops::Tensor Filled(ops::DType dtype, const ops::Shape& shape, int value) {
  ops::Tensor tensor = ops::Tensor::Zeros(dtype, shape);
  const auto count = static_cast<size_t>(tensor.num_elements());
  switch (dtype) {
    case ops::DType::kI64:
      return ops::Tensor::Of<int64_t>(shape, std::vector<int64_t>(count, value));
    case ops::DType::kI32:
      return ops::Tensor::Of<int32_t>(shape, std::vector<int32_t>(count, value));
    case ops::DType::kF32:
      return ops::Tensor::Of<float>(shape, std::vector<float>(count, static_cast<float>(value)));
    case ops::DType::kBool:
      std::fill_n(tensor.mutable_data<bool>(), count, value != 0);
      return tensor;
    default:
      return tensor;
  }
}

}  // namespace

int ParameterOf(const ops::Graph& graph, const std::string& name) {
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (ops::PortName(graph, graph.parameters[i]) == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

// Open extents become 1, but for the source and its mask, [1, kTrialLength, ...]. Values are zeros,
// lengths kTrialLength: token 0 is in every table.
std::vector<ops::Tensor> TrialInputs(const ops::Graph& graph, const std::string& source,
                                     const ops::EncoderRoles& roles) {
  std::vector<ops::Tensor> inputs;
  for (const int parameter : graph.parameters) {
    const ops::ValueInfo& info = graph.node(parameter).outputs[0];
    ops::Shape shape = info.shape.has_rank() ? info.shape.dims() : ops::Shape();
    for (int64_t& extent : shape) {
      extent = extent == ops::PartialShape::kDynamic ? 1 : extent;
    }
    const std::string name = ops::PortName(graph, parameter);
    const bool is_length = name == roles.length_input;
    if ((name == source || (is_length && roles.length_kind != ops::LengthKind::kLengths)) &&
        shape.size() > 1) {
      shape[0] = 1;
      shape[1] = kTrialLength;
    }
    const bool has_length = is_length && roles.length_kind == ops::LengthKind::kLengths;
    inputs.push_back(Filled(info.dtype, shape, has_length ? static_cast<int>(kTrialLength) : 0));
  }
  return inputs;
}

// Four runs: source 0 and 1 under mask 0, and under mask 1, of whole tensors. A result that differs
// between the sources follows them. If one follows under 0 and does not under 1, a true mask hides
// positions. If one follows under 1 alone, a true mask shows them: false.
bool IsTrueAtPadding(const ops::Graph& encoder, const ops::EncoderRoles& roles) {
  const int source = ParameterOf(encoder, roles.input);
  const int mask = ParameterOf(encoder, roles.length_input);
  const auto model = ops::Model::Compile(encoder);
  if (source < 0 || mask < 0 || !model.ok()) {
    return false;
  }
  std::vector<ops::Tensor> inputs = TrialInputs(encoder, roles.input, roles);
  // By the mask's value and result: whether it follows the source.
  std::vector<bool> follows[2];
  for (const int value : {0, 1}) {
    std::vector<ops::Tensor> results[2];
    for (const int token : {0, 1}) {
      for (const int input : {source, mask}) {
        ops::Tensor& tensor = inputs[static_cast<size_t>(input)];
        tensor = Filled(tensor.dtype(), tensor.shape(), input == source ? token : value);
      }
      if (!(*model)->Run(ops::ExecutionContext(), inputs, results[token]).ok()) {
        return false;
      }
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      const ops::Tensor& one = results[0][i];
      const ops::Tensor& other = results[1][i];
      bool differs = false;
      for (int64_t k = 0; one.dtype() == ops::DType::kF32 && k < one.num_elements(); ++k) {
        // Not a number is no answer to a source.
        differs = differs || std::abs(one.span<float>()[static_cast<size_t>(k)] -
                                      other.span<float>()[static_cast<size_t>(k)]) > 0;
      }
      follows[value].push_back(differs);
    }
  }
  bool lost = false;
  for (size_t i = 0; i < follows[0].size(); ++i) {
    lost = lost || (follows[0][i] && !follows[1][i]);
    if (follows[1][i] && !follows[0][i]) {
      return false;
    }
  }
  return lost;
}

}  // namespace beamwright::tools
