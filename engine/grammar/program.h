// Program: a grammar as the instructions of a machine that reads bytes: a nondeterministic
// automaton (Thompson 1968) whose rules are called and return, so that what nests is followed by a
// stack. Automaton (automaton.h) runs it.
#ifndef BEAMWRIGHT_ENGINE_GRAMMAR_PROGRAM_H_
#define BEAMWRIGHT_ENGINE_GRAMMAR_PROGRAM_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/grammar/expression.h"

namespace beamwright::grammar {

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

}  // namespace beamwright::grammar

#endif  // BEAMWRIGHT_ENGINE_GRAMMAR_PROGRAM_H_
