// Says where each input of a decoder comes from (FindDecoderInputs): a constant, the source's
// length or a mask, the encoder's result of the same or a configured name, or the request. All
// faults are collected: results that the encoder does not have, types and shapes that cannot agree
// (Disagree; "are the two files of one model?"), names in the configuration that fit no input.
//
// States that start with zeros are made once and shared by all requests.
#include "engine/model/decoder_inputs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "engine/model/model_inputs.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

using ops::Graph;
using ops::ValueId;

const v1::StateConfig* FindState(const v1::DecoderConfig& config, const std::string& input) {
  for (const v1::StateConfig& state : config.states()) {
    if (state.input() == input) {
      return &state;
    }
  }
  return nullptr;
}

// Number of the encoder's result of that name; -1 if missing.
int FindEncoderOutput(const Graph& encoder, const std::string& name) {
  for (size_t i = 0; i < encoder.results.size(); ++i) {
    if (PortName(encoder, encoder.results[i]) == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::string NamesOfResults(const Graph& encoder) {
  return absl::StrCat("'",
                      absl::StrJoin(encoder.results, "', '",
                                    [&](std::string* out, int node) {
                                      absl::StrAppend(out, PortName(encoder, node));
                                    }),
                      "'");
}

// Whether no value can have both types and shapes: the types differ, or the ranks, or extents that
// both graphs fix.
bool Disagree(const ops::ValueInfo& given, const ops::ValueInfo& taken, bool layers_first) {
  if (given.dtype != taken.dtype) {
    return true;
  }
  if (!given.shape.has_rank() || !taken.shape.has_rank()) {
    return false;
  }
  ops::Shape from = given.shape.dims();
  if (layers_first && from.size() > 1) {
    std::swap(from[0], from[1]);
  }
  const ops::Shape& to = taken.shape.dims();
  return !std::equal(from.begin(), from.end(), to.begin(), to.end(), [](int64_t x, int64_t y) {
    return x == y || x == ops::PartialShape::kDynamic || y == ops::PartialShape::kDynamic;
  });
}

// The number of the encoder's result that a decoder's input reads; -1 with a fault if there is no
// such result.
int ReadEncoderOutput(const Graph& encoder, const Graph& graph, const DecoderInput& input,
                      const std::string& name, std::vector<std::string>& faults) {
  const int found = FindEncoderOutput(encoder, name);
  if (found < 0) {
    faults.push_back(absl::StrCat("decoder input '", input.name, "' reads encoder output '", name,
                                  "', which the encoder does not have; it has ",
                                  NamesOfResults(encoder)));
    return found;
  }
  const int result = encoder.results[static_cast<size_t>(found)];
  const ops::ValueInfo& given = encoder.info(encoder.node(result).inputs[0]);
  const ops::ValueInfo& taken = graph.node(input.node).outputs[0];
  if (Disagree(given, taken, input.layers_first)) {
    faults.push_back(absl::StrCat("decoder input '", input.name, "' is ", Name(taken.dtype),
                                  taken.shape.ToString(), ", encoder output '", name, "' ",
                                  Name(given.dtype), given.shape.ToString(),
                                  "; are the two files of one model?"));
  }
  return found;
}

// A name in the configuration that fits nothing is a mistake, not a preference.
void CheckConfiguredNames(const v1::DecoderConfig& config, const DecoderPart& decoder,
                          std::vector<std::string>& faults) {
  const auto check = [&](absl::string_view field, const std::string& name) {
    const bool known = std::any_of(decoder.inputs.begin(), decoder.inputs.end(),
                                   [&](const DecoderInput& input) { return input.name == name; });
    if (!known) {
      faults.push_back(absl::StrCat(field, ": the decoder has no input '", name, "'"));
    }
  };
  for (const v1::StateConfig& state : config.states()) {
    check("decoder.states", state.input());
  }
  for (const v1::MemoryConfig& memory : config.memory()) {
    check("decoder.memory", memory.input());
  }
}

}  // namespace

absl::Status FindDecoderInputs(const v1::DecoderConfig& config, DecoderPart& decoder) {
  const Graph& graph = decoder.decoder;
  std::vector<std::string> faults;
  for (const int node : decoder.input_nodes) {
    DecoderInput input;
    input.name = PortName(graph, node);
    input.node = node;
    const auto carried =
        std::find(decoder.state_values.begin(), decoder.state_values.end(), ValueId{node, 0});
    const bool counts = absl::c_linear_search(decoder.count_nodes, node);
    input.is_state = carried != decoder.state_values.end() || counts;
    if (input.is_state && !counts) {
      input.growing_axis =
          decoder.body->growing_axis(static_cast<size_t>(carried - decoder.state_values.begin()));
    }
    input.has_own_start = input.growing_axis >= 0 || counts;
    input.layers_first = std::find(decoder.moved_states.begin(), decoder.moved_states.end(),
                                   input.name) != decoder.moved_states.end();
    std::string encoder_output = input.name;
    if (const v1::StateConfig* state = FindState(config, input.name)) {
      input.has_constant = state->has_constant();
      input.constant = state->constant();
      if (!state->encoder_output().empty()) {
        encoder_output = state->encoder_output();
      }
    }
    for (const v1::MemoryConfig& memory : config.memory()) {
      if (memory.input() == input.name) {
        if (!memory.encoder_output().empty()) {
          encoder_output = memory.encoder_output();
        }
        input.length_kind = memory.length_kind();
      }
    }
    const bool given = input.has_constant || input.length_kind != v1::LENGTH_INPUT_NONE;
    if (!given && decoder.encoder != nullptr) {
      input.encoder_output =
          ReadEncoderOutput(decoder.encoder->model->graph(), graph, input, encoder_output, faults);
    }
    decoder.inputs.push_back(input);
  }
  // States of zeros may be large, and are the same for all requests. If one cannot be made,
  // requests that need it get the error.
  for (DecoderInput& input : decoder.inputs) {
    if (!input.has_constant) {
      continue;
    }
    absl::StatusOr<ops::Tensor> made = ConstantInput(decoder, input);
    if (made.ok()) {
      input.constant_tensor = *std::move(made);
    }
  }
  CheckConfiguredNames(config, decoder, faults);
  return faults.empty() ? absl::OkStatus() : Invalid(absl::StrJoin(faults, "; "));
}

}  // namespace beamwright::engine
