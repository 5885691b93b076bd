#include "tests/engine/sound/tones_model.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numbers>

#include "tests/support/test_data.h"

namespace beamwright::sound {
namespace {

constexpr char kBundle[] = R"(
format_version: 1 name: "tones" frame_ms: 40
encoder { graph: "encoder.onnx" input: "x" length_kind: LENGTH_INPUT_LENGTHS length_input: "x_lens" }
target { form: TEXT_FORM_PIECES vocabulary: "target.vocab" }
transducer {
  predictor { graph: "decoder.onnx" token_input: "y" output: "decoder_out" context_start: -1 }
  joiner {
    graph: "joiner.onnx" encoder_input: "encoder_out" predictor_input: "decoder_out"
    logits_output: "logit"
  }
  context_size: 2
  encoder_output: "encoder_out"
}
sound {}
)";

constexpr char kChunksBundle[] = R"(
format_version: 1 name: "tones"
encoder {
  graph: "encoder.onnx" input: "x"
  streaming {
    chunk: 10 shift: 8 tail: 16
    states { input: "cached_mean" output: "cached_mean_next" }
  }
}
target { form: TEXT_FORM_PIECES vocabulary: "target.vocab" }
ctc { encoder_output: "logits" kind: LOGITS_KIND_LOGITS }
sound {}
)";

// Into FOLDER/NAME/1: the text, under that name, the vocabulary, and files of an export.
void Write(const std::string& folder, const std::string& name, std::string text,
           const std::string& exported, const std::vector<std::string>& files) {
  const std::string bundle = folder + "/" + name + "/1";
  std::filesystem::create_directories(bundle);
  text.replace(text.find("tones"), 5, name);
  std::ofstream(bundle + "/model.textproto") << text;
  std::ofstream vocabulary(bundle + "/target.vocab");
  vocabulary << "<blk>\n";
  for (int i = 1; i <= 20; ++i) {
    vocabulary << "▁t" << i << "\n";
  }
  for (const std::string& file : files) {
    std::filesystem::copy(testing_support::TestData("frames/exports/" + exported + "/" + file),
                          bundle + "/" + file);
  }
}

}  // namespace

void WriteTonesBundle(const std::string& folder, const std::string& name) {
  Write(folder, name, kBundle, "tones", {"encoder.onnx", "decoder.onnx", "joiner.onnx"});
}

void WriteTonesChunksBundle(const std::string& folder, const std::string& name) {
  Write(folder, name, kChunksBundle, "tones_chunks", {"encoder.onnx"});
}

std::vector<float> Tones(const std::vector<int>& labels, int rate) {
  const int quiet = rate / 10;
  const int tone = rate * 15 / 100;
  std::vector<float> samples;
  uint32_t noise = 1;
  const auto add = [&](double sample) {
    noise = noise * 1664525 + 1013904223;
    samples.push_back(
        static_cast<float>(sample + (static_cast<double>(noise >> 16) - 32768) / 32768 * 0.08));
  };
  for (int i = 0; i < quiet; ++i) {
    add(0);
  }
  for (const int label : labels) {
    const double pitch = 200 * std::pow(1.18, label);
    for (int i = 0; i < tone; ++i) {
      const double window =
          std::pow(0.5 - 0.5 * std::cos(2 * std::numbers::pi * i / (tone - 1)), 0.3);
      add(0.3 * std::sin(2 * std::numbers::pi * pitch * i / rate) * window);
    }
  }
  for (int i = 0; i < quiet; ++i) {
    add(0);
  }
  return samples;
}

std::string AsF32(const std::vector<float>& samples) {
  return std::string(reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof(float));
}

std::string AsPcm16(const std::vector<float>& samples) {
  std::string bytes;
  for (const float sample : samples) {
    const auto integer = static_cast<int16_t>(std::lround(sample * 32767));
    bytes.append(reinterpret_cast<const char*>(&integer), sizeof(integer));
  }
  return bytes;
}

}  // namespace beamwright::sound
