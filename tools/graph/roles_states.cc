// The states of a decoder's step: which input continues which output, where states start and how
// they grow.

#include <algorithm>

#include "absl/algorithm/container.h"
#include "ops/base/status.h"
#include "ops/compile/growing_states.h"
#include "ops/graph/trace.h"
#include "tools/graph/ports.h"
#include "tools/graph/roles.h"

namespace beamwright::ops {

// Pairs the inputs of a step with the outputs that are their next values. PairStatesByName: pairs
// that flags give; equal names; names alike but for words such as in and out, prev and next; names
// alike but for 0 and n. PairStatesByOrder: where as many inputs as outputs of one type and shape
// are left, in the file's order, with a reason that asks to check it. An ambiguous pair is an error
// that names the flag.

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

// Guesses where the inputs of a decoder that are not its tokens come from (FindStarts, after the
// states have been paired):
//
// 1. A state: StartState. A cache starts empty. Else the graph may say it itself (a variable's
//    initial value, StartAsTheGraphSays), or the encoder has a result for it (EncoderOutputFor), or
//    one result is memory and has the state's shape (MemoryOfItsShape); else it starts at zero.
// 2. In a graph with a loop, an input that only starts a loop's state.
// 3. A mask over a cache (MaskedCache): ones, or zeros for an additive mask, growing with the
//    cache.
// 4. The number of the step, by its name and type.
// 5. Anything else is memory (AddMemory): a result of the encoder, the source's length, or a mask
//    over the source.
//
// EncoderOutputFor tries a result of the same name, one of a name alike, the only one that fits by
// type and shape, and at last the one at the same place among those alike (Keras). The weaker the
// evidence, the more the reason asks to check it.

namespace {

// Whether an input is a state that grows.
bool IsCache(const DecoderGuess& guess, const Port& input) {
  const auto state = absl::c_find_if(
      guess.roles.states, [&](const StateRole& role) { return role.input == input.name; });
  const Port* const output =
      state == guess.roles.states.end() ? nullptr : FindPort(guess.outputs, state->output);
  return output != nullptr && Grows(guess.graph, input.node, output->node);
}

// The output of the first cache, if an input is a mask over what the step has read so far: it is
// not over the source, for there is no encoder, or by its name. Empty: it is not.
std::string MaskedCache(const DecoderGuess& guess, const Port& input) {
  const LengthKind kind = GuessLengthKind(guess.graph, input.node);
  const bool is_mask = kind == LengthKind::kMask || kind == LengthKind::kAdditiveMask;
  if (!is_mask || HasWord(input.name, {"encoder", "memory", "source", "src"}) ||
      (guess.has_encoder && !HasWord(input.name, {"decoder"}))) {
    return "";
  }
  for (const StateRole& state : guess.roles.states) {
    const Port* const port = FindPort(guess.inputs, state.input);
    if (port != nullptr && IsCache(guess, *port)) {
      return state.output;
    }
  }
  return "";
}

// The encoder's result for an input: the one of its name, of a name alike, or the only one that
// fits and that no other input of this type and shape could claim; if there are as many results as
// inputs, the one at the same place among them. Empty: none is found.
std::string EncoderOutputFor(const DecoderGuess& guess, const Port& input, std::string& why) {
  const Port* const named = FindPort(guess.encoder_outputs, input.name);
  if (named != nullptr && Fits(named->info, input.info)) {
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
           Fits(port.info, input.info) && !IsCache(guess, port);
  });
  if (open.size() == 1 && rivals.size() == 1) {
    why = absl::StrCat("the encoder's result '", open[0].name,
                       "', by type and shape alone; check this");
    return open[0].name;
  }
  // Keras' layers give their states as 'lstm' and 'lstm_1', and take them as 'input_3' and
  // 'input_4'.
  const auto own = std::find_if(rivals.begin(), rivals.end(),
                                [&](const Port& port) { return port.name == input.name; });
  if (open.size() == rivals.size() && own != rivals.end()) {
    const Port& result = open[static_cast<size_t>(own - rivals.begin())];
    why = absl::StrCat("the encoder's result '", result.name,
                       "', by the order of those alike alone; check this");
    return result.name;
  }
  return "";
}

// The only result that is read as memory and has exactly the shape of a state, open in its rows
// only: a source's vector that each step reads again, as in Cho et al. 2014. Empty: no such result.
std::string MemoryOfItsShape(const DecoderGuess& guess, const Port& input, std::string& why) {
  const Shape& dims = input.info.shape.dims();
  if (!input.info.shape.has_rank() || absl::c_count(dims, PartialShape::kDynamic) != 1) {
    return "";
  }
  const Ports same = Where(guess.encoder_outputs, [&](const Port& port) {
    const bool is_state = absl::c_any_of(
        guess.roles.states, [&](const StateRole& role) { return role.input == port.name; });
    return !is_state && FindPort(guess.inputs, port.name) != nullptr &&
           port.info.dtype == input.info.dtype && port.info.shape.has_rank() &&
           port.info.shape.dims() == dims;
  });
  if (same.size() != 1) {
    return "";
  }
  why = absl::StrCat("the encoder's result '", same[0].name,
                     "', which is memory and of its shape; check this");
  return same[0].name;
}

bool IsZero(const Node& node) {
  return node.op == "Constant" && node.constant.dtype() == DType::kF32 &&
         absl::c_all_of(node.constant.span<float>(), [](float value) { return value == 0; });
}

// Takes the initial value that a variable of the graph states: another input of the decoder, or
// zeros. False if the graph states none, or computes it.
bool StartAsTheGraphSays(DecoderGuess& guess, const Port& input, StateRole& state,
                         std::string& why) {
  const Port* const initial = FindPort(guess.initial, absl::StrCat(input.name, kInitialSuffix));
  if (initial == nullptr) {
    return false;
  }
  const Node* node = &guess.graph.node(guess.graph.node(initial->node).inputs[0].node);
  while (node->op == "Broadcast") {
    node = &guess.graph.node(node->inputs[0].node);
  }
  if (IsZero(*node)) {
    why = absl::StrCat("zeros: '", initial->name, "' is");
    return true;
  }
  const auto same = [&](const Port& port) { return &guess.graph.node(port.node) == node; };
  const Ports origin = Where(guess.inputs, same);
  if (!origin.empty() && Fits(origin[0].info, input.info)) {
    state.encoder_output = EncoderOutputFor(guess, origin[0], why);
    absl::StrAppend(&why, ": '", initial->name, "' is '", origin[0].name, "'");
    return !state.encoder_output.empty();
  }
  guess.Because("'", initial->name, "' is not read: a search does not compute where state '",
                input.name, "' starts; check that");
  return false;
}

// Whether every extent but that of the rows is known, wherever they are counted.
bool StateHasKnownExtents(const DecoderGuess& guess, const Port& input) {
  const PartialShape& shape = input.info.shape;
  if (!shape.has_rank() || shape.rank() < 1 || guess.roles.has_loop) {
    return false;
  }
  return std::count(shape.dims().begin(), shape.dims().end(), PartialShape::kDynamic) <= 1;
}

void StartState(DecoderGuess& guess, const Port& input, StateRole& state) {
  if (IsCache(guess, input) && FindPort(guess.encoder_outputs, input.name) == nullptr) {
    state.starts_at_zero = true;
    guess.Because("state '", input.name, "' starts empty, and is one longer after each step");
    return;
  }
  if (!guess.has_encoder) {
    state.starts_at_zero = StateHasKnownExtents(guess, input);
    guess.Because("state '", input.name,
                  state.starts_at_zero
                      ? "' starts with zeros, unless a request brings it: there is no encoder; "
                        "check this"
                      : "' starts with what the request brings: there is no encoder, and its "
                        "extents are not known");
    return;
  }
  std::string why;
  if (!StartAsTheGraphSays(guess, input, state, why)) {
    state.encoder_output = EncoderOutputFor(guess, input, why);
    if (state.encoder_output.empty() &&
        FindPort(guess.initial, absl::StrCat(input.name, kInitialSuffix)) == nullptr) {
      state.encoder_output = MemoryOfItsShape(guess, input, why);
    }
    if (state.encoder_output.empty()) {
      why = "zeros: no result of the encoder is alike";
    }
  }
  state.starts_at_zero = state.encoder_output.empty();
  guess.Because("state '", input.name, "' starts with ", why);
}

// Whether a result of the encoder has a name like an input's, but for words such as in and out.
bool HasAlike(const DecoderGuess& guess, const Port& input) {
  return absl::c_any_of(guess.encoder_outputs, [&](const Port& port) {
    return NameStem(port.name) == NameStem(input.name) && port.info.dtype == input.info.dtype;
  });
}

absl::Status AddMemory(DecoderGuess& guess, const Port& input) {
  MemoryRole memory;
  memory.input = input.name;
  std::string why = "what the request brings: there is no encoder";
  // A mask that the encoder hands on is the encoder's.
  const bool is_result = guess.has_encoder && !EncoderOutputFor(guess, input, why).empty();
  memory.length_kind = guess.IsEncoderOutput(input) || (is_result && HasAlike(guess, input))
                           ? LengthKind::kNone
                           : GuessLengthKind(guess.graph, input.node);
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
    } else if (const std::string cache = MaskedCache(guess, input); !cache.empty()) {
      StateRole mask{input.name, cache, "", true, 0};
      mask.constant =
          GuessLengthKind(guess.graph, input.node) == LengthKind::kAdditiveMask ? 0.0f : 1.0f;
      guess.Because("state '", input.name, "': a mask over '", cache,
                    "', by its name: it hides nothing");
      guess.roles.states.push_back(std::move(mask));
    } else if (!guess.roles.has_loop && LooksLikeCount(input) && !guess.IsEncoderOutput(input)) {
      guess.roles.states.emplace_back();
      guess.roles.states.back().input = input.name;
      guess.roles.states.back().starts_at_zero = true;
      guess.Because("state '", input.name, "': the number of the step, by its name and type");
    } else {
      BW_RETURN_IF_ERROR(AddMemory(guess, input));
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
