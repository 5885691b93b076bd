#include <algorithm>

#include "ops/base/status.h"
#include "ops/tools/decoder_guess.h"
#include "ops/tools/name_stem.h"
#include "ops/tools/trace.h"

namespace beamwright::ops {
namespace {

// The encoder's result for an input: of its name, of a name alike, or the only one that fits and
// that no other input of this type and shape could claim. Empty: none.
std::string EncoderOutputFor(const DecoderGuess& guess, const Port& input, std::string& why) {
  if (guess.IsEncoderOutput(input)) {
    why = "the encoder's result of that name";
    return input.name;
  }
  const auto fits = [&](const Port& port) { return Fits(port.info, input.info); };
  const Ports alike = Where(guess.encoder_outputs, [&](const Port& port) {
    const std::string stem = NameStem(port.name);
    return !stem.empty() && stem == NameStem(input.name) && fits(port);
  });
  if (alike.size() == 1) {
    why = absl::StrCat("the encoder's result '", alike[0].name, "', a name alike");
    return alike[0].name;
  }
  const auto unclaimed = [&](const Port& port) {
    return FindPort(guess.inputs, port.name) == nullptr;
  };
  const Ports open =
      Where(guess.encoder_outputs, [&](const Port& port) { return fits(port) && unclaimed(port); });
  const Ports rivals = Where(guess.inputs, [&](const Port& port) {
    return port.name != guess.roles.token_input && !guess.IsEncoderOutput(port) &&
           Fits(port.info, input.info);
  });
  if (open.size() == 1 && rivals.size() == 1) {
    why = absl::StrCat("the encoder's result '", open[0].name,
                       "', by type and shape alone; check this");
    return open[0].name;
  }
  return "";
}

void StartState(DecoderGuess& guess, const Port& input, StateRole& state) {
  std::string why;
  state.encoder_output = EncoderOutputFor(guess, input, why);
  state.starts_at_zero = guess.has_encoder && state.encoder_output.empty();
  guess.Because("state '", input.name, "' starts with ",
                !guess.has_encoder     ? "what the request brings: there is no encoder"
                : state.starts_at_zero ? "zeros: no result of the encoder is alike"
                                       : why);
}

absl::Status AddMemory(DecoderGuess& guess, const Port& input) {
  MemoryRole memory;
  memory.input = input.name;
  std::string why = "what the request brings: there is no encoder";
  memory.length_kind =
      guess.IsEncoderOutput(input) ? LengthKind::kNone : GuessLengthKind(guess.graph, input.node);
  if (memory.length_kind != LengthKind::kNone) {
    const bool lengths = memory.length_kind == LengthKind::kLengths;
    why = lengths ? "the source's length, by its name and type"
                  : "a mask over the source, by its name and type";
  } else if (guess.has_encoder) {
    memory.encoder_output = EncoderOutputFor(guess, input, why);
    if (memory.encoder_output.empty()) {
      return Invalid("nothing is known to feed the decoder's input ", Listing({input}),
                     "; the encoder's results are ", Listing(guess.encoder_outputs),
                     ". Give the result the input's name, or pair a state with --state");
    }
  }
  guess.Because("memory '", input.name, "': ", why);
  guess.roles.memory.push_back(std::move(memory));
  return absl::OkStatus();
}

}  // namespace

absl::Status FindStarts(DecoderGuess& guess) {
  for (const Port& input : guess.inputs) {
    if (input.name == guess.roles.token_input) {
      continue;
    }
    const auto state = std::find_if(guess.roles.states.begin(), guess.roles.states.end(),
                                    [&](const StateRole& s) { return s.input == input.name; });
    const bool starts_loop = guess.roles.has_loop && StartsLoopState(guess.graph, input.node);
    if (state != guess.roles.states.end()) {
      StartState(guess, input, *state);
    } else if (starts_loop) {
      guess.roles.states.emplace_back();
      guess.roles.states.back().input = input.name;
      StartState(guess, input, guess.roles.states.back());
    } else {
      BW_RETURN_IF_ERROR(AddMemory(guess, input));
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
