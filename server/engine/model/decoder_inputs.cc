#include "server/engine/model/decoder_inputs.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
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

absl::StatusOr<int> FindEncoderOutput(const Graph& encoder, const std::string& input,
                                      const std::string& name) {
  std::vector<std::string> names;
  for (size_t i = 0; i < encoder.results.size(); ++i) {
    names.push_back(PortName(encoder, encoder.results[i]));
    if (names.back() == name) {
      return static_cast<int>(i);
    }
  }
  return Invalid("decoder input '", input, "' reads encoder output '", name,
                 "', which the encoder does not have; it has '", absl::StrJoin(names, "', '"), "'");
}

// A name in the configuration that fits nothing is a mistake, not a preference.
absl::Status CheckConfiguredNames(const v1::DecoderConfig& config, const DecoderPart& decoder) {
  const auto known = [&decoder](const std::string& name) {
    return std::any_of(decoder.inputs.begin(), decoder.inputs.end(),
                       [&](const DecoderInput& input) { return input.name == name; });
  };
  for (const v1::StateConfig& state : config.states()) {
    if (!known(state.input())) {
      return Invalid("decoder.states: the decoder has no input '", state.input(), "'");
    }
  }
  for (const v1::MemoryConfig& memory : config.memory()) {
    if (!known(memory.input())) {
      return Invalid("decoder.memory: the decoder has no input '", memory.input(), "'");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FindDecoderInputs(const v1::DecoderConfig& config, DecoderPart& decoder) {
  const Graph& graph = decoder.decoder;
  for (const int node : decoder.input_nodes) {
    DecoderInput input;
    input.name = PortName(graph, node);
    input.node = node;
    input.is_state = std::find(decoder.state_values.begin(), decoder.state_values.end(),
                               ValueId{node, 0}) != decoder.state_values.end();
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
      BW_ASSIGN_OR_RETURN(input.encoder_output, FindEncoderOutput(decoder.encoder->model->graph(),
                                                                  input.name, encoder_output));
    }
    decoder.inputs.push_back(input);
  }
  return CheckConfiguredNames(config, decoder);
}

}  // namespace beamwright::engine
