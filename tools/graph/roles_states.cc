// Pairs the inputs of a step with the outputs that are their next values. PairStatesByName: pairs
// that flags give; equal names; names alike but for words such as in and out, prev and next; names
// alike but for 0 and n. PairStatesByOrder: where as many inputs as outputs of one type and shape
// are left, in the file's order, with a reason that asks to check it. An ambiguous pair is an error
// that names the flag.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "ops/base/status.h"
#include "ops/compile/growing_states.h"
#include "tools/graph/decoder_guess.h"
#include "tools/graph/name_stem.h"

namespace beamwright::ops {
bool DecoderGuess::IsTaken(const Port& port) const {
  return std::any_of(roles.states.begin(), roles.states.end(), [&](const StateRole& state) {
    return state.input == port.name || state.output == port.name;
  });
}
bool DecoderGuess::IsFreeInput(const Port& port) const {
  return port.name != roles.token_input && !IsTaken(port) &&
         GuessLengthKind(graph, port.node) == LengthKind::kNone;
}
bool DecoderGuess::IsFreeOutput(const Port& port) const {
  return !IsTaken(port) && port.name != roles.logits_output &&
         port.name != roles.attention_output && port.name != hints.logits_output;
}

bool Grows(const Graph& graph, int parameter, int result) {
  const ValueId next = graph.node(result).inputs[0];
  const Node& last = graph.node(next.node);
  return GrowingAxis(graph, parameter, next) >= 0 ||
         (last.op == "Concat" && absl::c_linear_search(last.inputs, ValueId{parameter, 0}));
}

bool LooksLikeCount(const Port& port) {
  const PartialShape& shape = port.info.shape;
  const bool is_small =
      shape.has_rank() && (shape.rank() <= 1 || (shape.rank() == 2 && shape.dim(1) <= 1));
  return IsInteger(port.info.dtype) && is_small &&
         HasWord(port.name, {"offset", "position", "positions", "pos", "step"});
}

namespace {

void AddState(DecoderGuess& guess, const Port& input, const Port& output, absl::string_view why) {
  StateRole state;
  state.input = input.name;
  state.output = output.name;
  guess.roles.states.push_back(std::move(state));
  guess.Because("state '", input.name, "' <- '", output.name, "': ", why);
}

template <typename Stem>
absl::Status PairStems(DecoderGuess& guess, Stem stem_of, absl::string_view why) {
  for (const Port& input : guess.inputs) {
    const std::string stem = stem_of(input.name, true);
    if (stem.empty() || !guess.IsFreeInput(input)) {
      continue;
    }
    const Ports found = Where(guess.outputs, [&](const Port& output) {
      return guess.IsFreeOutput(output) && Fits(input.info, output.info) &&
             stem_of(output.name, false) == stem;
    });
    if (found.size() > 1) {
      return Invalid("the next value of state '", input.name, "' is one of ", Listing(found),
                     "; say which with --state ", input.name, "=OUTPUT");
    }
    if (found.size() == 1) {
      AddState(guess, input, found[0], why);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PairStatesByName(DecoderGuess& guess) {
  for (const auto& [input, output] : guess.hints.states) {
    const Port* from = FindPort(guess.inputs, input);
    const Port* to = FindPort(guess.outputs, output);
    if (from == nullptr || to == nullptr || !Fits(from->info, to->info)) {
      return Invalid("state '", input, "' <- '", output,
                     "' is not an input and an output of one "
                     "type and shape; the decoder has inputs ",
                     Listing(guess.inputs), " and outputs ", Listing(guess.outputs));
    }
    AddState(guess, *from, *to, "as given");
  }
  const auto whole = [](const std::string& name, bool) { return name; };
  BW_RETURN_IF_ERROR(PairStems(guess, whole, "of one name"));
  const auto strict = [](const std::string& name, bool) { return NameStem(name); };
  BW_RETURN_IF_ERROR(
      PairStems(guess, strict, "alike but for words such as in and out, prev and next"));
  return PairStems(guess, LooseStem, "alike but for 0 and n");
}

// Where names do not match: as many inputs as outputs of one type and shape, in the file's order.
absl::Status PairStatesByOrder(DecoderGuess& guess) {
  for (const Port& first : guess.inputs) {
    if (!guess.IsFreeInput(first)) {
      continue;
    }
    const auto like_first = [&](const Port& port) {
      return port.info.dtype == first.info.dtype && port.info.shape == first.info.shape;
    };
    const Ports from = Where(guess.inputs, [&](const Port& port) {
      return guess.IsFreeInput(port) && like_first(port);
    });
    const Ports to = Where(guess.outputs, [&](const Port& port) {
      return guess.IsFreeOutput(port) && like_first(port);
    });
    if (to.empty()) {
      continue;
    }
    if (from.size() != to.size()) {
      return Invalid("inputs ", Listing(from), " and outputs ", Listing(to),
                     " have one type and shape, and their names don't show which belong "
                     "together; say so with --state INPUT=OUTPUT");
    }
    for (size_t i = 0; i < from.size(); ++i) {
      AddState(guess, from[i], to[i],
               "by order among equal shapes, for want of likeness; check this");
    }
  }
  if (guess.roles.states.empty()) {
    return Invalid("no state found: no output looks like the next value of an input. Inputs: ",
                   Listing(guess.inputs), "; outputs: ", Listing(guess.outputs),
                   "; name pairs with --state INPUT=OUTPUT. Is it the encoder?");
  }
  return absl::OkStatus();
}

DecoderPorts PortsOf(const DecoderRoles& roles) {
  DecoderPorts ports;
  ports.token_input = roles.token_input;
  for (const StateRole& state : roles.states) {
    ports.states.push_back({state.input, state.output, state.constant});
  }
  for (const MemoryRole& memory : roles.memory) {
    ports.memory.push_back(memory.input);
  }
  ports.logits_output = roles.logits_output;
  ports.attention_output = roles.attention_output;
  return ports;
}

}  // namespace beamwright::ops
