// Guesses how sound is prepared for an encoder (FindSound), from the metadata of its file, the name
// of its input and the width of a frame. Each toolkit has a rule (FunAsr, WeNet, Icefall, Nemo,
// Whisper, Samples); the first that applies sets the configuration and says why. If no rule
// applies, requests bring features.
//
// The details (window, scale of samples, edges, frequencies) are those of each toolkit's feature
// extractor: with features that are only similar a model recognises worse, without an error.
#include "tools/bundle/encoder_sound.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/graph/ports.h"

namespace beamwright::tools {
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
  if (encoder.Value("model_author") != "wenet" || encoder.width != 80) {
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

}  // namespace beamwright::tools
