// A grammar as the instructions of a machine that reads bytes, and the automaton that runs it on
// all of its ways at once.
#ifndef BEAMWRIGHT_ENGINE_GRAMMAR_PROGRAM_H_
#define BEAMWRIGHT_ENGINE_GRAMMAR_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/grammar/expression.h"

namespace beamwright::grammar {

// Program: a grammar as the instructions of a machine that reads bytes: a nondeterministic
// automaton (Thompson 1968) whose rules are called and return, so that what nests is followed by a
// stack. Automaton runs it.

inline constexpr int kMostInstructions = 1 << 16;

struct Instruction {
  enum class Kind : uint8_t {
    kByte,    // reads a byte in [low, high], goes on at `next`
    kSplit,   // goes on at `next` and at `other`
    kCall,    // goes on at `other`, and at `next` once that has returned
    kReturn,  // of rule 0: the text is complete
    kFail,
  };
  Kind kind = Kind::kFail;
  uint8_t low = 0;
  uint8_t high = 0;
  // Whether a text can be completed from here. Others are never gone to.
  bool is_live = false;
  int32_t next = 0;
  int32_t other = 0;
};

struct Program {
  std::vector<Instruction> instructions;
  int32_t start = 0;
  // Bytes that every instruction treats alike have one class.
  std::array<uint8_t, 256> byte_class{};
  int num_classes = 0;
};

// InvalidArgument: more than kMostInstructions, or no text is in the grammar.
absl::StatusOr<Program> Compile(const Grammar& grammar);

// Automaton: a program run on all of its ways at once. A state is the set of places that the
// program may be at behind the bytes that were read, each with the rules that it returns to; states
// and transitions are made when a text first comes to them, and kept (RE2's lazy DFA, with stacks).

// One thread at a time.
class Automaton {
 public:
  // No text of the grammar begins so.
  static constexpr int32_t kDead = 0;
  // Rules that a place returns to: what nests deeper is no text.
  static constexpr int kMostDepth = 64;
  // Of a state.
  static constexpr size_t kMostPlaces = 4096;

  struct Limits {
    int64_t bytes = int64_t{8} << 20;
    // Instructions followed to make states.
    int64_t work = int64_t{1} << 23;
  };

  Automaton(std::shared_ptr<const Program> program, Limits limits);

  int32_t start() const { return start_; }
  int32_t Step(int32_t state, uint8_t byte) {
    const size_t at = static_cast<size_t>(state) * static_cast<size_t>(program_->num_classes) +
                      program_->byte_class[byte];
    const int32_t known = next_[at];
    return known >= 0 ? known : Make(state, byte, at);
  }
  // Whether the text up to here is complete.
  bool Accepts(int32_t state) const { return states_[static_cast<size_t>(state)].accepts; }

  // Whether a state was left out, and kDead is in its place, because limits were reached.
  bool is_full() const { return is_full_; }
  int32_t num_states() const { return static_cast<int32_t>(states_.size()); }
  int64_t num_bytes() const { return bytes_; }

 private:
  using Place = std::pair<int32_t, int32_t>;  // an instruction, and a stack

  struct Frame {  // of stacks, which share what lies below
    int32_t below = 0;
    int32_t back = 0;  // the instruction to return to
    int32_t depth = 0;
  };
  struct State {
    size_t begin = 0;  // its places
    size_t end = 0;
    bool accepts = false;
  };

  int32_t Make(int32_t state, uint8_t byte, size_t at);
  // Adds to places_ what is reached from `first` without reading. False: limits were reached.
  bool Follow(Place first, std::vector<Place>& reached, bool& accepts);
  int32_t Push(int32_t below, int32_t back);
  int32_t Intern(std::vector<Place> reached, bool accepts);

  std::shared_ptr<const Program> program_;
  Limits limits_;
  std::vector<Frame> frames_;  // number 0: the empty stack
  absl::flat_hash_map<std::pair<int32_t, int32_t>, int32_t> frame_numbers_;
  std::vector<Place> places_;
  std::vector<State> states_;
  std::vector<int32_t> next_;  // [state][class]; -1: not made yet
  absl::flat_hash_map<std::pair<std::vector<Place>, bool>, int32_t> numbers_;
  absl::flat_hash_set<Place> seen_;  // of a state in the making
  int32_t start_ = kDead;
  int64_t bytes_ = 0;
  int64_t work_ = 0;
  bool is_full_ = false;
};

}  // namespace beamwright::grammar

#endif  // BEAMWRIGHT_ENGINE_GRAMMAR_PROGRAM_H_
