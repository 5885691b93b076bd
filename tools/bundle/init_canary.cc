// What `init` does for Canary, a speech model of NeMo, as sherpa-onnx exports it. Its decoder has
// one input, decoder_input_ids [1, 2], with the token and its position, and is exported for one
// row.
//
// 1. TakeCanarySettings: the prompt of special tokens (language, punctuation, no time stamps) that
//    answers begin with.
// 2. CanaryStep changes the decoder's ONNX file: SplitIds makes two inputs of the ids, by finding
//    the one table that is indexed with the token and the one that is indexed with the position;
//    OpenRows replaces the 1 of each Reshape's target by 0, so that any number of rows works;
//    NameStates gives each state's output a name like that of its input; KeepRead drops nodes whose
//    results are read no more.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "tools/bundle/init_parts.h"
#include "tools/bundle/token_file.h"

namespace beamwright::tools {
namespace {

constexpr char kIds[] = "decoder_input_ids";
constexpr char kToken[] = "token";
constexpr char kPosition[] = "position";
constexpr char kNextMems[] = "next_decoder_mem_list_";

std::string Special(absl::string_view name) { return absl::StrCat("<|", name, "|>"); }

// The integers of small constants by name.
std::map<std::string, std::vector<int64_t>> IntegersOf(const onnx::GraphProto& graph) {
  std::map<std::string, std::vector<int64_t>> found;
  const auto add = [&found](const std::string& name, const onnx::TensorProto& tensor) {
    constexpr size_t kMostBytes = 1024;
    if (tensor.data_type() != onnx::TensorProto::INT64) {
      return;
    }
    std::vector<int64_t> values(tensor.int64_data().begin(), tensor.int64_data().end());
    if (const std::string& raw = tensor.raw_data(); values.empty() && raw.size() <= kMostBytes) {
      values.resize(raw.size() / sizeof(int64_t));
      std::copy_n(raw.data(), values.size() * sizeof(int64_t),
                  reinterpret_cast<char*>(values.data()));
    }
    found[name] = std::move(values);
  };
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    add(tensor.name(), tensor);
  }
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() == "Constant" && node.output_size() == 1 && node.attribute_size() == 1) {
      add(node.output(0), node.attribute(0).t());
    }
  }
  return found;
}

// Names of values that are computed from `first` and constants only, `first` among them.
std::set<std::string> OnlyOf(const onnx::GraphProto& graph, const std::string& first) {
  std::set<std::string> constants;
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    constants.insert(tensor.name());
  }
  std::set<std::string> found = {first};
  for (const onnx::NodeProto& node : graph.node()) {
    const bool is_constant = std::all_of(
        node.input().begin(), node.input().end(),
        [&](const std::string& input) { return input.empty() || constants.count(input) > 0; });
    const bool is_only =
        std::all_of(node.input().begin(), node.input().end(), [&](const std::string& input) {
          return input.empty() || constants.count(input) > 0 || found.count(input) > 0;
        });
    if (is_constant || is_only) {
      (is_constant ? constants : found).insert(node.output().begin(), node.output().end());
    }
  }
  return found;
}

// Replaces the ids by two inputs: the table of tokens is indexed with a slice of the ids, that of
// positions with what is computed from their last one.
absl::Status SplitIds(onnx::GraphProto& graph) {
  const std::set<std::string> of_ids = OnlyOf(graph, kIds);
  std::set<std::string> tokens;
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() == "Slice" && node.input(0) == kIds) {
      tokens.insert(node.output(0));
    }
  }
  int num_tokens = 0;
  int num_positions = 0;
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    if (node.op_type() != "Gather" || node.input_size() != 2 || of_ids.count(node.input(0)) > 0 ||
        of_ids.count(node.input(1)) == 0) {
      continue;
    }
    const bool is_token = tokens.count(node.input(1)) > 0;
    node.set_input(1, is_token ? kToken : kPosition);
    ++(is_token ? num_tokens : num_positions);
  }
  if (num_tokens != 1 || num_positions != 1) {
    return Invalid("'", kIds, "' indexes ", num_tokens, " tables of tokens and ", num_positions,
                   " of positions, where one of each is expected");
  }
  return absl::OkStatus();
}

// Replaces the 1 that the export wrote for the rows in Reshapes' targets by 0, "as the input has
// it", and declares rows in the ports.
void OpenRows(onnx::GraphProto& graph) {
  const auto integers = IntegersOf(graph);
  std::set<std::string> constants;
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    constants.insert(tensor.name());
  }
  int num_opened = 0;
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    const auto shape = node.op_type() == "Reshape" && node.input_size() == 2
                           ? integers.find(node.input(1))
                           : integers.end();
    if (shape == integers.end() || constants.count(node.input(0)) > 0 || shape->second.size() < 2 ||
        shape->second[0] != 1) {
      continue;
    }
    onnx::TensorProto& opened = *graph.add_initializer();
    opened.set_name(absl::StrCat("rows/shape_", num_opened++));
    opened.set_data_type(onnx::TensorProto::INT64);
    opened.add_dims(static_cast<int64_t>(shape->second.size()));
    opened.add_int64_data(0);  // as the input has it
    for (size_t i = 1; i < shape->second.size(); ++i) {
      opened.add_int64_data(shape->second[i]);
    }
    node.set_input(1, opened.name());
    node.clear_attribute();  // allowzero
  }
  for (auto* ports : {graph.mutable_input(), graph.mutable_output()}) {
    for (onnx::ValueInfoProto& port : *ports) {
      auto& shape = *port.mutable_type()->mutable_tensor_type()->mutable_shape();
      if (shape.dim_size() > 0) {
        shape.mutable_dim(0)->set_dim_param("rows");
      }
    }
  }
  graph.clear_value_info();
}

// The next value of decoder_mems_list_0 is called next_decoder_mems_list_0.
void NameStates(onnx::GraphProto& graph) {
  const auto rename = [](std::string& name) {
    if (absl::StartsWith(name, kNextMems)) {
      name = absl::StrCat("next_decoder_mems_list_", name.substr(sizeof(kNextMems) - 1));
    }
  };
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    std::for_each(node.mutable_input()->begin(), node.mutable_input()->end(), rename);
    std::for_each(node.mutable_output()->begin(), node.mutable_output()->end(), rename);
  }
  for (onnx::ValueInfoProto& output : *graph.mutable_output()) {
    rename(*output.mutable_name());
  }
}

// Keeps the nodes that the results are computed from.
void KeepRead(onnx::GraphProto& graph) {
  std::set<std::string> read;
  for (const onnx::ValueInfoProto& output : graph.output()) {
    read.insert(output.name());
  }
  std::vector<onnx::NodeProto> kept;
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    onnx::NodeProto& node = *graph.mutable_node(i);
    if (std::any_of(node.output().begin(), node.output().end(),
                    [&](const std::string& output) { return read.count(output) > 0; })) {
      read.insert(node.input().begin(), node.input().end());
      kept.push_back(std::move(node));
    }
  }
  graph.clear_node();
  for (auto node = kept.rbegin(); node != kept.rend(); ++node) {
    *graph.add_node() = std::move(*node);
  }
}

}  // namespace

bool IsCanary(const InitOptions& options) {
  return !options.encoder.empty() && !options.decoder.empty() && options.joiner.empty() &&
         MetadataOf(options.encoder)["model_type"] == "EncDecMultiTaskModel";
}

absl::StatusOr<ExportSettings> TakeCanarySettings(InitOptions& options) {
  ExportSettings settings;
  if (options.target_vocab.empty()) {
    options.target_vocab =
        (std::filesystem::path(options.encoder).parent_path() / "tokens.txt").string();
  }
  BW_ASSIGN_OR_RETURN(const std::string content, ReadFile(options.target_vocab));
  BW_ASSIGN_OR_RETURN(const TokenFile file,
                      ReadTokenFile(options.target_vocab, content, settings.reasons));
  settings.reasons.clear();  // the vocabulary is read again
  std::map<std::string, int32_t> ids;
  for (size_t i = 0; i < file.tokens.size(); ++i) {
    ids.try_emplace(file.tokens[i], static_cast<int32_t>(i));
  }
  if (options.source_language.empty()) {
    settings.unknown.push_back(
        "the language of the sound: answers begin with that of English; say another with --from, "
        "or for each request with `language`");
  }
  const std::string from = options.source_language.empty() ? "en" : options.source_language;
  const std::string to = options.target_language.empty() ? from : options.target_language;
  const std::vector<std::string> prompt = {
      "startofcontext", "startoftranscript", "emo:undefined", from, to, "pnc",
      "noitn",          "notimestamp",       "nodiarize"};
  auto& prefix = *settings.options.mutable_target_prefix()->mutable_ids();
  for (const std::string& name : prompt) {
    const auto found = ids.find(Special(name));
    if (found == ids.end()) {
      return Invalid("'", options.target_vocab, "' has no token '", Special(name),
                     "' of the prompt ", absl::StrJoin(prompt, ", "));
    }
    if (name != prompt[0]) {
      prefix.add_ids(found->second);
    }
  }
  settings.reasons.push_back(
      absl::StrCat("a Canary of NeMo, as metadata says; answers begin with the tokens ",
                   absl::StrJoin(prompt, ", ")));
  if (options.special.begin.empty()) {
    options.special.begin = Special(prompt[0]);
  }
  if (options.special.ends.empty()) {
    options.special.ends = {Special("endoftext")};
  }
  settings.options.set_beam_size(1);  // as NeMo
  return settings;
}

absl::StatusOr<std::string> CanaryStep(const std::string& decoder) {
  onnx::ModelProto model;
  if (!model.ParseFromString(decoder)) {
    return Invalid("it is no ONNX file");
  }
  onnx::GraphProto& graph = *model.mutable_graph();
  BW_RETURN_IF_ERROR(SplitIds(graph));
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs;
  for (onnx::ValueInfoProto& input : *graph.mutable_input()) {
    if (input.name() != kIds) {
      *inputs.Add() = std::move(input);
      continue;
    }
    if (input.type().tensor_type().shape().dim_size() != 2) {
      return Invalid("'", kIds, "' has no two axes");
    }
    for (const char* const name : {kToken, kPosition}) {
      onnx::ValueInfoProto& one = *inputs.Add();
      one = input;
      one.set_name(name);
      one.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(1)->set_dim_value(1);
    }
  }
  graph.mutable_input()->Swap(&inputs);
  OpenRows(graph);
  NameStates(graph);
  KeepRead(graph);
  return model.SerializeAsString();
}

}  // namespace beamwright::tools
