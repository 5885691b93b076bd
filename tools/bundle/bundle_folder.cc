// A bundle's folder on disk, and the configuration in it.
//
// 1. Files are collected in memory by name (AddFile) and written at the end (WriteFiles): a run of
//    `init` that fails leaves no folder. CheckOut refuses a folder that has files before any work
//    is done; RemoveBundle takes back what was half written.
// 2. EncoderConfigOf, DecoderConfigOf, CtcConfigOf and TransducerConfigOf turn the roles of ports
//    into messages and leave out what the server assumes anyway.
// 3. FormatBundle prints model.textproto with the reasons of all guesses and the open questions
//    (OpenQuestions) as comments, for the person who checks and completes it.
//
// An example of the result:
//
//   # Written by `beamwright-graph init`, which guessed:
//   # - (why 'input_ids' is the source)
//   # Missing; without a vocabulary a token is an id, such as "1":
//   # - target.begin_token: the token that the first step reads (--begin)
//   encoder { graph: "encoder.onnx" input: "input_ids" }
#include "tools/bundle/bundle_folder.h"

#include <google/protobuf/text_format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/check.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::tools {

namespace fs = std::filesystem;

// Two graphs may name the same file of external data; the same content twice is one file.
absl::Status AddFile(const std::string& name, std::string content, Files& files) {
  const auto [it, fresh] = files.try_emplace(name, content);
  return fresh || it->second == content
             ? absl::OkStatus()
             : Invalid("two different files would be named '", name, "' in the bundle");
}

absl::Status CheckOut(const std::string& out) {
  std::error_code error;
  if (fs::exists(out, error) && !(fs::is_directory(out, error) && fs::is_empty(out, error))) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", out, "' exists; --out names a folder that doesn't, or an empty one"));
  }
  return absl::OkStatus();
}

// The content first, then the folder. Errors are passed over: the one that led here is the one to
// report.
void RemoveBundle(const std::string& out) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(out, error)) {
    fs::remove_all(entry.path(), error);
  }
  fs::remove(out, error);
}

absl::Status WriteFiles(const std::string& out, const Files& files) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error) {
    return absl::UnknownError(absl::StrCat("cannot make '", out, "': ", error.message()));
  }
  for (const auto& [name, content] : files) {
    const fs::path path = fs::path(out) / name;
    fs::create_directories(path.parent_path(), error);  // external data may lie below
    errno = 0;
    std::ofstream file(path, std::ios::binary);
    file << content;
    file.close();
    if (!file.good()) {
      const std::string why = errno == 0 ? "" : absl::StrCat(": ", std::strerror(errno));
      RemoveBundle(out);
      return absl::UnknownError(absl::StrCat("cannot write '", path.string(), "'", why));
    }
  }
  return absl::OkStatus();
}

namespace {

v1::LengthInput ProtoOf(ops::LengthKind kind) {
  switch (kind) {
    case ops::LengthKind::kLengths:
      return v1::LENGTH_INPUT_LENGTHS;
    case ops::LengthKind::kMask:
      return v1::LENGTH_INPUT_MASK;
    case ops::LengthKind::kAdditiveMask:
      return v1::LENGTH_INPUT_ADDITIVE_MASK;
    case ops::LengthKind::kNone:
      break;
  }
  return v1::LENGTH_INPUT_NONE;
}

v1::LogitsKind ProtoOf(ops::ScoreKind kind) {
  switch (kind) {
    case ops::ScoreKind::kLogProbs:
      return v1::LOGITS_KIND_LOG_PROBS;
    case ops::ScoreKind::kProbabilities:
      return v1::LOGITS_KIND_PROBS;
    case ops::ScoreKind::kLogits:
      break;
  }
  return v1::LOGITS_KIND_LOGITS;
}

// Whether a value starts with the encoder's result of another name than its own.
bool IsRenamed(const std::string& encoder_output, const std::string& input) {
  return !encoder_output.empty() && encoder_output != input;
}

// Where a state starts: with a constant, with the encoder's output of another name, or (nothing is
// written) with the encoder's output of its input's name.
void AddState(const ops::StateRole& role, v1::DecoderConfig& config) {
  v1::StateConfig& state = *config.add_states();
  state.set_input(role.input);
  state.set_output(role.output);
  if (role.starts_at_zero) {
    state.set_constant(role.constant);
  } else if (IsRenamed(role.encoder_output, role.input)) {
    state.set_encoder_output(role.encoder_output);
  }
}

// A memory is what a step reads of the encoder in every step. Lengths and masks are made by the
// server, which needs their kind; of others only a name that differs is worth a line.
void AddMemory(const ops::MemoryRole& role, v1::DecoderConfig& config) {
  const bool is_length = role.length_kind != ops::LengthKind::kNone;
  if (!is_length && !IsRenamed(role.encoder_output, role.input)) {
    return;
  }
  v1::MemoryConfig& memory = *config.add_memory();
  memory.set_input(role.input);
  if (is_length) {
    memory.set_length_kind(ProtoOf(role.length_kind));
  } else {
    memory.set_encoder_output(role.encoder_output);
  }
}

}  // namespace

v1::EncoderConfig EncoderConfigOf(const std::string& graph, const ops::EncoderRoles& roles) {
  v1::EncoderConfig config;
  config.set_graph(graph);
  config.set_input(roles.input);
  if (roles.length_kind != ops::LengthKind::kNone) {
    config.set_length_kind(ProtoOf(roles.length_kind));
    config.set_length_input(roles.length_input);
  }
  if (roles.length_axis > 1) {
    config.set_length_axis(roles.length_axis);
  }
  for (const std::string& input : roles.further_inputs) {
    config.add_further_inputs()->set_input(input);
  }
  return config;
}

// Only what the server would not assume by itself: states of a loop are in the graph, a memory that
// has the encoder output's name needs no line.
v1::DecoderConfig DecoderConfigOf(const std::string& graph, const ops::DecoderRoles& roles) {
  v1::DecoderConfig config;
  config.set_graph(graph);
  config.set_token_input(roles.token_input);
  for (const ops::StateRole& state : roles.states) {
    // A loop's states and their outputs stand in its graph.
    if (!roles.has_loop || state.starts_at_zero || state.encoder_output != state.input) {
      AddState(state, config);
    }
  }
  for (const ops::MemoryRole& memory : roles.memory) {
    AddMemory(memory, config);
  }
  config.set_logits_output(roles.logits_output);
  config.set_logits_kind(ProtoOf(roles.score_kind));
  config.set_attention_output(roles.attention_output);
  return config;
}

v1::CtcConfig CtcConfigOf(const ops::CtcRoles& roles, int32_t blank) {
  v1::CtcConfig config;
  config.set_encoder_output(roles.output);
  config.set_blank(blank);
  config.set_kind(ProtoOf(roles.score_kind));
  return config;
}

// States of predictors start with zeros in every toolkit.
v1::TransducerConfig TransducerConfigOf(const std::string& predictor, const std::string& joiner,
                                        const ops::TransducerRoles& roles) {
  v1::TransducerConfig config;
  v1::PredictorConfig& reads = *config.mutable_predictor();
  reads.set_graph(predictor);
  reads.set_token_input(roles.predictor.token_input);
  reads.set_length_input(roles.predictor.length_input);
  reads.set_output(roles.predictor.output);
  for (const ops::StateRole& role : roles.predictor.states) {
    v1::StateConfig& state = *reads.add_states();
    state.set_input(role.input);
    state.set_output(role.output);
    state.set_constant(0);
  }
  config.set_context_size(static_cast<int32_t>(roles.predictor.context_size));
  v1::JoinerConfig& joins = *config.mutable_joiner();
  joins.set_graph(joiner);
  joins.set_encoder_input(roles.joiner.encoder_input);
  joins.set_predictor_input(roles.joiner.predictor_input);
  joins.set_logits_output(roles.joiner.logits_output);
  joins.set_logits_kind(ProtoOf(roles.joiner.score_kind));
  config.set_encoder_output(roles.encoder_output);
  if (roles.frame_axis != 1) {
    config.set_frame_axis(roles.frame_axis);
  }
  return config;
}

std::vector<std::string> OpenQuestions(const v1::ModelConfig& config) {
  const v1::TextConfig& target = config.target();
  std::vector<std::string> questions;
  // Searches by frames begin with the blank and end with the frames.
  if (config.has_decoder() && target.begin_token().empty()) {
    questions.push_back("target.begin_token: the token that the first step reads (--begin)");
  }
  if (config.has_decoder() && target.end_tokens().empty()) {
    questions.push_back("target.end_tokens: the token that ends a hypothesis (--end)");
  }
  if (target.vocabulary().empty() && target.size() <= 0) {
    questions.push_back(
        "target.size: the number of target tokens, which the graph doesn't state (--target-vocab, "
        "or `size` in the file)");
  }
  return questions;
}

std::string FormatBundle(const v1::ModelConfig& config, absl::Span<const std::string> reasons) {
  std::string text =
      "# proto-file: beamwright/v1/model.proto\n"
      "# proto-message: beamwright.v1.ModelConfig\n"
      "# Written by `beamwright-graph init`, which guessed:\n";
  for (const std::string& reason : reasons) {
    absl::StrAppend(&text, "# - ", Printable(reason), "\n");
  }
  const std::vector<std::string> questions = OpenQuestions(config);
  if (!questions.empty()) {
    text += "# Missing; without a vocabulary a token is an id, such as \"1\":\n";
  }
  for (const std::string& question : questions) {
    absl::StrAppend(&text, "# - ", question, "\n");
  }
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  std::string fields;
  BW_CHECK(printer.PrintToString(config, &fields));
  return text + fields;
}

}  // namespace beamwright::tools
